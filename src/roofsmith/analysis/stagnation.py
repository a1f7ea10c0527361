"""The stagnation review: the benefit curve, dead ends, and other directions. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

from roofsmith.analysis.bottleneck import leaves_processors_idle
from roofsmith.analysis.ladder import came_to, streak
from roofsmith.analysis.techniques import Sign, signs
from roofsmith.analysis.tips import WORTH_TELLING
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.category import Category
from roofsmith.domain.diagnosis import (
    BenefitPoint,
    DeadEnd,
    Direction,
    Reprofiled,
    StagnationReview,
)
from roofsmith.domain.knowledge import KnownDirection
from roofsmith.domain.profile import Bottleneck, BottleneckKind
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

FEWEST_DIRECTIONS: Final = 3
MOST_DIRECTIONS: Final = 5
MAY_PAY: Final = 1 + WORTH_TELLING
"""A gain that an interval has to rule out before a kind of change is given up: as much as a tip is
worth."""
_SAYS_NOTHING: Final = frozenset(("unstable", "unverified"))
_NEVER: Final = 99
"""Rank of a category that doesn't answer a bottleneck."""


class _Entry(Value):
    category: Category
    answers: dict[BottleneckKind, int]
    host: str | None = None
    gpu: str | None = None
    needs: Literal["several_workloads"] | None = None

    def what(self, campaign: Campaign) -> str | None:
        """What one would do for its target; None where there is no such change."""
        started = campaign.started
        if self.needs == "several_workloads" and len(started.target.workloads) < 2:
            return None
        return self.host if started.environment.device.kind == "cpu" else self.gpu


class _Table(Value):
    directions: tuple[_Entry, ...]


def stagnation_review(campaign: Campaign, profiles: Sequence[Reprofiled]) -> StagnationReview:
    """Where a campaign stands whose last ideas were all rolled back."""
    failed = streak(campaign)
    bottlenecks = _by_frequency(profiles)
    dead = _dead_ends(failed)
    fraction = campaign.rounds[-1].roofline_fraction if campaign.rounds else None
    return StagnationReview(
        fruitless=len({round_.idea for round_ in failed}),
        curve=benefit_curve(campaign),
        roofline_fraction=fraction,
        bottlenecks=bottlenecks,
        dead_ends=dead,
        directions=_directions(
            campaign,
            bottlenecks,
            frozenset(end.category for end in dead),
            is_idle=any(leaves_processors_idle(profile.bottleneck) for profile in profiles),
        ),
    )


def turned(category: Category, review: StagnationReview | None) -> str:
    """Whether a kind of change leaves the dead ends of a review, in words; empty without one."""
    dead = [end.category for end in review.dead_ends] if review is not None else []
    if not dead:
        return ""
    if category in dead:
        return f"goes on with {category}, which the review calls a dead end"
    return f"turns to {category}, away from {', '.join(dead)}"


def open_directions(campaign: Campaign, bottlenecks: Sequence[Bottleneck]) -> tuple[Direction, ...]:
    """Kinds of changes that are worth a try now, whether or not the last ideas were rolled back.

    Args:
        campaign: after its baseline.
        bottlenecks: of the incumbent, at least one; the one that counts most first.
    """
    dead = frozenset(end.category for end in _dead_ends(streak(campaign)))
    kinds = tuple(dict.fromkeys(found.kind for found in bottlenecks))
    is_idle = any(leaves_processors_idle(found) for found in bottlenecks)
    return _directions(campaign, kinds, dead, is_idle=is_idle)


def library_directions(
    campaign: Campaign, bottlenecks: Sequence[BottleneckKind]
) -> tuple[KnownDirection, ...]:
    """What the library says of these bottlenecks, the first one's before the next one's; all of
    it where none is known."""
    known = campaign.started.directions
    kinds = [kind for kind in dict.fromkeys(bottlenecks) if kind != "unknown"]
    found = [one for kind in kinds for one in known if kind in one.answers]
    return tuple(dict.fromkeys(found)) if kinds else known


def benefit_curve(campaign: Campaign) -> tuple[BenefitPoint, ...]:
    """What each round brought, in order."""
    return tuple(
        BenefitPoint(
            round=round_.round,
            gain=_gain(round_),
            kept=round_.decision.kind == "kept",
            total_speedup=round_.total_speedup,
        )
        for round_ in campaign.remembered
    )


def _gain(round_: Round) -> float | None:
    comparison = round_.judgement.comparison
    return None if comparison is None else comparison.overall.speedup


def _by_frequency(profiles: Sequence[Reprofiled]) -> tuple[BottleneckKind, ...]:
    """What limits the kernel, most frequent first; `unknown` only where nothing else is known."""
    kinds = Counter(profile.bottleneck.kind for profile in profiles)
    known = [kind for kind, _ in kinds.most_common() if kind != "unknown"]
    return tuple(known) or ("unknown",)


