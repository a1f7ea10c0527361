"""What to try next: what a campaign's own records point to, most promising first. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bottleneck import RULES, UNKNOWN_BOUND
from roofsmith.analysis.stagnation import open_directions
from roofsmith.analysis.unproven import waiting_in
from roofsmith.domain.campaign import Campaign, Stopped
from roofsmith.domain.category import Category
from roofsmith.domain.outcome import Cheated
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.refusal import PASSES, Refusal, RefusalReason
from roofsmith.domain.returning import written_back
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.report.diffs import BUILD_PATH, FileDiff, candidate_diff
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
        *_divided(steps, campaign.incumbent.id),
        *_undecided(steps, campaign),
        *_unmeasured(steps),
        *_refused(campaign.refusals),
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
                f"The limit of {fmt.plural(limits.max_iterations or 0, 'round')} ended it, not a"
                " lack of ideas: go on with a higher one.",
                f"roofsmith resume . --max-iterations {min(119, 2 * (limits.max_iterations or 0))}",
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
    held = next((s for s in reversed(steps) if s.mark in ("baseline", "kept")), None)
    goal = campaign.started.target.goal.roofline_fraction or 1.0
    if held is None or (fraction is not None and fraction >= goal) or _is_at_its_end(campaign):
        return
    found, profile = held.bottleneck_after, held.profile_after
    if found is None or profile is None:
        yield NextStep(
            "Profile the kernel that holds",
            f"Round {held.number} was kept without a profile, and an older kernel's says little.",
            "roofsmith campaign show . counters",
        )
        return
    where = ""
    if fraction is not None:
        where = f" at {fmt.share(fraction, campaign.started.bytes_only)} of the roofline"
    title = f"Answer the {found.kind} bottleneck{where}"
    if found.kind == "unknown":
        title = f"Find out what limits the kernel{where}"
    # That a roofline is unknown is a step of its own.
    seen = [line for line in found.evidence if not line.startswith(UNKNOWN_BOUND)]
    who = "The baseline" if held.mark == "baseline" else f"Round {held.number}, which holds,"
    said = (f"{who} shows: {'; '.join(seen)}.",) if seen else ()
    why = (*said, *_blind(found, profile), untried(campaign, steps, held))
    yield NextStep(title, " ".join(why))


def _is_at_its_end(campaign: Campaign) -> bool:
    """Whether it reached what memory gives at all: nothing that a bottleneck asks for helps."""
    return campaign.stopped is not None and campaign.stopped.code == "efficiency_reached"


def _blind(found: Bottleneck, profile: Profile) -> Iterator[str]:
    """Why nobody can say what limits a kernel, where that is for want of counters."""
    if found.kind != "unknown" or profile.tool == "perf":
        return
    missing = [note for note in profile.notes if note.startswith(("no profiler", "perf"))]
    yield from (f"It can't say more: {fmt.first_line(note)}." for note in missing)
    if not any(note.startswith("no profiler") for note in missing):
        yield "`roofsmith doctor` says how to allow performance counters."


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


def _divided(steps: tuple[SummaryStep, ...], incumbent_id: str) -> Iterator[NextStep]:
    for step in steps:
        if step.wants_dispatch and step.incumbent_id == incumbent_id:
            yield NextStep(
                f"Split the kernel for {', '.join(step.winners)}",
                f"Round {step.number} made that class faster and another one slower: dispatch on "
                "the dimensions, and keep both.",
            )


def _undecided(steps: tuple[SummaryStep, ...], campaign: Campaign) -> Iterator[NextStep]:
    """Changes of the kernel that holds, each where its very code was judged last."""
    edge = 1 + campaign.started.target.keep.noise_band
    last = {step.candidate_id: step for step in steps}
    undecided = [
        step
        for step in steps
        if step.is_undecided
        and step.incumbent_id == campaign.incumbent.id
        and step is last[step.candidate_id]
    ]
    spoiled = [step for step in undecided if step.is_incumbents]
    if spoiled:
        assert spoiled[-1].outcome is not None  # that is why
        yield NextStep(
            f"Have the kernel that holds pass every time, then judge {_rounds(spoiled)} again",
            f"It failed where it was held against the change: {spoiled[-1].outcome.detail}",
        )
    undecided = [step for step in undecided if not step.is_incumbents]
    hopeless = [step for step in undecided if step.ratio and step.ratio.ci[1] <= edge]
    open_ = [step for step in undecided if step not in hopeless]
    if hopeless:
        yield NextStep(
            f"Leave {_rounds(hopeless)}",
            f"By their intervals there is no gain beyond the noise band: {_all_seen(hopeless)}.",
        )
    if open_:
        numbers = [step.number for step in open_]
        waiting = waiting_in([r.judgement for r in campaign.rounds if r.round in numbers])
        seen = f"Too noisy to decide ({_all_seen(open_)})"
        yield NextStep(
            f"Judge {_rounds(open_)} again",
            f"{seen}: {waiting}. A quieter machine may, and the pairs so far count."
            if waiting
            else f"{seen}. A quieter machine or a larger `keep.judge_budget_s` may.",
        )


def _unmeasured(steps: tuple[SummaryStep, ...]) -> Iterator[NextStep]:
    """Ideas whose last try was wrong, or not built: neither a cheat, nor mended since."""
    last = {step.repairs or step.number: step for step in steps}
    failed = [
        step
        for step in last.values()
        if step.mark == "failed" and not step.is_undecided and not isinstance(step.outcome, Cheated)
    ]
    if failed:
        ideas = "; ".join(f"{step.number}: {step.status}{_promise(step)}" for step in failed)
        yield NextStep(
            f"Repair {_rounds(failed)}",
            f"Ideas that were never measured, so nothing is known against them: {ideas}.",
        )


def _all_seen(steps: list[SummaryStep]) -> str:
    return "; ".join(f"round {step.number}: {_seen(step)}" for step in steps)


def _refused(refusals: tuple[Refusal, ...]) -> Iterator[NextStep]:
    ideas = [
        f"{fmt.first_line(one.hypothesis.statement)} ({one.reason.replace('_', ' ')}:"
        f" {fmt.first_line(one.detail)})"
        for one in refusals
        if one.hypothesis is not None and one.reason not in (*PASSES, *SAME_AGAIN)
    ]
    if ideas:
        yield NextStep(
            "Propose again what was refused",
            f"Never built, so nothing is known against it: {'; '.join(dict.fromkeys(ideas))}.",
        )


def _seen(step: SummaryStep) -> str:
    return "not measured" if step.ratio is None else fmt.ratio(step.ratio.value, step.ratio.ci)


def _rounds(steps: list[SummaryStep]) -> str:
    numbers = ", ".join(str(step.number) for step in steps)
    return f"round {numbers}" if len(steps) == 1 else f"rounds {numbers}"


def _promise(step: SummaryStep) -> str:
    predicted = step.hypothesis.predicted_speedup if step.hypothesis is not None else None
    return f" (promised {fmt.speedup(predicted)})" if predicted is not None else ""


_MOST_DIRECTIONS = 3  # chosen: what a reader takes in at once
SAME_AGAIN: Final[tuple[RefusalReason, ...]] = ("no_change", "repeated")
"""Refusals of what had been tried, or is there already."""


def untried(campaign: Campaign, steps: tuple[SummaryStep, ...], held: SummaryStep) -> str:
    """Kinds of changes that answer it and that neither a round nor the profile speaks against."""
    assert held.bottleneck_after is not None, "only of a kernel that was profiled"
    tried: dict[Category, list[str]] = defaultdict(list)
    for step in steps:
        if step.hypothesis is not None:
            tried[step.hypothesis.category].append(f"round {step.number} {step.status}")
    for refusal in campaign.refusals:
        if refusal.hypothesis is not None and refusal.reason in SAME_AGAIN:
            tried[refusal.hypothesis.category].append(_told(refusal))
    against = dict(_contradicted(held.profile_after))
    offered = open_directions(campaign, (held.bottleneck_after,))
    open_ = [d for d in offered if d.category not in tried and d.seen is None]
    words = [d.what for d in open_ if d.category not in against][:_MOST_DIRECTIONS]
    said = f"Untried: {' '.join(words)}" if words else "None of the usual answers is untried."
    tried.pop("other", None)  # says nothing of what it was
    if tried:
        past = "; ".join(f"{_called(name)} ({', '.join(at)})" for name, at in tried.items())
        said += f" Tried: {past}."
    ruled_out = [
        f"{_called(d.category)} ({against[d.category]})" for d in open_ if d.category in against
    ]
    return f"{said} Its profile speaks against {', '.join(ruled_out)}." if ruled_out else said


def _contradicted(profile: Profile | None) -> Iterator[tuple[Category, str]]:
    """Kinds of changes that counters speak against, and how. By the bottleneck's thresholds."""
    if profile is None:
        return
    packed = profile.get("vector_fraction")
    packed = profile.get("vector_instruction_share_static") if packed is None else packed
    if packed is not None and packed >= RULES.scalar_below:
        yield "vectorisation", f"{fmt.percent(packed)} of floating-point instructions are packed"
    used, allowed = profile.get("processors_used"), profile.get("processors_allowed")
    if used is not None and allowed and used >= RULES.idle_below * allowed:
        yield "parallelism", f"{used:.1f} of {allowed:.0f} processors are busy"
    misses = profile.get("cache_misses_per_kilo_instruction")
    misses = profile.get("l1_misses_per_kilo_instruction") if misses is None else misses
    if misses is not None and misses < RULES.many_misses_per_kilo:
        yield "prefetch", f"{misses:.1f} cache misses per 1000 instructions"


