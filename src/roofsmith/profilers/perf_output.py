"""What `perf stat -x,` prints, and the counters that follow from it; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.domain.profile import Counter
from roofsmith.profilers.units import plausible

MAX_PER_CYCLE = 64.0
"""No event happens more often: 64 is one cycle's widest (16-lane FMA operations on two ports).
Some virtual machines give counts in the millions of billions instead; those are dropped."""
NEARLY_ALL = 0.98
"""Of all counts on one kind of core: the kernel was moved elsewhere for moments only. Chosen."""


@dataclass(frozen=True, slots=True)
class PerfReading:
    """One event of one `perf stat` run."""

    event: str
    """Without modifiers: `cycles`, not `cycles:u`."""
    count: float | None
    """None where the machine doesn't support the event or it was never scheduled."""
    running_share: float
    """Part of the time that the event was really counted; below 1 it was multiplexed and scaled."""
    core: str = ""
    """The kind of core, as `cpu_core`, on a processor that has several: each counts for itself."""


def parse_perf_csv(text: str) -> tuple[PerfReading, ...]:
    """Readings of `perf stat -x,` output: `count,unit,event,run time,percentage,...` per line.

    Comments, blank lines and lines that aren't readings are passed over.
    """
    readings = []
    for line in text.splitlines():
        fields = line.strip().split(",")
        if line.startswith("#") or len(fields) < 5:
            continue
        count, _unit, event, _run_time, percentage = fields[:5]
        try:
            running = float(percentage) / 100
            value = None if count.startswith("<") else plausible(float(count))
        except ValueError:
            continue
        never_ran = value is not None and running == 0
        core, bare = _core(event)
        readings.append(PerfReading(bare, None if never_ran else value, running, core))
    return tuple(readings)