def _dead_ends(failed: Sequence[Round]) -> tuple[DeadEnd, ...]:
    """Categories of the rounds since the last kept one, the most tried first.

    What was disturbed so much that nobody could say what it brings is no dead end.
    """
    by_category: dict[Category, list[Round]] = defaultdict(list)
    for round_ in failed:
        if not _is_open(round_):
            by_category[round_.hypothesis.category].append(round_)
    ends = [_dead_end(category, rounds) for category, rounds in by_category.items()]
    return tuple(sorted(ends, key=lambda end: (-len(end.rounds), end.rounds)))


def _is_open(round_: Round) -> bool:
    """Whether a round's measurement leaves it open what the change brings."""
    ended, comparison = came_to(round_), round_.judgement.comparison
    if ended == "inconclusive" and comparison is not None:
        return comparison.overall.ci[1] >= MAY_PAY
    return ended in _SAYS_NOTHING


def _dead_end(category: Category, rounds: Sequence[Round]) -> DeadEnd:
    gains = [gain for round_ in rounds if (gain := _gain(round_)) is not None]
    ends = Counter(came_to(round_).replace("_", " ") for round_ in rounds)
    return DeadEnd(
        category=category,
        rounds=tuple(round_.round for round_ in rounds),
        tactics=tuple(dict.fromkeys(round_.hypothesis.tactic for round_ in rounds)),
        best=max(gains, default=None),
        came_to=", ".join(f"{count} {name}" for name, count in ends.most_common()),
    )


def _directions(
    campaign: Campaign,
    bottlenecks: Sequence[BottleneckKind],
    dead: frozenset[Category],
    *,
    is_idle: bool,
) -> tuple[Direction, ...]:
    """Other categories by what they answer: first what the kernel shows nothing of, untried first.

    Before all of them comes `parallelism` where processors are idle, unless it is a dead end.

    At least three: there are more than twice as many categories as the ladder's rounds can use up
    before a campaign ends by its regressions. Where a campaign of ties has tried nearly all of
    them, dead ends come back, the ones left longest ago first, and say so.
    """
    tried: dict[Category, list[Round]] = defaultdict(list)
    for round_ in campaign.remembered:
        tried[round_.hypothesis.category].append(round_)
    open_, closed = list[tuple[_Entry, str]](), list[tuple[_Entry, str]]()
    for entry in _table().directions:
        what = entry.what(campaign)
        if what is not None:
            (closed if entry.category in dead else open_).append((entry, what))
    there = signs(campaign.incumbent)
    open_.sort(
        key=lambda found: (
            not (is_idle and found[0].category == "parallelism"),
            found[0].category in there,
            bool(tried[found[0].category]),
            _rank(found[0], bottlenecks),
        )
    )
    closed.sort(key=lambda found: tried[found[0].category][-1].round)
    chosen = open_[:MOST_DIRECTIONS]
    chosen += closed[: max(0, FEWEST_DIRECTIONS - len(chosen))]
    return tuple(
        Direction(
            category=entry.category,
            what=what,
            because=_because(
                _answered(entry, bottlenecks), there.get(entry.category), tried[entry.category]
            ),
            tried=tuple(round_.round for round_ in tried[entry.category]),
            seen=str(there[entry.category]) if entry.category in there else None,
        )
        for entry, what in chosen
    )


def _rank(entry: _Entry, bottlenecks: Sequence[BottleneckKind]) -> tuple[int, ...]:
    """By the most frequent bottleneck first."""
    return tuple(entry.answers.get(kind, _NEVER) for kind in bottlenecks)


def _answered(entry: _Entry, bottlenecks: Sequence[BottleneckKind]) -> str:
    if bottlenecks[0] == "unknown":
        return "nobody knows what limits the kernel, and this often does"
    answered = [kind for kind in bottlenecks if kind in entry.answers]
    if not answered:
        return f"it is no usual answer to the {bottlenecks[0]} bottleneck"
    return f"it answers the {' and the '.join(answered)} bottleneck"


def _because(answered: str, sign: Sign | None, rounds: Sequence[Round]) -> str:
    parts = [answered]
    parts += [f"already there: {sign}"] if sign is not None else []
    parts += [_history(rounds)] if rounds or sign is None else []
    return "; ".join(parts)


def _history(rounds: Sequence[Round]) -> str:
    if not rounds:
        return "never tried here"
    last = rounds[-1]
    if _is_open(last):
        return f"round {last.round} tried it, and nobody could say what it brings"
    gain = _gain(last)
    how = last.decision.kind.replace("_", " ")
    seen = "" if gain is None else f" at {gain:.2f}x"
    return f"last tried in round {last.round}, {how}{seen}"


@cache
def _table() -> _Table:
    return _Table.model_validate(shipped_table(__package__, "directions.yaml"))
