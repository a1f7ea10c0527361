"""What a proposer may cite of a campaign, each line under an id that the brief shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roofsmith.analysis.figures import counter as shown_counter
from roofsmith.domain.profile import BottleneckKind, Counter, Profile
from roofsmith.ports import Brief

MOST_COUNTERS = 12
"""Counters that a brief shows; the others are behind `roofsmith show DIR counters`."""

_TELLING: Final[Mapping[BottleneckKind, tuple[str, ...]]] = {
    "memory": ("memory_throughput", "dram", "llc", "cache", "l1", "l2", "bytes", "sector", "tlb"),
    "compute": ("sm_throughput", "flops", "vector", "tensor", "pipe", "ipc", "fp", "instructions"),
    "latency": ("stall", "ipc", "branch", "tlb", "miss", "issue", "eligible", "barrier", "cycles"),
    "occupancy": ("occupancy", "block_limit", "registers", "shared", "warps", "spill", "waves"),
    "launch": ("duration", "kernels_per_call", "kernel_time", "idle", "grid", "launch"),
    "tail": ("waves", "tail", "grid", "sm_count", "block", "processors"),
    "unknown": ("throughput", "ipc", "vector", "miss", "occupancy", "stall"),
}
"""Parts of the names of counters that tell most of a bottleneck, the most telling first."""


def evidence_of(brief: Brief) -> dict[str, str]:
    """Id to text: E for the bottleneck's evidence, C for counters, B for bounds, R for rounds.

    Ids of a round keep their meaning for good; the others hold for this incumbent.
    """
    found = {f"E{n}": text for n, text in enumerate(brief.bottleneck.evidence, start=1)}
    for id_, counter in telling_counters(brief.profile, brief.bottleneck.kind).items():
        value = shown_counter(counter.value, counter.unit, counter.name)
        found[id_] = f"{counter.name}: {value}"
    for number, bound in enumerate(brief.bounds, start=1):
        floor = "UNKNOWN" if bound.floor_time_s is None else f"{bound.floor_time_s:.4g} s"
        found[f"B{number}"] = f"{bound.workload}: {bound.limiter}-bound, at least {floor}"
    for round_ in brief.remembered:
        found[f"R{round_.round}"] = f"{round_.hypothesis.statement}: {round_.decision.rule}"
    return found


def telling_counters(profile: Profile, kind: BottleneckKind) -> dict[str, Counter]:
    """The counters that tell most of a kind of bottleneck, by the id that they are cited by.

    Those that tell nothing of it fill up what is left, in the profiler's order.
    """
    words = _TELLING[kind]

    def rank(counter: Counter) -> int:
        places = (n for n, word in enumerate(words) if word in counter.name)
        return next(places, len(words))

    chosen = sorted(profile.counters, key=rank)[:MOST_COUNTERS]
    return {f"C{number}": counter for number, counter in enumerate(chosen, start=1)}
