"""Proposes the strategy card that promises most for the classified bottleneck."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.analysis.unproven import is_unproven
from roofsmith.asking.evidence import answerable
from roofsmith.domain.campaign import Round
from roofsmith.domain.category import Category
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.cards import Card, CardChange, CardContext, all_cards
from roofsmith.proposers.repository_files import contexts_of, in_repository

TACTIC_PREFIX = "recipe:"
MAX_FAILURES = 2
"""A card that failed gets one more chance, after something else was kept."""
SLOWER_BY_FAR = 0.8
"""Speedup below which a card isn't tried again on the same loops, whatever else was kept since."""
OFF_TARGET_WEIGHT = 0.5
"""A card that answers another bottleneck counts half its predicted gain (in the logarithm)."""
MIN_PREDICTED = 1.005


@dataclass(frozen=True, slots=True)
class Idea:
    """A card that applies to an incumbent."""

    card: Card
    change: CardChange
    predicted: float
    """Predicted speedup."""
    score: float
    """What cards are ranked by: log of the prediction, halved off the bottleneck, and by what such
    predictions came to in earlier campaigns where the target says so."""
    expected_delta: float | None
    """Of the card's counter, if the prediction comes true."""


class RecipeProposer:
    """Ranks the cards for each incumbent; keeps no state that the ledger doesn't hold."""

    def __init__(self, cards: Sequence[Card] | None = None) -> None:
        """Use these cards; by default every card there is."""
        self._cards = tuple(all_cards() if cards is None else cards)

    @property
    def name(self) -> str:
        return "recipes"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        """The best card that applies and wasn't tried on this incumbent; None if there is none."""
        del screen
        if brief.repair is not None:  # a card that gives a wrong result has no second version
            return None
        best = next(iter(self.ideas(brief)), None)
        return None if best is None else _propose(brief, best)

    def tell(self, round: Round) -> None:
        """Nothing to remember: the next brief holds the round."""

    def ideas(self, brief: Brief) -> list[Idea]:
        """Every card that applies and promises a gain, the best first.

        Once a stagnation review has named dead ends, cards of other categories come first.
        """
        dead = _dead_ends(brief)
        found = (
            _consider(card, context, brief)
            for context in contexts_of(brief)
            for card in self._cards
        )
        return sorted(
            (idea for idea in found if idea is not None),
            key=lambda idea: (idea.card.category in dead, -idea.score, idea.card.id),
        )


def _dead_ends(brief: Brief) -> frozenset[Category]:
    """Categories that led nowhere since the last kept change; none before there is a review."""
    review = brief.diagnosis.material.review if brief.diagnosis is not None else None
    return frozenset(end.category for end in review.dead_ends) if review else frozenset()


def _consider(card: Card, context: CardContext, brief: Brief) -> Idea | None:
    if not card.suits(context) or _tried(card, brief):
        return None
    change = card.apply(context)
    change = change and in_repository(change, context, brief.incumbent)
    refused = (refusal.candidate_id for refusal in brief.campaign.refusals)
    judged = {brief.incumbent.id, *(round.proposed_id for round in brief.remembered), *refused}
    if change is None or change.candidate.id in judged or _was_far_slower(card, change, brief):
        return None
    predicted = card.predict(context)
    if predicted < MIN_PREDICTED:
        return None
    kind = brief.bottleneck.kind
    weight = 1.0 if kind == "unknown" or kind in card.answers else OFF_TARGET_WEIGHT
    return Idea(
        card, change, predicted, weight * math.log(predicted), card.expects(context, predicted)
    )


def _tried(card: Card, brief: Brief) -> bool:
    """Whether the campaign's history keeps the card out."""
    rounds = [r for r in brief.remembered if r.hypothesis.tactic == TACTIC_PREFIX + card.id]
    failed = [r for r in rounds if r.decision.kind != "kept"]
    here = any(r.incumbent_id == brief.incumbent.id for r in failed)
    policy = brief.campaign.started.target.keep
    return here or sum(not is_unproven(r, policy) for r in failed) >= MAX_FAILURES


def _was_far_slower(card: Card, change: CardChange, brief: Brief) -> bool:
    """Whether the card lost by far where it did the same, on whatever lines that was."""
    return any(
        past.hypothesis.tactic == TACTIC_PREFIX + card.id
        and past.judgement.comparison is not None
        and past.judgement.comparison.overall.speedup < SLOWER_BY_FAR
        and _without_lines(past.hypothesis.statement) == _without_lines(change.statement)
        for past in brief.remembered
    )


def _without_lines(statement: str) -> str:
    return re.sub(r"\blines? \d+((, | and )\d+)*", "line", statement)


def _propose(brief: Brief, found: Idea) -> Proposal:
    card, change = found.card, found.change
    bottleneck, seen = brief.bottleneck, answerable(brief)
    aimed = next((kind for kind in seen if kind in card.answers), "unknown")
    rationale = change.rationale or card.rationale
    if aimed == "unknown":
        known = " and ".join(sorted(card.answers))
        rationale += f" It answers no bottleneck that was seen ({', '.join(seen)}), but {known}."
    return Proposal(
        hypothesis=Hypothesis(
            statement=change.statement,
            rationale=rationale,
            evidence=bottleneck.evidence,
            answers=aimed,
            expected_counter=card.expected_counter,
            expected_change=card.expected_change,
            expected_delta=found.expected_delta,
            expected_instruction=card.instruction,
            predicted_speedup=found.predicted,
            bucket=card.bucket,
            category=card.category,
            tactic=TACTIC_PREFIX + card.id,
            source=card.source,
        ),
        candidate=change.candidate,
    )
