"""What limits a kernel: its place under the roofline first, counters second.

Near a ceiling, that ceiling limits. Far from both, something else does, and counters say what:
instructions that do too little each (scalar code: compute), or waiting (latency). Evidence lines
begin with one of the phrases below, which recipe choosers may rely on; the numbers follow.

A GPU's counters are judged by the rules of `gpu_rules.yaml` instead; see `gpu_bottleneck`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from roofsmith.analysis import figures, gpu_bottleneck
from roofsmith.analysis.compiled import compiled_lines
from roofsmith.analysis.roofline import roofline_fraction
from roofsmith.domain.bound import Bound
from roofsmith.domain.facts import Fact
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile

NEAR_MEMORY: Final = "near the memory ceiling"
NEAR_COMPUTE: Final = "near the compute ceiling"
FAR: Final = "far from both ceilings"
UNKNOWN_BOUND: Final = "roofline unknown"
SCALAR_CODE: Final = "scalar code"
MEMORY_LATENCY: Final = "memory latency"
DEPENDENCY_STALLS: Final = "stalls without cache misses"
POOR_REUSE: Final = "poor reuse"
IDLE_PROCESSORS: Final = "idle processors"
OTHER_PIPE: Final = "on tensor cores"
"""What the roofline of the other pipes says of such a kernel follows."""
BRANCH_MISSES: Final = "branch misses"
TLB_MISSES: Final = "TLB misses"
INSTRUCTION_BOUND: Final = "instruction bound"
LIBRARY_CALLS: Final = "library calls in loops"
"""Also begins the profiler's note that names them."""

_SPEAKS_FOR: Final[Mapping[str, BottleneckKind]] = {
    NEAR_MEMORY: "memory",
    NEAR_COMPUTE: "compute",
    SCALAR_CODE: "compute",
    INSTRUCTION_BOUND: "compute",
    LIBRARY_CALLS: "compute",
    POOR_REUSE: "memory",
    MEMORY_LATENCY: "latency",
    DEPENDENCY_STALLS: "latency",
    BRANCH_MISSES: "latency",
    TLB_MISSES: "latency",
}
"""The kind of bottleneck that a line of evidence speaks for, by its phrase."""

LINE_BYTES: Final = 64
"""A cache line of x86-64: X86_L1_CACHE_SHIFT is 6 in arch/x86/Kconfig.cpu of Linux (at 01412081).
Other processors are reckoned with the same; it is no ceiling."""


@dataclass(frozen=True, slots=True)
class Rules:
    near_ceiling: float = 0.60
    """Share of a ceiling at which it limits. NVIDIA Nsight Compute's rule for its "Speed of Light"
    table: neither above 60%: latency."""
    low_ipc: float = 1.0
    """Instructions per cycle below which a core mostly waits; above, it mostly executes.
    B. Gregg, "CPU Utilization is Wrong" (2017)."""
    high_ipc: float = 2.0
    """Half of what a Zen core decodes in a cycle: four instructions (IssueWidth of
    X86ScheduleZnver1.td, llvm-project at 017cf852)."""
    many_misses_per_kilo: float = 10.0
    """Cache misses per 1000 instructions. Chosen: did each cost 300 cycles, unhidden, they would
    cost 3 cycles per instruction, more than the instructions themselves."""
    scalar_below: float = 0.5
    """Share of packed instructions in floating-point arithmetic: most of it is scalar."""
    scalar_flops: float = 2.0
    """Operations that one scalar instruction can do at most (a fused multiply-add): more per
    instruction, on average, and most of them are packed."""
    excess_traffic: float = 2.0
    """Bytes fetched on cache misses over the bytes needed: each datum comes twice."""
    idle_below: float = 0.75
    """Processors in use over processors allowed."""
    costly_share: float = 0.10
    """Share of all cycles that one kind of event must cost to be named."""
    branch_miss_cycles: float = 15.0
    """Lower end of the misprediction penalty. A. Fog, "The microarchitecture of Intel, AMD and
    VIA CPUs": 15-20 cycles on Skylake, 13-18 on Zen."""
    tlb_miss_cycles: float = 20.0
    """A page walk that finds its entries in the caches: same source."""


