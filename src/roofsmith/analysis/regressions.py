"""Rounds in a row that were measured and slower. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.outcome import Incorrect

WINDOW = 5
"""Regressions that a stop recounts; those before are in the log."""


def regressions_in_a_row(rounds: Sequence[Round], max_repairs: int) -> tuple[Round, ...]:
    """The regressions since the last round that was none, oldest first.

    A keep, a tie, a failure and an idea that was dropped after its repairs begin anew. A wrong
    result that is still being repaired does neither: the idea counts by what its repair comes to.
    So does a round whose classes diverged: it counts by what its dispatch comes to. An ablation
    looks back, and says nothing of where ideas lead.
    """
    found: list[Round] = []
    for place, round_ in enumerate(rounds):
        if _in_split(rounds, place) or round_.ablates is not None:
            continue
        if isinstance(round_.decision, RolledBack) and round_.decision.regression:
            found.append(round_)
        elif not _in_repair(rounds, place, max_repairs):
            found.clear()
    return tuple(found)


def _in_split(rounds: Sequence[Round], place: int) -> bool:
    """Whether a round's classes diverged, and its dispatch follows or is due."""
    round_ = rounds[place]
    diverged = isinstance(round_.decision, RolledBack) and round_.decision.diverged
    if not diverged or round_.splits is not None or round_.unsplit is not None:
        return False
    return place + 1 == len(rounds) or rounds[place + 1].splits == round_.round


def losing_classes(campaign: Campaign) -> tuple[tuple[str, int, int], ...]:
    """Config classes that were slower in some round: the name, how often, in how many rounds that
    compared it; the most fragile first."""
    lost, judged = Counter[str](), Counter[str]()
    for round_ in campaign.rounds:
        compared = round_.judgement.comparison
        for one in compared.classes if compared is not None else ():
            judged[one.config_class] += 1
            lost[one.config_class] += one.estimate.verdict == "slower"
    found = ((name, lost[name], judged[name]) for name in judged if lost[name])
    return tuple(sorted(found, key=lambda one: (-one[1] / one[2], one[0])))


def repairs_made(rounds: Sequence[Round], idea: int) -> int:
    """How often an idea was repaired so far."""
    return sum(round_.repairs == idea for round_ in rounds)


def _in_repair(rounds: Sequence[Round], place: int, max_repairs: int) -> bool:
    """Whether a round's result was wrong, and a repair follows or may follow."""
    round_ = rounds[place]
    if not isinstance(round_.judgement.outcome, Incorrect) or round_.splits is not None:
        return False
    if place + 1 < len(rounds):
        return rounds[place + 1].repairs == round_.idea
    return repairs_made(rounds, round_.idea) < max_repairs
