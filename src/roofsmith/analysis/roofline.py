"""The roofline: the least time that a device's measured ceilings allow.

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
unless the target allows TF32. That a float32 product can still be put together from faster ones of
less precise types (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores",
2022) widens the slack, not the floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from roofsmith.analysis.residency import MEMORY, capacity_bytes, data_caches, residency
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.device import Device
from roofsmith.domain.facts import (
    ArithmeticType,
    BandwidthCeiling,
    ComputeCeiling,
    Fact,
    FactSheet,
)
from roofsmith.domain.workload import Workload

PURE_READER_WRITE_SHARE = 0.01
"""Up to this share of written bytes a kernel counts as a reader: its writes are below the
repeatability of the measured ceilings, 2%."""

FLOOR_MARGIN = 0.10
"""How far below the floor a time in memory must be to be impossible: measured bandwidths repeat
within 2% while nothing else runs, and within a few percent more across minutes and neighbours."""

CLOCKED_FLOOR_MARGIN = 0.25
"""The same where the ceiling runs at the core's clock: arithmetic, and bandwidth of the caches.
Clocks move with temperature and load, on shared hosts the most: one Zen 3 virtual machine ran at
2.2 to 2.9 GHz within an hour, at the same two FMA per cycle."""


ROTATED_CACHES = 3
"""Last caches that the buffers of a GPU's timed calls cover together, at least."""

MATRIX_TYPES: Final = ("float16", "bfloat16", "int8")
"""What the matrix units of every GPU that has some work on."""

