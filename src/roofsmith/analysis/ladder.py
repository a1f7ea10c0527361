"""The diagnosis ladder: which level a campaign is at, and what was tried since a change was kept.

An idea counts once, whatever was repaired of it: repairs are tries to get it right, not others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from roofsmith.analysis.calibration import scores
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.diagnosis import Attempt, Diagnosis, Disassembly, Level, Material, Reprofiled
from roofsmith.domain.outcome import Passed

HIGHEST: Final = 4
REPROFILED_FROM: Final = 2
DISASSEMBLED_FROM: Final = 3
COMPARED_FROM: Final = 4
"""Levels from which the next proposer gets these parts."""
_DETAIL = 600
"""Characters of what went wrong; the log has the rest."""


def streak(campaign: Campaign) -> tuple[Round, ...]:
    """Rounds since the last kept one that planning may see; all of them were rolled back."""
    since = 0
    for place, round_ in enumerate(campaign.rounds, start=1):
        if not isinstance(round_.decision, RolledBack):
            since = place
    ideas = (r for r in campaign.rounds[since:] if r.ablates is None)
    return tuple(r for r in ideas if r.round not in campaign.masked)


def level_of(campaign: Campaign) -> Level | None:
    """The level that the next idea has to be thought of at; None after the baseline or a keep."""
    ideas = {round_.idea for round_ in streak(campaign)}
    return cast("Level", min(len(ideas), HIGHEST)) if ideas else None


def needs_diagnosis(round_: Round) -> bool:
    """Whether a round is an idea of its own: others follow from rounds before."""
    return round_.repairs is None and not round_.is_own


def attempts(campaign: Campaign) -> tuple[Attempt, ...]:
    """What was tried since the last kept change, and why it failed."""
    by_round = {score.round: score for score in scores(campaign)}
    return tuple(
        Attempt(
            round=round_.round,
            statement=round_.hypothesis.statement,
            tactic=round_.hypothesis.tactic,
            category=round_.hypothesis.category,
            answers=round_.hypothesis.answers,
            came_to=came_to(round_),
            why=round_.decision.rule,
            detail=_detail(round_),
            repairs=round_.repairs,
            score=by_round[round_.round],
        )
        for round_ in streak(campaign)
    )


def came_to(round_: Round) -> str:
    """The outcome of a round that failed; else its verdict."""
    outcome = round_.judgement.outcome
    return outcome.kind if not isinstance(outcome, Passed) else round_.judgement.verdict


def _detail(round_: Round) -> str:
    """What went wrong in a round that failed before it was measured."""
    detail = round_.judgement.outcome.detail
    return detail if len(detail) <= _DETAIL else f"{detail[: _DETAIL - 3]}..."


def diagnosis(campaign: Campaign) -> Diagnosis | None:
    """What was gathered for the next idea; None where nothing is needed, or not all is there."""
    level = level_of(campaign)
    last = campaign.diagnoses[-1] if campaign.diagnoses else None
    if level is None or last is None or last.after_round != campaign.last_round:
        return None
    told = [attempt.round for attempt in last.material.attempts]
    if last.level != level or told != [round_.round for round_ in streak(campaign)]:
        return None
    earlier = gathered(campaign)
    found = last.material.model_copy(
        update={
            "profiles": last.material.profiles or earlier.profiles,
            "disassembly": last.material.disassembly or earlier.disassembly,
        }
    )
    if missing_parts(level, found):
        return None
    return Diagnosis(level=level, after_round=last.after_round, material=found)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Parts that were measured, and hold for as long as the incumbent does."""

    profiles: tuple[Reprofiled, ...] = ()
    disassembly: Disassembly | None = None


def gathered(campaign: Campaign) -> Gathered:
    """What records since the last kept round hold of the incumbent: the latest of each part."""
    kept = campaign.kept[-1].round if campaign.kept else 0
    found = Gathered()
    for event in campaign.diagnoses:
        if event.after_round > kept:
            material = event.material
            found = Gathered(
                material.profiles or found.profiles, material.disassembly or found.disassembly
            )
    return found


def held_listing(campaign: Campaign) -> Disassembly | None:
    """The hot loops of the kernel that holds, as they were last looked at; None: nobody did."""
    first = None if campaign.holder is None else campaign.holder.disassembly
    return gathered(campaign).disassembly or first


def missing_parts(level: Level, material: Material) -> Sequence[str]:
    """Names of the parts that a level asks for and the material doesn't hold."""
    asked = {
        "review": (REPROFILED_FROM, material.review),
        "profiles": (REPROFILED_FROM, material.profiles),
        "disassembly": (DISASSEMBLED_FROM, material.disassembly),
        "best_known": (COMPARED_FROM, material.best_known),
    }
    return [name for name, (since, part) in asked.items() if level >= since and not part]
