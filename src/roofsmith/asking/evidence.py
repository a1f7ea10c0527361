"""What a proposer may cite of a campaign, each line under an id that the brief shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from roofsmith.analysis.figures import counter as shown_counter
from roofsmith.analysis.ladder import held_listing
from roofsmith.domain.profile import BottleneckKind, Counter, Profile
from roofsmith.ports import Brief

MOST_COUNTERS = 12
"""Counters that a brief shows; the others are behind `roofsmith campaign show DIR counters`."""

_MOST_ALIKE = 4
"""Counters of one beginning, such as `stall`, that are taken: the largest."""
_LEAST_COUNTS = ("block_limit",)
"""Of these the smallest."""

_TELLING: Final[Mapping[BottleneckKind, tuple[str, ...]]] = {
    "memory": (
        "dram_throughput", "memory_throughput", "l2_throughput", "l1_throughput", "l2_hit",
        "l1_hit", "bytes_per_sector", "excess_", "spill", "shared_bank", "stall_long", "dram_rate",
        "llc_", "cache_miss", "l1_miss", "dtlb", "memory_unit", "vector_fraction", "ipc",
    ),
    "compute": (
        "sm_throughput", "tensor_", "fma_pipe", "alu_pipe", "xu_pipe", "fp64_pipe", "vector_",
        "flops_per", "ipc", "issue_slot", "stall_math", "mfma", "processors_", "branch_miss",
        "instructions",
    ),
    "latency": (
        "sm_throughput", "memory_throughput", "stall", "eligible", "issue_slot", "achieved_occ",
        "ipc", "branch_miss", "dtlb", "cache_miss", "llc_", "processors_", "vector_", "wait_",
        "excess_", "shared_bank",
    ),
    "occupancy": (
        "achieved_occ", "theoretical_occ", "estimated_occ", "block_limit", "registers_per",
        "shared_bytes_per", "block_size", "grid_size", "eligible", "spill", "scratch", "waves",
    ),
    "launch": (
        "duration", "kernel_time", "kernels_per_call", "gpu_idle", "grid_size", "block_size",
        "waves_per", "sm_count", "sm_throughput", "memory_throughput",
    ),
    "tail": (
        "waves", "tail_share", "grid_size", "sm_count", "block_size", "sm_active", "achieved_occ",
        "block_limit", "processors_", "sm_throughput", "memory_throughput",
    ),
    "unknown": (
        "sm_throughput", "memory_throughput", "ipc", "vector_", "llc_", "cache_miss", "branch_miss",
        "achieved_occ", "stall", "duration",
    ),
}  # fmt: skip
"""How the names of counters begin that tell most of a bottleneck, the most telling first."""


def evidence_of(brief: Brief) -> dict[str, str]:
    """Id to text: E for the bottleneck's evidence, C for counters, L for hot loops, B for bounds, R
    for rounds.

    B and R keep their meaning for good; the others hold for this incumbent.
    """
    found = {f"E{n}": text for n, text in enumerate(brief.bottleneck.evidence, start=1)}
    for id_, counter in telling_counters(brief.profile, brief.bottleneck.kind).items():
        value = shown_counter(counter.value, counter.unit, counter.name)
        found[id_] = f"{counter.name}: {value}"
    held = held_listing(brief.campaign)
    for number, loop in enumerate(held.loops if held is not None else (), start=1):
        found[f"L{number}"] = f"loop of {loop.function}: {loop.chosen}"
    for number, bound in enumerate(brief.bounds, start=1):
        floor = "UNKNOWN" if bound.floor_time_s is None else f"{bound.floor_time_s:.4g} s"
        roof = "bytes only" if bound.bytes_only else f"{bound.limiter} roof"
        found[f"B{number}"] = f"{bound.workload}: at least {floor}, {roof}"
    for round_ in brief.remembered:
        found[f"R{round_.round}"] = f"{round_.hypothesis.statement}: {round_.decision.rule}"
    return found


def renamed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """Ids of an earlier brief that mean something else now, with their new ones; None: it's gone.

    What was measured anew says the same in other figures.
    """
    places = {_without_figures(text): id_ for id_, text in reversed(list(now.items()))}
    found = {id_: places.get(_without_figures(text)) for id_, text in before.items()}
    return {id_: new for id_, new in found.items() if new != id_}


def _without_figures(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)


def answerable(brief: Brief) -> tuple[BottleneckKind, ...]:
    """The kinds of bottleneck that a change may answer, the kernel's own first.

    Any that this campaign has seen, in a profile or as a workload's roofline: a profile may be
    wrong, and a step that was planned on an earlier one still answers what was seen there.
    """
    campaign, diagnosis = brief.campaign, brief.diagnosis
    looked_at = () if diagnosis is None else diagnosis.material.profiles
    seen: list[BottleneckKind] = [brief.bottleneck.kind]
    seen += [found.bottleneck.kind for found in looked_at]
    seen += [bound.limiter for bound in brief.bounds]
    seen += [r.bottleneck.kind for r in reversed(campaign.rounds) if r.bottleneck is not None]
    seen += [campaign.baseline.bottleneck.kind] if campaign.baseline is not None else []
    return tuple(dict.fromkeys(seen))


def telling_counters(profile: Profile, kind: BottleneckKind) -> dict[str, Counter]:
    """The counters that tell most of a kind of bottleneck, by the id that they are cited by.

    Those that tell nothing of it fill up what is left, in the profiler's order.
    """
    chosen: dict[str, Counter] = {}
    names = {one.name for one in profile.counters}
    for start in _TELLING[kind]:
        alike = [
            one
            for one in profile.counters
            if one.name.startswith(start)
            and (one.value or one.name.endswith("_rate"))
            and one.name.removesuffix("_share") not in names - {one.name}
        ]
        if len(alike) > _MOST_ALIKE:
            largest = start not in _LEAST_COUNTS
            alike = sorted(alike, key=lambda one: one.value, reverse=largest)[:_MOST_ALIKE]
        chosen |= {one.name: one for one in alike}
    for one in profile.counters:
        chosen.setdefault(one.name, one)
    shown = list(chosen.values())[:MOST_COUNTERS]
    return {f"C{number}": counter for number, counter in enumerate(shown, start=1)}