COMPOSED: Final[tuple[ArithmeticType, ...]] = ("tfloat32", "bfloat16", "float16")
"""Types of matrix units that float32 products are put together from."""

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
) -> Bound:
    """The least time for one workload, with the facts that it rests on.

    Args:
        workload: names the bound.
        cost: FLOPs and bytes; a half that is UNKNOWN gives a partial bound, with the reason.
        facts: measured ceilings.
        device: its caches say which level holds the working set.
        threads: processors that the kernel may use.
        working_set_bytes: bytes of all arrays together; None: the bytes that the cost moves.
        tf32: whether float32 matrix products may be done in TF32.
    """
    moved = cost.total_bytes
    held = working_set_bytes if working_set_bytes is not None else moved
    rotated = device.kind != "cpu"
    level = residency(device, held, threads) if held is not None and not rotated else MEMORY
    bandwidth = _bandwidth(cost, facts.bandwidth, threads, held, level)
    peak = _peak(cost, facts.compute, threads, device, tf32)
    memory_s = _seconds(moved, bandwidth)
    compute_s = _seconds(cost.flops, peak)
    known = [seconds for seconds in (memory_s, compute_s) if seconds is not None]
    floor = max(known, default=0.0)
    limiter = _limiter(memory_s, compute_s)
    return Bound(
        workload=workload.label,
        cost=cost,
        intensity=cost.flops / moved if cost.flops is not None and moved else None,
        ridge=peak.value / bandwidth.value if peak.value and bandwidth.value else None,
        limiter=limiter,
        floor_time_s=floor if floor > 0 else None,
        slack=max(
            _slack(limiter, level, moved, device, threads),
            _composed_slack(cost, facts.compute, floor, memory_s, device),
        ),
        bandwidth=bandwidth,
        peak=peak,
        working_set=level,
        reason=_reason(cost, bandwidth, peak, memory_s, compute_s),
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

    `Bound.slack` is the margin: the floor rests on measurements that don't repeat exactly.

    Returns:
        A sentence with the arithmetic and the ceiling that the time contradicts.
    """
    if bound.floor_time_s is None:
        return None
    slack = bound.slack
    if time_s >= (1 - slack) * bound.floor_time_s:
        return None
    if bound.limiter == "memory":
        work, unit, ceiling = bound.cost.total_bytes, "byte", bound.bandwidth
    else:
        work, unit, ceiling = bound.cost.flops, "FLOP", bound.peak
    rate = f"{work / time_s:.4g} {unit}/s" if work is not None and time_s > 0 else "no time at all"
    return (
        f"{bound.workload}: {time_s:.4g} s is below {1 - slack:.0%} of the floor of"
        f" {bound.floor_time_s:.4g} s: {work:.6g} {unit} in that time is {rate},"
        f" above the ceiling {ceiling}"
    )


def _seconds(work: float | None, ceiling: Fact) -> float | None:
    if work is None or ceiling.value is None:
        return None
    return work / ceiling.value


def _slack(limiter: str, level: str, moved: float | None, device: Device, threads: int) -> float:
    """Repeatability of the ceiling; for memory also the share that a cache can hold back."""
    if limiter != "memory" or level != MEMORY:
        return CLOCKED_FLOOR_MARGIN
    caches = data_caches(device)
    if not caches or not moved:
        return FLOOR_MARGIN
    capacity = capacity_bytes(caches[-1], threads)
    covered = moved if device.kind == "cpu" else max(moved, ROTATED_CACHES * capacity)
    held_back = capacity / covered
    return FLOOR_MARGIN + (1 - FLOOR_MARGIN) * min(held_back, LARGEST_CACHED_SHARE)


def _composed_slack(
    cost: Cost,
    ceilings: Sequence[ComputeCeiling],
    floor_s: float,
    memory_s: float | None,
    device: Device,
) -> float:
    """How far below the floor matrix units could go for float32 products, as a share of it."""
    if device.kind == "cpu" or not cost.matrix_product or cost.dtype != "float32" or not cost.flops:
        return 0.0
    rates = [
        c.fact.value
        for c in ceilings
        if c.operation == "mma" and c.dtype in COMPOSED and c.fact.value is not None
    ]
    if not rates or floor_s <= 0:
        return 0.0
    least_s = max(cost.flops / max(rates), memory_s or 0.0)
    return max(1 - (1 - CLOCKED_FLOOR_MARGIN) * least_s / floor_s, 0.0)


def _limiter(
    memory_s: float | None, compute_s: float | None
) -> Literal["memory", "compute", "unknown"]:
    if memory_s is None and compute_s is None:
        return "unknown"
    if compute_s is None or (memory_s is not None and memory_s >= compute_s):
        return "memory"
    return "compute"


def _reason(
    cost: Cost, bandwidth: Fact, peak: Fact, memory_s: float | None, compute_s: float | None
) -> str | None:
    if memory_s is not None and compute_s is not None:
        return cost.reason
    causes = [cost.reason] if cost.reason else []
    causes += [str(fact) for fact in (bandwidth, peak) if fact.value is None]
    missing = {(True, True): "no bound", (True, False): "no memory half: only the compute floor"}
    what = missing.get((memory_s is None, compute_s is None), "no compute half: only bytes count")
    return f"{what}; " + "; ".join(causes)


def _bandwidth(
    cost: Cost, ceilings: Sequence[BandwidthCeiling], threads: int, held: float | None, level: str
) -> Fact:
    """The fastest bandwidth that a working set of `held` bytes could see."""
    measured = [c for c in ceilings if c.fact.value is not None]
    usable = _thread_counts({c.threads for c in measured}, threads)
    patterns = {"read"} if _only_reads(cost) else {"read", "copy", "triad"}
    measured = [c for c in measured if c.threads in usable and c.pattern in patterns]
    if not measured:
        return _unknown("bandwidth", "byte/s", threads, [c.fact for c in ceilings])
    if held is None:
        return Fact(metric="bandwidth", value=None, unit="byte/s", reason="bytes are UNKNOWN")
    # The count asked for comes first, so that it is the one cited where several are equal.
    least = math.inf if level == MEMORY else held
    reachable = [c for n in sorted(usable, reverse=True) for c in _at_least(measured, n, least)]
    return max((c.fact for c in reachable), key=lambda fact: fact.value or 0.0)


def _at_least(
    measured: Sequence[BandwidthCeiling], threads: int, held: float
) -> list[BandwidthCeiling]:
    """Ceilings from the largest measured set within `held` (else the smallest of all) upwards."""
    own = [c for c in measured if c.threads == threads]
    sizes = sorted({c.working_set_bytes for c in own})
    within = [size for size in sizes if size <= held]
    start = within[-1] if within else sizes[0] if sizes else 0
    return [c for c in own if c.working_set_bytes >= start]


def _only_reads(cost: Cost) -> bool:
    total = cost.total_bytes
    if total is None or cost.written_bytes is None or total == 0:
        return False
    return cost.written_bytes <= PURE_READER_WRITE_SHARE * total


def _peak(
    cost: Cost, ceilings: Sequence[ComputeCeiling], threads: int, device: Device, tf32: bool
) -> Fact:
    own = [c for c in ceilings if _may_use(c, cost, tf32)]
    measured = [c for c in own if c.fact.value is not None]
    if _needs_matrix_units(cost, device) and not any(c.operation == "mma" for c in measured):
        # Multiply-adds alone would be a ceiling that an ordinary kernel breaks through.
        lacking = [c.fact for c in own if c.operation == "mma"]
        return _unknown(f"{cost.dtype} matrix peak", "FLOP/s", threads, lacking)
    usable = _thread_counts({c.threads for c in measured}, threads)
    measured.sort(key=lambda c: c.threads, reverse=True)
    reachable = [c.fact for c in measured if c.threads in usable]
    if not reachable:
        return _unknown(f"{cost.dtype} peak", "FLOP/s", threads, [c.fact for c in own])
    return max(reachable, key=lambda fact: fact.value or 0.0)


def _may_use(ceiling: ComputeCeiling, cost: Cost, tf32: bool) -> bool:
    """Whether the cost's operations can be done the way that a ceiling measures."""
    if ceiling.operation == "fma":
        return ceiling.dtype == cost.dtype
    if not cost.matrix_product:
        return False
    as_tf32 = tf32 and cost.dtype == "float32" and ceiling.dtype == "tfloat32"
    return ceiling.dtype == cost.dtype or as_tf32


def _needs_matrix_units(cost: Cost, device: Device) -> bool:
    """Whether the device's matrix units surely do this type's products, faster than anything."""
    return device.kind != "cpu" and cost.matrix_product and cost.dtype in MATRIX_TYPES


def _thread_counts(measured: set[int], threads: int) -> set[int]:
    """Counts whose ceilings together bound `threads` processors: all below, and one at or above."""
    above = [count for count in measured if count >= threads]
    if not above:
        return set()
    return {count for count in measured if count <= min(above)}


def _unknown(metric: str, unit: str, threads: int, facts: Sequence[Fact]) -> Fact:
    reason = next((fact.reason for fact in facts if fact.reason), None)
    missing = f"no ceiling was measured for {threads} threads"
    return Fact(metric=metric, value=None, unit=unit, reason=reason or missing)