RULES: Final = Rules()


def classify(bound: Bound, time_s: float, profile: Profile) -> Bottleneck:
    """What limits the kernel, with the evidence: `BottleneckKind` says of what kinds.

    Args:
        bound: roofline of the workload that was profiled and timed.
        time_s: measured time of one call; seconds.
        profile: counters per call; none at all is fine.
    """
    if profile.tool in gpu_bottleneck.GPU_TOOLS or profile.resources:
        return _classify_gpu(bound, time_s, profile)
    idle = _idle_processors(bound, time_s, profile)
    under = bound if idle is None else idle.bound
    moved = under.cost.swept_bytes or under.cost.total_bytes
    memory = _share(moved, under.bandwidth.value, time_s)
    compute = _share(under.cost.flops, under.peak.value, time_s)
    kind, confidence, position = _position(under, memory, compute)
    hints = _hints(bound, profile)
    if kind in ("latency", "unknown"):
        kind, confidence = _refine(kind, confidence, hints)
    first = () if idle is None else (idle.line,)
    return Bottleneck(
        kind=kind,
        confidence=confidence,
        evidence=(*first, *position, *hints.values()),
        roofline_fraction=roofline_fraction(bound, time_s),
    )


def leaves_processors_idle(found: Bottleneck) -> bool:
    """Whether the evidence says that the kernel doesn't use all processors."""
    return any(line.startswith(f"{IDLE_PROCESSORS}: ") for line in found.evidence)


def _classify_gpu(bound: Bound, time_s: float, profile: Profile) -> Bottleneck:
    """By the GPU's rules; where none of them applies, by the place under the roofline."""
    memory = _share(bound.cost.total_bytes, bound.bandwidth.value, time_s)
    compute = _share(bound.cost.flops, bound.peak.value, time_s)
    kind, confidence, position = _position(bound, memory, compute)
    if compute is not None and gpu_bottleneck.is_on_other_pipe(bound, profile):
        position = [_other_pipe(bound, compute, profile)]
        kind, confidence, compute = "unknown", 0.0, None
    readings = gpu_bottleneck.readings(bound, time_s, profile, memory, compute)
    verdict = gpu_bottleneck.judge_counters(readings)
    if verdict is None:
        evidence = (*position, *gpu_bottleneck.findings(readings))
    else:
        kind, confidence = verdict.kind, verdict.confidence
        known = () if memory is None and compute is None else position
        evidence = (*verdict.evidence[:1], *known, *verdict.evidence[1:])
    return Bottleneck(
        kind=kind,
        confidence=confidence,
        evidence=(*evidence, *compiled_lines(profile)),
        roofline_fraction=roofline_fraction(bound, time_s),
    )


def _other_pipe(bound: Bound, compute: float, profile: Profile) -> str:
    matrix, fma = gpu_bottleneck.pipes(profile)
    return (
        f"{OTHER_PIPE}: busy {matrix:.0%}, the FMA pipe {fma:.0%}; the {bound.peak.metric} doesn't"
        f" bind a kernel on tensor cores, though it reaches {compute:.0%} of it"
    )


Hints = dict[str, str]
"""Phrase to evidence line, in order."""


def _share(work: float | None, ceiling: float | None, time_s: float) -> float | None:
    if work is None or ceiling is None or not time_s > 0:
        return None
    return work / ceiling / time_s


def _position(
    bound: Bound, memory: float | None, compute: float | None
) -> tuple[BottleneckKind, float, list[str]]:
    """Kind, confidence and evidence by the place under the roofline alone."""
    lines = []
    if memory is not None:
        swept = bound.cost.swept_bytes
        sweeps = f", {figures.quantity(swept, 'byte')} in sweeps" if swept else ""
        lines.append(f"{memory:.0%} of {bound.bandwidth.metric} ({bound.working_set}{sweeps})")
    if compute is not None:
        lines.append(f"{compute:.0%} of {bound.peak.metric}")
    near = max(memory or 0.0, compute or 0.0)
    if near >= RULES.near_ceiling:
        is_memory = (memory or 0.0) >= (compute or 0.0)
        phrase = NEAR_MEMORY if is_memory else NEAR_COMPUTE
        return (
            "memory" if is_memory else "compute",
            min(0.95, 0.5 + near / 2),
            [f"{phrase}: {', '.join(lines)}"],
        )
    if memory is None or compute is None:
        reason = bound.reason or "one of its halves is UNKNOWN"
        known = f"{', '.join(lines)}; " if lines else ""
        return "unknown", 0.0, [f"{UNKNOWN_BOUND}: {known}{reason}"]
    # The farther from both, the surer that neither limits.
    return "latency", 0.5 + 0.4 * (1 - near / RULES.near_ceiling), [f"{FAR}: {', '.join(lines)}"]


