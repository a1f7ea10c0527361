"""The diagnosis ladder: after rollbacks in a row, the next idea is thought of with more at hand."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.analysis.best_known import best_known
from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.ladder import (
    COMPARED_FROM,
    DISASSEMBLED_FROM,
    REPROFILED_FROM,
    attempts,
    diagnosis,
    gathered,
    held_listing,
    level_of,
    missing_parts,
    needs_diagnosis,
)
from roofsmith.analysis.stagnation import stagnation_review
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.diagnosis import Diagnosed, Disassembly, Level, Material, Reprofiled
from roofsmith.domain.measure import Measure
from roofsmith.domain.proposal import Proposal
from roofsmith.engine.profiling import listed, look
from roofsmith.errors import UsageError
from roofsmith.ports import Evaluator

MOST_PROFILES = 5
"""Workloads that a level profiles again: one for each class, the slowest."""


def owed_level(campaign: Campaign) -> Level | None:
    """The level whose material has yet to be gathered; None if the next idea may come."""
    level = level_of(campaign)
    return level if diagnosis(campaign) is None else None


def require_diagnosis(campaign: Campaign, proposal: Proposal) -> None:
    """Refuse an idea that was thought of without the material of its level.

    Repairs and splits follow from the round before them.

    Raises:
        UsageError: it has yet to be gathered.
    """
    level = owed_level(campaign)
    if proposal.repair or proposal.is_own or level is None:
        return
    failed = attempts(campaign)
    numbers = ", ".join(str(attempt.round) for attempt in failed)
    which = f"round {numbers} was" if len(failed) == 1 else f"rounds {numbers} were"
    raise UsageError(
        f"the next idea is one of level {level}: {which} rolled back since the last "
        "kept change, and what they show was not looked at",
        hint="`roofsmith ask DIR` first: it gathers what that level looks at again",
    )


def gather(campaign: Campaign, level: Level, evaluator: Evaluator) -> Material:
    """What a level looks at again; what an earlier level saw of the same kernel is left out.

    Yardsticks are measured before this.
    """
    failed, known = attempts(campaign), gathered(campaign)
    if level < REPROFILED_FROM:
        return Material(attempts=failed)
    profiles = known.profiles or reprofiled(campaign, evaluator)
    disassembly: Disassembly | None = None
    if level >= DISASSEMBLED_FROM and known.disassembly is None:
        held = held_listing(campaign)
        is_seen = held is not None and held.loops
        disassembly = (
            held if is_seen else listed(evaluator, campaign.incumbent, profiles[0].profile)
        )
    return Material(
        attempts=failed,
        review=stagnation_review(campaign, profiles),
        profiles=() if known.profiles else profiles,
        disassembly=disassembly,
        best_known=best_known(campaign) if level >= COMPARED_FROM else None,
    )


def reprofiled(campaign: Campaign, evaluator: Evaluator) -> tuple[Reprofiled, ...]:
    """The incumbent on the slowest workload of each class, the slowest class first."""
    times_s = campaign.times_s
    slowest = [
        (max(config_class.workloads, key=lambda label: times_s[label]), config_class.name)
        for config_class in campaign.classes
    ]
    slowest.sort(key=lambda found: -times_s[found[0]])
    found = []
    for label, name in slowest[:MOST_PROFILES]:
        profile, bottleneck = look(evaluator, campaign, campaign.incumbent, label, times_s[label])
        found.append(
            Reprofiled(
                workload=label,
                config_class=name,
                time_s=times_s[label],
                profile=profile,
                bottleneck=bottleneck,
            )
        )
    return tuple(found)


def diagnosis_findings(event: Diagnosed, campaign: Campaign) -> Iterator[str]:
    """What a recorded diagnosis claims that doesn't follow from the records before it."""
    level, material = level_of(campaign), event.material
    if (event.level, event.after_round) != (level, campaign.last_round):
        yield (
            f"level {event.level} after round {event.after_round} is recorded; "
            f"level {level} after round {campaign.last_round} follows"
        )
        return
    known = gathered(campaign)
    profiles = material.profiles or known.profiles
    claims = (
        ("what was tried", material.attempts, attempts(campaign)),
        (
            "the stagnation review",
            material.review,
            stagnation_review(campaign, profiles) if event.level >= REPROFILED_FROM else None,
        ),
        (
            "the best known",
            material.best_known,
            best_known(campaign) if event.level >= COMPARED_FROM else None,
        ),
    )
    for name, recorded, follows in claims:
        if recorded != follows:
            yield f"{name} is not what the rounds before it give"
    yield from _profile_findings(material.profiles, campaign)
    whole = material.model_copy(
        update={"profiles": profiles, "disassembly": material.disassembly or known.disassembly}
    )
    for part in missing_parts(event.level, whole):
        yield f"level {event.level} lacks {part.replace('_', ' ')}"


def _profile_findings(profiles: tuple[Reprofiled, ...], campaign: Campaign) -> Iterator[str]:
    for seen in profiles:
        time_s = campaign.times_s.get(seen.workload)
        if seen.time_s != time_s:
            yield _misread(seen, time_s, campaign.started.target.measure)
        elif seen.bottleneck != classify(campaign.bound(seen.workload), time_s, seen.profile):
            yield f"the bottleneck on {seen.workload} doesn't follow from its profile"


def _misread(seen: Reprofiled, recorded: float | None, measure: Measure) -> str:
    if measure.is_time:
        return f"the incumbent takes {recorded} s on {seen.workload}, not {seen.time_s}"
    value = None if recorded is None else measure.value(recorded)
    said = measure.value(seen.time_s)
    return f"{measure.name} of the incumbent is {value} on {seen.workload}, not {said}"


def was_diagnosed(round_: Round, campaign: Campaign) -> bool:
    """Whether an idea came with the material of its level, where the campaign asks for it."""
    if not campaign.started.ladder or not needs_diagnosis(round_):
        return True
    return owed_level(campaign) is None
