"""The roofline: the least time that a device's ceilings allow.

Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. A kernel that does F operations and moves B bytes can't take less
than max(B / bandwidth, F / peak); the two are equal at the ridge, peak / bandwidth.

Bandwidth depends on where the data lives. The bound must stay a lower bound on time, so it takes
the fastest ceiling that the workload could reach:

- A working set that fits in a cache is bounded by the largest measured one that is not larger than
  it: data of that size or more is at best that close to the core. A larger set that measured faster
  counts as well, since bandwidth only falls as data grows and the difference is a disturbance.
- A working set larger than the last cache is bounded by the largest measured one: memory's own
  speed. Up to one cacheful of it can be there from before, or be left there unwritten, so a time is
  called impossible only if it is below the floor by more than that share (`Bound.slack`).
- Of the access patterns, `read` for a kernel that (almost) only reads, else the fastest of all.
- Of the thread counts, every one up to the processors that the kernel may use.

A GPU is one processor here: its ceilings are the whole device's. Its buffers rotate between timed
calls, over three times its last cache, so data comes from memory however small it is. Matrix
products are bounded by its matrix units where those know the type: float32 does not count as such
unless the target allows TF32.

A ceiling is measured, or printed in the device's datasheet; the target says which of the two floor
and goal stand on. A time is called impossible by the higher of both, with the margins below, and by
operations that somebody vouches for (`Cost.least_flops`): one algorithm's count is no proof that no
other does with less. Bytes that are a guess prove nothing, either (`Cost.least_bytes`). That a
product can be put together from faster ones of less precise types widens the slack too, not the
floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from roofsmith.analysis.ceilings import (
    chosen,
    highest,
    matrix_peaks,
    measured_ceilings,
    printed_ceilings,
)
from roofsmith.analysis.residency import MEMORY, capacity_bytes, data_caches, residency
from roofsmith.domain.bound import Bound, CeilingKind, CeilingPair, Cost
from roofsmith.domain.device import Device
from roofsmith.domain.facts import Fact, FactSheet
from roofsmith.domain.workload import Workload

FLOOR_MARGIN = 0.10
"""How far below the floor a time in memory must be to be impossible: measured bandwidths repeat
within 2% while nothing else runs, and within a few percent more across minutes and neighbours."""

CLOCKED_FLOOR_MARGIN = 0.25
"""The same where the ceiling runs at the core's clock: arithmetic, and bandwidth of the caches.
Clocks move with temperature and load, on shared hosts the most: one Zen 3 virtual machine ran at
2.2 to 2.9 GHz within an hour, at the same two FMA per cycle."""

ROTATED_CACHES = 3
"""Last caches that the buffers of a GPU's timed calls cover together, at least."""

LARGEST_CACHED_SHARE = 0.5
"""Cap on the share of bytes that caches may hold back: a working set just past the cache, read in
order under least-recently-used replacement, evicts what it will need next."""


def bound(
    workload: Workload,
    cost: Cost,
    facts: FactSheet,
    device: Device,
    threads: int,
    *,
    working_set_bytes: float | None = None,
    tf32: bool = False,
    ceilings: CeilingKind = "measured",
) -> Bound:
    """The least time for one workload, with the facts that it rests on.

    Args:
        workload: names the bound.
        cost: FLOPs and bytes; a half that is UNKNOWN gives a partial bound, with the reason.
        facts: measured ceilings, and the device's datasheet if it has one.
        device: its caches say which level holds the working set.
        threads: processors that the kernel may use.
        working_set_bytes: bytes of all arrays together; None: the bytes that the cost moves.
        tf32: whether float32 matrix products may be done in TF32.
        ceilings: which kind the floor is computed with; the other's, where that has none.
    """
    moved = cost.total_bytes
    held = working_set_bytes if working_set_bytes is not None else moved
    rotated = device.kind != "cpu"
    level = residency(device, held, threads) if held is not None and not rotated else MEMORY
    measured = measured_ceilings(cost, facts, device, threads, held, level, tf32=tf32)
    sheet = facts.datasheet
    datasheet = printed_ceilings(cost, sheet, device, level, tf32=tf32) if sheet else None
    used, notes = chosen(ceilings, measured, datasheet)
    memory_s, compute_s = _seconds(moved, used.bandwidth), _seconds(cost.flops, used.peak)
    floor = max((s for s in (memory_s, compute_s) if s is not None), default=0.0)
    pairs = [measured, datasheet] if datasheet else [measured]
    least_s, proof = max(
        _memory_limit(cost, pairs, level, device, threads),
        _compute_limit(cost, pairs, matrix_peaks(cost, facts, device)),
        key=lambda limit: limit[0],
    )
    bandwidth, peak = used.bandwidth, used.peak
    return Bound(
        workload=workload.label,
        cost=cost,
        intensity=cost.flops / moved if cost.flops is not None and moved else None,
        ridge=peak.value / bandwidth.value if peak.value and bandwidth.value else None,
        limiter=_limiter(memory_s, compute_s),
        floor_time_s=floor if floor > 0 else None,
        slack=min(max(1 - least_s / floor, 0.0), LARGEST_SLACK) if floor > 0 else FLOOR_MARGIN,
        bandwidth=bandwidth,
        peak=peak,
        measured=measured,
        datasheet=datasheet,
        proof=proof,
        working_set=level,
        reason=_reason(cost, used, notes, memory_s, compute_s),
    )