def _refine(kind: BottleneckKind, confidence: float, hints: Hints) -> tuple[BottleneckKind, float]:
    """Let counters settle what the roofline left open."""
    if INSTRUCTION_BOUND in hints or (SCALAR_CODE in hints and MEMORY_LATENCY not in hints):
        return "compute", max(confidence, 0.4)
    if MEMORY_LATENCY in hints or DEPENDENCY_STALLS in hints:
        return "latency", max(confidence, 0.4)
    return kind, confidence


def _hints(bound: Bound, profile: Profile) -> Hints:
    checks: tuple[Callable[[Bound, Profile], tuple[str, str] | None], ...] = (
        _scalar_code,
        _library_calls,
        _waiting_or_working,
        _poor_reuse,
        _branch_misses,
        _tlb_misses,
    )
    found = [hint for check in checks if (hint := check(bound, profile)) is not None]
    return {phrase: f"{phrase}: {numbers}" for phrase, numbers in found}


@dataclass(frozen=True, slots=True)
class _Idle:
    bound: Bound
    """With the ceilings of the busy ones."""
    line: str


def _idle_processors(bound: Bound, time_s: float, profile: Profile) -> _Idle | None:
    """None where all are busy, or nobody knows, or it does more than those said to be busy can."""
    used, allowed = profile.get("processors_used"), profile.get("processors_allowed")
    if used is None or not allowed or used >= RULES.idle_below * allowed:
        return None
    if (busy := max(round(used), 1)) >= allowed:  # others had them for some of the time
        return None
    under = _of_the_busy(bound, busy / allowed)
    compute = _share(under.cost.flops, under.peak.value, time_s)
    if compute is not None and compute > 1:
        return None
    count, are = ("one", "is") if busy == 1 else (busy, "are")
    line = f"{IDLE_PROCESSORS}: {count} of {allowed:.0f} {are} busy"
    if compute is not None:
        whose = "one processor's peak" if busy == 1 else f"the peak of {busy}"
        line += f"; of {whose} it reaches {compute:.0%}"
    return _Idle(under, line)


def _of_the_busy(bound: Bound, share: float) -> Bound:
    """Arithmetic and private caches come with each processor; one alone may take all of memory's
    bandwidth, or a shared cache's."""
    private = bound.working_set in ("L1", "L2")
    return bound.model_copy(
        update={
            "peak": _part(bound.peak, share),
            "bandwidth": _part(bound.bandwidth, share) if private else bound.bandwidth,
        }
    )


def _part(ceiling: Fact, share: float) -> Fact:
    if ceiling.value is None:
        return ceiling
    metric = f"{ceiling.metric}, the part of those that are busy"
    return ceiling.model_copy(update={"value": ceiling.value * share, "metric": metric})


def _scalar_code(_bound: Bound, profile: Profile) -> tuple[str, str] | None:
    share = profile.get("vector_fraction")
    if share is not None:
        if share >= RULES.scalar_below:
            return None
        return SCALAR_CODE, f"{share:.0%} of floating-point instructions retired are packed"
    # Not counted here: operations per instruction bound it from above, the listing from the side.
    per_instruction = profile.get("flops_per_fp_instruction")
    share = profile.get("vector_instruction_share_static")
    if share is None or share >= RULES.scalar_below:
        return None
    if per_instruction is not None and per_instruction > RULES.scalar_flops:
        return None
    numbers = f"{share:.0%} of floating-point instructions in loops are packed, by the listing"
    if per_instruction is not None:
        numbers += f"; {per_instruction:.2f} operations per floating-point instruction retired"
    return SCALAR_CODE, numbers