_SIGHTING = re.compile(r"^\s*[0-9a-f]+\s+(?:(\S.*?)\+0x([0-9a-f]+)|\[unknown\])\s+\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a process was when perf looked."""

    function: str | None
    """None where there is no symbol."""
    offset: int
    """Bytes from the function's first instruction."""
    module: str
    """Path of the library, as the process sees it."""


def parse_sightings(text: str) -> tuple[Sighting, ...]:
    """Samples of `perf script -F ip,sym,symoff,dso`; other lines are passed over."""
    found = (_SIGHTING.match(line) for line in text.splitlines())
    return tuple(Sighting(match[1], int(match[2] or "0", 16), match[3]) for match in found if match)


_OF_CORE = re.compile(r"([\w.-]+)/([^/]*)/\w*")
_ANY_CORE = "cpu"


def _core(event: str) -> tuple[str, str]:
    """The kind of core that counts, and the event without it: `cpu_core/cycles:u/`."""
    match = _OF_CORE.fullmatch(event)
    if match is None:
        return "", _bare(event)
    return "" if match[1] == _ANY_CORE else match[1], _bare(match[2])


def _bare(event: str) -> str:
    """The event without its modifiers (`:u`), which end in a group of letters only."""
    name, colon, modifiers = event.rpartition(":")
    return name if colon and modifiers.isalpha() and len(modifiers) <= 3 else event


@dataclass(frozen=True, slots=True)
class PerfRun:
    readings: tuple[PerfReading, ...]
    calls: int
    """Calls of `solve` that it saw."""
    elapsed_s: float
    """Their time, by the worker's clock."""


_PER_CALL: Mapping[str, str] = {
    "cycles": "cycles",
    "instructions": "instructions",
    "branches": "branches",
    "branch-misses": "branch_misses",
    "cache-references": "cache_references",
    "cache-misses": "cache_misses",
    "LLC-loads": "llc_loads",
    "LLC-load-misses": "llc_load_misses",
    "dTLB-load-misses": "dtlb_misses",
    "fp_ret_sse_avx_ops.all": "retired_flops",
    "ex_ret_mmx_fp_instr.sse_instr": "fp_instructions",
}
"""perf's event to our counter, which is per call of `solve`."""

_SCALAR = (
    "fp_arith_inst_retired.scalar_single",
    "fp_arith_inst_retired.scalar_double",
    "fp_ops_retired_by_width.scalar_uops_retired",
)
_PACKED = (
    "fp_arith_inst_retired.128b_packed_single",
    "fp_arith_inst_retired.128b_packed_double",
    "fp_arith_inst_retired.256b_packed_single",
    "fp_arith_inst_retired.256b_packed_double",
    "fp_arith_inst_retired.512b_packed_single",
    "fp_arith_inst_retired.512b_packed_double",
    "fp_ops_retired_by_width.pack_128_uops_retired",
    "fp_ops_retired_by_width.pack_256_uops_retired",
    "fp_ops_retired_by_width.pack_512_uops_retired",
)
"""Intel (Skylake and later) and AMD (Zen 4 and later); earlier Zens only count operations."""


def counters(runs: Sequence[PerfRun], processors: int) -> tuple[Counter, ...]:
    """Counters per call, and the ratios that are read off them.

    Args:
        runs: one per group of events; an event in several runs is taken from the first.
        processors: how many the kernel may use.
    """
    per_call = _plausible(_counts_per_call(runs))
    found = [
        Counter(name=name, value=per_call[event], unit="1")
        for event, name in _PER_CALL.items()
        if event in per_call
    ]
    found += _ratios(per_call)
    found += _vector_fraction(per_call)
    found += _processors(runs, processors)
    return tuple(found)


def _counts_per_call(runs: Iterable[PerfRun]) -> dict[str, float]:
    per_call: dict[str, float] = {}
    for run in of_one_kind(runs):
        for reading in run.readings:
            if reading.count is not None and run.calls > 0:
                per_call.setdefault(reading.event, reading.count / run.calls)
    return per_call


def of_one_kind(runs: Iterable[PerfRun]) -> list[PerfRun]:
    """The readings of the kind of core that counted most: those of two kinds don't add up."""
    runs = list(runs)
    kinds = ("", *(kind for kind, _ in _by_kind(runs)[:1]))
    return [
        replace(run, readings=tuple(one for one in run.readings if one.core in kinds))
        for run in runs
    ]


def kind_note(runs: Iterable[PerfRun]) -> str | None:
    """Which kind of core the counters are of, where perf tells them apart; None elsewhere."""
    counted = _by_kind(runs)
    if not counted:
        return None
    (kind, most), rest = counted[0], counted[1:]
    share = most / sum(count for _, count in counted)
    if share >= NEARLY_ALL:
        return f"counters are of {kind}, the kind of core that it ran on"
    others = ", ".join(other for other, _ in rest)
    return (
        f"counters are of {kind} alone, which counted {share:.0%}; it ran on {others} too, and two"
        " kinds of cores don't add up (taskset -c keeps it on one)"
    )


def _by_kind(runs: Iterable[PerfRun]) -> list[tuple[str, float]]:
    """What each kind of core counted of all events together, the busiest first."""
    counted = dict[str, float]()
    for reading in (one for run in runs for one in run.readings):
        if reading.core and reading.count:
            counted[reading.core] = counted.get(reading.core, 0.0) + reading.count
    return sorted(counted.items(), key=lambda one: one[1], reverse=True)


def uncounted(runs: Iterable[PerfRun]) -> tuple[str, ...]:
    """Events that perf gave no number of, on any kind of core (`<not counted>`, NaN)."""
    readings = [reading for run in runs for reading in run.readings]
    counted = {reading.event for reading in readings if reading.count is not None}
    return tuple(dict.fromkeys(r.event for r in readings if r.event not in counted))


def implausible(runs: Sequence[PerfRun]) -> tuple[str, ...]:
    """Events whose counts no processor can reach."""
    per_call = _counts_per_call(runs)
    return tuple(sorted(per_call.keys() - _plausible(per_call).keys()))


def _plausible(per_call: Mapping[str, float]) -> dict[str, float]:
    cycles = per_call.get("cycles")
    if not cycles:
        return dict(per_call)
    limit = MAX_PER_CYCLE * cycles
    return {e: count for e, count in per_call.items() if e == "task-clock" or count <= limit}


def _ratios(per_call: Mapping[str, float]) -> list[Counter]:
    ratios = (
        ("ipc", "instructions", "cycles", 1.0, "1/cycle"),
        ("branch_miss_rate", "branch-misses", "branches", 1.0, "1"),
        ("cache_miss_rate", "cache-misses", "cache-references", 1.0, "1"),
        ("llc_miss_rate", "LLC-load-misses", "LLC-loads", 1.0, "1"),
        ("cache_misses_per_kilo_instruction", "cache-misses", "instructions", 1000.0, "1"),
        (
            "flops_per_fp_instruction",
            "fp_ret_sse_avx_ops.all",
            "ex_ret_mmx_fp_instr.sse_instr",
            1.0,
            "FLOP",
        ),
    )
    return [
        Counter(name=name, value=factor * per_call[above] / per_call[below], unit=unit)
        for name, above, below, factor, unit in ratios
        if above in per_call and per_call.get(below)
    ]


def _vector_fraction(per_call: Mapping[str, float]) -> list[Counter]:
    """Packed over all floating-point arithmetic; absent unless both kinds were counted."""
    scalar = [per_call[event] for event in _SCALAR if event in per_call]
    packed = [per_call[event] for event in _PACKED if event in per_call]
    total = sum(scalar) + sum(packed)
    if not scalar or not packed or total == 0:
        return []
    return [Counter(name="vector_fraction", value=sum(packed) / total, unit="1")]


def _processors(runs: Sequence[PerfRun], processors: int) -> list[Counter]:
    allowed = Counter(name="processors_allowed", value=processors, unit="1")
    for run in runs:
        for reading in run.readings:
            if reading.event == "task-clock" and reading.count and run.elapsed_s > 0:
                busy_s = reading.count * 1e-3  # perf prints milliseconds
                used = Counter(name="processors_used", value=busy_s / run.elapsed_s, unit="1")
                return [used, allowed]
    return []


def multiplexed(runs: Sequence[PerfRun]) -> str | None:
    """How much of the time the events were counted, where it wasn't all of it."""
    readings = [one for run in of_one_kind(runs) for one in run.readings]
    shares = [one.running_share for one in readings if one.count is not None]
    least = min(shares, default=1.0)
    if least >= 0.995:
        return None
    return f"perf multiplexed its counters: the least was counted {least:.0%} of the time, scaled"