def roofline_fraction(bound: Bound, time_s: float) -> float | None:
    """Floor over measured time: 1 is the limit. None if the floor is UNKNOWN."""
    if bound.floor_time_s is None or not time_s > 0:
        return None
    return bound.floor_time_s / time_s


def geometric_mean(fractions: Iterable[float | None]) -> float | None:
    """Geometric mean of the known fractions; None if there is none."""
    known = [fraction for fraction in fractions if fraction is not None and fraction > 0]
    if not known:
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))


def below_floor(bound: Bound, time_s: float) -> str | None:
    """Why a measured time is physically impossible; None if it isn't, or nothing is known.

    `Bound.slack` is the margin: ceilings don't repeat exactly, caches hold data back, and the
    higher of the measured and the printed ceiling is what a time has to contradict.

    Returns:
        A sentence with the arithmetic and the ceiling that the time contradicts.
    """
    if bound.floor_time_s is None:
        return None
    slack = bound.slack
    if time_s >= (1 - slack) * bound.floor_time_s:
        return None
    ceiling = bound.proof or (bound.bandwidth if bound.limiter == "memory" else bound.peak)
    if ceiling.unit == bound.bandwidth.unit:
        work, unit = bound.cost.total_bytes, "byte"
    else:
        least, unit = bound.cost.least_flops, "FLOP"
        work = bound.cost.flops if least is None else least
    rate = f"{work / time_s:.4g} {unit}/s" if work is not None and time_s > 0 else "no time at all"
    return (
        f"{bound.workload}: {time_s:.4g} s is below {1 - slack:.0%} of the floor of"
        f" {bound.floor_time_s:.4g} s: {work:.6g} {unit} in that time is {rate},"
        f" above the ceiling {ceiling}"
    )


LARGEST_SLACK = 1 - 1e-6
"""Of a floor that nothing proves: no time is impossible then."""

Limit = tuple[float, Fact | None]
"""Seconds below which a time is impossible (0: none is), and the ceiling that says so."""


def _memory_limit(
    cost: Cost, pairs: list[CeilingPair], level: str, device: Device, threads: int
) -> Limit:
    """By bytes: what caches can hold back comes off."""
    ceiling = highest([pair.bandwidth for pair in pairs])
    moved = cost.total_bytes if cost.least_bytes is None else cost.least_bytes
    if ceiling is None or not moved or not ceiling.value:
        return 0.0, None
    margin = CLOCKED_FLOOR_MARGIN if level != MEMORY else _held_back(moved, device, threads)
    return (1 - margin) * moved / ceiling.value, ceiling


def _held_back(moved: float, device: Device, threads: int) -> float:
    """Repeatability of memory's bandwidth, and the share of bytes that a cache can keep."""
    caches = data_caches(device)
    if not caches:
        return FLOOR_MARGIN
    capacity = capacity_bytes(caches[-1], threads)
    covered = moved if device.kind == "cpu" else max(moved, ROTATED_CACHES * capacity)
    share = min(capacity / covered, LARGEST_CACHED_SHARE)
    return FLOOR_MARGIN + (1 - FLOOR_MARGIN) * share


def _compute_limit(cost: Cost, pairs: list[CeilingPair], matrix: list[Fact]) -> Limit:
    """By operations that nobody does without; where no peak is known, nothing is higher than it."""
    peaks = [pair.peak for pair in pairs if pair.peak.value is not None]
    ceiling = highest([*peaks, *matrix]) if peaks else None
    least = cost.flops if cost.least_flops is None else cost.least_flops
    if ceiling is None or not least or not ceiling.value:
        return 0.0, None
    return (1 - CLOCKED_FLOOR_MARGIN) * least / ceiling.value, ceiling


def _seconds(work: float | None, ceiling: Fact) -> float | None:
    if work is None or ceiling.value is None:
        return None
    return work / ceiling.value


def _limiter(
    memory_s: float | None, compute_s: float | None
) -> Literal["memory", "compute", "unknown"]:
    if memory_s is None and compute_s is None:
        return "unknown"
    if compute_s is None or (memory_s is not None and memory_s >= compute_s):
        return "memory"
    return "compute"


def _reason(
    cost: Cost,
    used: CeilingPair,
    notes: tuple[str, ...],
    memory_s: float | None,
    compute_s: float | None,
) -> str | None:
    causes = [*([cost.reason] if cost.reason else []), *notes]
    if memory_s is None or compute_s is None:
        causes += [str(fact) for fact in (used.bandwidth, used.peak) if fact.value is None]
        missing = {
            (True, True): "no bound",
            (True, False): "no memory half: only the compute floor",
        }
        what = missing.get(
            (memory_s is None, compute_s is None), "no compute half: only bytes count"
        )
        return f"{what}; " + "; ".join(causes)
    return "; ".join(causes) or None