def _library_calls(_bound: Bound, profile: Profile) -> tuple[str, str] | None:
    start = f"{LIBRARY_CALLS}: "
    note = next((note for note in profile.notes if note.startswith(start)), None)
    return (LIBRARY_CALLS, note.removeprefix(start)) if note is not None else None


def _waiting_or_working(_bound: Bound, profile: Profile) -> tuple[str, str] | None:
    ipc = profile.get("ipc")
    if ipc is None:
        return None
    misses = profile.get("cache_misses_per_kilo_instruction")
    if ipc >= RULES.high_ipc:
        return INSTRUCTION_BOUND, f"{ipc:.2f} instructions per cycle: the core executes, not waits"
    if ipc >= RULES.low_ipc or misses is None:
        return None
    numbers = f"{ipc:.2f} instructions per cycle, {misses:.1f} cache misses per 1000 instructions"
    many = misses >= RULES.many_misses_per_kilo
    return (MEMORY_LATENCY if many else DEPENDENCY_STALLS), numbers


def _poor_reuse(bound: Bound, profile: Profile) -> tuple[str, str] | None:
    misses, needed = profile.get("cache_misses"), bound.cost.total_bytes
    if misses is None or not needed:
        return None
    excess = misses * LINE_BYTES / needed
    if excess < RULES.excess_traffic:
        return None
    fetched = misses * LINE_BYTES
    return (
        POOR_REUSE,
        f"cache misses fetch {fetched:.4g} byte, {excess:.1f}x the {needed:.4g} needed",
    )


def _branch_misses(_bound: Bound, profile: Profile) -> tuple[str, str] | None:
    misses, cycles = profile.get("branch_misses"), profile.get("cycles")
    if misses is None or not cycles:
        return None
    share = misses * RULES.branch_miss_cycles / cycles
    if share < RULES.costly_share:
        return None
    rate = profile.get("branch_miss_rate")
    of = f" ({rate:.1%} of branches)" if rate is not None else ""
    return BRANCH_MISSES, f"{misses:.4g} per call{of} cost about {share:.0%} of all cycles"


def _tlb_misses(_bound: Bound, profile: Profile) -> tuple[str, str] | None:
    misses, cycles = profile.get("dtlb_misses"), profile.get("cycles")
    if misses is None or not cycles:
        return None
    share = misses * RULES.tlb_miss_cycles / cycles
    if share < RULES.costly_share:
        return None
    return TLB_MISSES, f"{misses:.4g} per call cost about {share:.0%} of all cycles"


def decided_by(found: Bottleneck) -> str:
    """Who decided on a kind, and what speaks for another one, in a sentence.

    A ceiling that is near decides, whatever counters point to. Far from both, counters decide; on a
    GPU they always do where a rule applies, and its place under the roofline is evidence. What
    rests on measured time alone, and on no counter of a profiler, says so.
    """
    phrases = [line.partition(": ")[0] for line in found.evidence]
    lines = dict(zip(phrases, found.evidence, strict=True))
    speak = {phrase: kind for phrase in phrases if (kind := _speaks_for(phrase)) is not None}
    agreeing = [phrase for phrase, kind in speak.items() if kind == found.kind]
    against = [f"{phrase} ({kind})" for phrase, kind in speak.items() if kind != found.kind]
    who = agreeing[0] if agreeing else "no counter says more"
    near = (NEAR_MEMORY, NEAR_COMPUTE)
    if all(one in near or gpu_bottleneck.is_timed(lines[one]) for one in agreeing):
        who += " (measured time alone)"
    far = {FAR: ", since both ceilings are far", UNKNOWN_BOUND: ", since a ceiling is UNKNOWN"}
    since = next((why for phrase, why in far.items() if phrase in phrases), "")
    return f"decided by: {who}{since}; against it: {', '.join(against) or 'nothing'}"


def _speaks_for(phrase: str) -> BottleneckKind | None:
    return _SPEAKS_FOR.get(phrase) or gpu_bottleneck.kind_of(phrase)