def _told(refusal: Refusal) -> str:
    return f"{refusal.reason.replace('_', ' ')} after round {refusal.after_round}"


def _called(category: Category) -> str:
    return category.replace("_", " ")


DIFFERENCE = "final.diff"
"""In the campaign's directory: the whole difference from the start, as `git apply` reads it."""


@dataclass(frozen=True, slots=True)
class TakenHome:
    snapshot: str
    """Folder of its files in the campaign's directory."""
    files: tuple[FileDiff, ...]
    """Sources that differ from the start."""
    build: str
    """The whole command line that it was measured with; empty where its repository builds it."""

    @property
    def difference(self) -> str:
        """Of all files, as one patch."""
        return "".join(diff.text for diff in self.files)

    @property
    def patch(self) -> str:
        """The file that holds that."""
        return DIFFERENCE


def taken_home(campaign: Campaign) -> TakenHome | None:
    """None where nothing was kept."""
    if not campaign.kept:
        return None
    target, last = campaign.started.target, campaign.kept[-1]
    diffs = candidate_diff(written_back(target.baseline), written_back(last.candidate))
    return TakenHome(
        snapshot=f"rounds/round-{last.round}/kernel_snapshot",
        files=tuple(diff for diff in diffs if diff.path != BUILD_PATH),
        build="" if target.command else last.candidate.build.command_line(target.language),
    )
