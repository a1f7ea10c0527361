"""What to try next: what a campaign's own records point to, most promising first. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import assert_never

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import Campaign, Stopped
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.report.summary import NextStep, SummaryStep, WorkloadRow

_LAGGARD_MARGIN = 0.1
"""A workload this far (in roofline fraction) below the mean is worth a campaign of its own."""


def next_steps(
    campaign: Campaign,
    steps: tuple[SummaryStep, ...],
    workloads: tuple[WorkloadRow, ...],
    fraction: float | None,
) -> tuple[NextStep, ...]:
    """Suggestions, each with the record that it follows from."""
    if campaign.stopped is None:
        return (
            NextStep(
                "Let it finish",
                "The campaign is in progress; if its process is gone, nothing but the round in "
                "flight is lost.",
                "roofsmith resume .",
            ),
        )
    return (
        *_after_stop(campaign.stopped, limits_in_force(campaign)),
        *_missing_facts(workloads, campaign.started.target),
        *_bottleneck(steps, fraction, campaign),
        *(() if campaign.started.bytes_only else _laggard(workloads, fraction)),
        *_divided(steps),
        *_undecided(steps, campaign.incumbent.id),
        *_unmeasured(steps),
    )


def _after_stop(stopped: Stopped, declared: StopPolicy) -> Iterator[NextStep]:
    limits = stopped.limits or declared
    match stopped.code:
        case "goal_reached" | "efficiency_reached":
            yield NextStep(
                "Take the kernel",
                "The goal is reached. The final kernel is the last commit of the campaign's "
                "branch, and the last accepted round's kernel_snapshot.",
            )
        case "interrupted":
            yield NextStep("Go on", "The campaign was interrupted.", "roofsmith resume .")
        case "no_idle_gpu":
            yield NextStep(
                "Go on once a GPU is idle",
                "It stopped because there was none to measure on: others used it, or it failed.",
                "roofsmith resume .",
            )
        case "max_iterations":
            yield NextStep(
                "Allow more rounds",
                f"The limit of {fmt.plural(limits.max_iterations, 'round')} ended it, not a lack of"
                " ideas: go on with a higher one.",
                f"roofsmith resume . --max-iterations {min(119, 2 * limits.max_iterations)}",
            )
        case "budget":
            # What was spent counts on, and a last round may have taken it far beyond the limit.
            reached_s = max(limits.budget_s or 0.0, stopped.spent_s or 0.0)
            yield NextStep(
                "Allow more time",
                "The time budget ended it, not a lack of ideas: go on with a larger one.",
                f"roofsmith resume . --budget-s {math.ceil(2 * reached_s)}",
            )
        case "tokens":
            yield NextStep(
                "Allow more tokens",
                "Their limit ended it, not a lack of ideas: go on with a larger one.",
                f"roofsmith resume . --max-tokens {2 * (limits.max_tokens or 0)}",
            )
        case "cost":
            yield NextStep(
                "Allow more money",
                "Its limit ended it, not a lack of ideas: go on with a larger one.",
                f"roofsmith resume . --max-cost {2 * (limits.max_cost_usd or 0):g}",
            )
        case "regressions":
            yield NextStep(
                "Change direction",
                f"{limits.max_consecutive_regressions} rounds in a row were slower: more of the "
                "same won't help. Read their profiles before the next attempt.",
            )
        case "out_of_ideas":
            yield NextStep(
                "Bring an idea of your own",
                "The proposers have no more for this kernel; yours goes through the same judge.",
                "roofsmith ask .",
            )
        case _:
            assert_never(stopped.code)


def _missing_facts(workloads: tuple[WorkloadRow, ...], target: Target) -> Iterator[NextStep]:
    missing = [row for row in workloads if row.floor_time_s is None or row.bound.bytes_only]
    if missing:
        reason = missing[0].bound.reason or missing[0].bound.cost.reason or "no reason was recorded"
        known = "bytes only" if missing[0].bound.bytes_only else fmt.UNKNOWN
        where = "flops(**dims) and bytes(**dims) in the reference"
        if target.command is not None:
            where = "flops and bytes under command in the target, with a metric that is a time"
        yield NextStep(
            "Make the roofline known",
            f"The bound of {missing[0].label} is {known}: {reason}. Without it nobody can say how "
            f"much is left. Declare {where}.",
        )


def _bottleneck(
    steps: tuple[SummaryStep, ...], fraction: float | None, campaign: Campaign
) -> Iterator[NextStep]:
    seen = [s.bottleneck_after for s in steps if s.mark in ("baseline", "kept")]
    last = next((bottleneck for bottleneck in reversed(seen) if bottleneck is not None), None)
    goal = campaign.started.target.goal.roofline_fraction
    if last is None or (fraction is not None and fraction >= goal):
        return
    share = fmt.share(fraction, campaign.started.bytes_only)
    where = f" at {share} of the roofline" if fraction is not None else ""
    on_gpu = campaign.started.environment.device.kind != "cpu"
    yield NextStep(f"Answer the {last.kind} bottleneck{where}", remedy(last.kind, on_gpu=on_gpu))


def remedy(kind: BottleneckKind, *, on_gpu: bool) -> str:
    """What relieves a bottleneck, in the words of the device that the kernel runs on."""
    match kind:
        case "memory" if on_gpu:
            return (
                "It waits for device memory: move fewer bytes (fuse kernels, keep tiles in shared "
                "memory or registers), and make loads wide and coalesced."
            )
        case "memory":
            return (
                "It waits for memory: move fewer bytes (fuse passes, keep the working set in "
                "cache, stream stores that aren't read again)."
            )
        case "compute" if on_gpu:
            return (
                "It waits for arithmetic: use the matrix units where the precision allows, fused "
                "multiply-adds, fast intrinsics, fewer integer operations per element."
            )
        case "compute":
            return (
                "It waits for arithmetic: wider vectors, fused multiply-adds, more independent "
                "chains, cheaper functions."
            )
        case "latency" if on_gpu:
            return (
                "Neither ceiling is near: put more independent work into each thread, prefetch "
                "into shared memory (cp.async), and synchronise less."
            )
        case "latency":
            return (
                "Neither ceiling is near: shorten dependency chains, cut branches, calls and "
                "synchronisation, give each thread more independent work."
            )
        case "occupancy" if on_gpu:
            return (
                "Too few warps are resident to hide latency: use fewer registers "
                "(__launch_bounds__, shorter live ranges) or less shared memory per block."
            )
        case "occupancy":
            return "Too few threads have work: share the outer loop out to more of them."
        case "launch" if on_gpu:
            return (
                "Launching takes longer than the work: fuse kernels into one launch, do more per "
                "launch, or capture the sequence in a graph."
            )
        case "launch":
            return "Calls take longer than the work: do more per call, start threads less often."
        case "tail" if on_gpu:
            return (
                "The last wave leaves multiprocessors idle: choose a grid that is a multiple of "
                "them, smaller tiles, split-K, or a persistent kernel."
            )
        case "tail":
            return "Threads wait for the last one: use smaller chunks, or share them out evenly."
        case "unknown":
            return (
                "The profiler couldn't say what it waits for: allow performance counters "
                "(`roofsmith doctor` says how) and profile it again."
            )
        case _:
            assert_never(kind)


def _laggard(workloads: tuple[WorkloadRow, ...], fraction: float | None) -> Iterator[NextStep]:
    known = [(row.fraction, row) for row in workloads if row.fraction is not None]
    if fraction is None or len(known) < 2:
        return
    worst, row = min(known, key=lambda pair: pair[0])
    if worst < fraction - _LAGGARD_MARGIN:
        yield NextStep(
            f"Aim at {row.label}",
            f"It is at {fmt.percent(worst)} of its roofline, the lowest; all workloads together "
            f"are at {fmt.percent(fraction)}. Its class is {row.config_class!r}.",
        )


def _divided(steps: tuple[SummaryStep, ...]) -> Iterator[NextStep]:
    for step in steps:
        if step.wants_dispatch:
            yield NextStep(
                f"Split the kernel for {', '.join(step.winners)}",
                f"Round {step.number} made that class faster and another one slower: dispatch on "
                "the dimensions, and keep both.",
            )


def _undecided(steps: tuple[SummaryStep, ...], incumbent_id: str) -> Iterator[NextStep]:
    """Changes of the kernel that holds, each where its very code was judged last."""
    last = {step.candidate_id: step for step in steps}
    undecided = [
        step
        for step in steps
        if step.is_undecided
        and step.incumbent_id == incumbent_id
        and step is last[step.candidate_id]
    ]
    spoiled = [step for step in undecided if step.is_incumbents]
    if spoiled:
        assert spoiled[-1].outcome is not None  # that is why
        yield NextStep(
            f"Have the kernel that holds pass every time, then judge {_rounds(spoiled)} again",
            f"It failed where it was held against the change: {spoiled[-1].outcome.detail}",
        )
    if undecided := [step for step in undecided if not step.is_incumbents]:
        ratios = "; ".join(f"round {step.number}: {_seen(step)}" for step in undecided)
        yield NextStep(
            f"Judge {_rounds(undecided)} again",
            f"Too noisy to decide ({ratios}). A quieter machine or a larger `keep.judge_budget_s` "
            "may.",
        )


def _unmeasured(steps: tuple[SummaryStep, ...]) -> Iterator[NextStep]:
    failed = [step for step in steps if step.mark == "failed" and not step.is_undecided]
    if failed:
        ideas = "; ".join(f"{step.number}: {step.status}{_promise(step)}" for step in failed)
        yield NextStep(
            f"Repair {_rounds(failed)}",
            f"Ideas that were never measured, so nothing is known against them: {ideas}.",
        )


def _seen(step: SummaryStep) -> str:
    return "not measured" if step.ratio is None else fmt.ratio(step.ratio.value, step.ratio.ci)


def _rounds(steps: list[SummaryStep]) -> str:
    numbers = ", ".join(str(step.number) for step in steps)
    return f"round {numbers}" if len(steps) == 1 else f"rounds {numbers}"


def _promise(step: SummaryStep) -> str:
    predicted = step.hypothesis.predicted_speedup if step.hypothesis is not None else None
    return f" (promised {fmt.speedup(predicted)})" if predicted is not None else ""
