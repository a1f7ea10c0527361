"""Proposes the strategy card that promises most for the classified bottleneck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.domain.campaign import Round
from roofsmith.domain.category import Category
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.cards import Card, CardContext, Change, NotApplicable, all_cards

TACTIC_PREFIX = "recipe:"
MAX_FAILURES = 2
"""A card that failed gets one more chance, after something else was kept."""
OFF_TARGET_WEIGHT = 0.5
"""A card that answers another bottleneck counts half its predicted gain (in the logarithm)."""
MIN_PREDICTED = 1.005


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the proposer thinks of one card for one incumbent."""

    card: Card
    applicable: bool
    why: str
    """What it would change, or why it is not proposed."""
    predicted: float
    """Predicted speedup; 1 where it isn't applicable."""
    score: float = 0.0
    """What cards are ranked by: log of the prediction, halved off the bottleneck."""
    change: Change | None = None
    expected_delta: float | None = None
    """Of the card's counter, if the prediction comes true."""


class RecipeProposer:
    """Ranks the cards for each incumbent; keeps no state that the ledger doesn't hold."""

    def __init__(self, cards: Sequence[Card] | None = None) -> None:
        """Use these cards; by default every card there is."""
        self._cards = tuple(all_cards() if cards is None else cards)

    @property
    def name(self) -> str:
        """`recipes`."""
        return "recipes"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        """The best card that applies and wasn't tried on this incumbent; None if there is none."""
        del screen
        if brief.repair is not None:  # a card that gives a wrong result has no second version
            return None
        for found in self.explain(brief):
            if found.applicable and found.change is not None:
                return _propose(brief, found, found.change)
        return None

    def tell(self, round: Round) -> None:
        """Nothing to remember: the next brief holds the round."""

    def explain(self, brief: Brief) -> list[Explanation]:
        """Every card, the best first, each with what it would change or why it stays out.

        Once a stagnation review has named dead ends, cards of other categories come first.
        """
        context = CardContext.of(brief)
        dead = _dead_ends(brief)
        found = [_consider(card, context, brief) for card in self._cards]
        return sorted(
            found,
            key=lambda e: (not e.applicable, e.card.category in dead, -e.score, e.card.id),
        )


def _dead_ends(brief: Brief) -> frozenset[Category]:
    """Categories that led nowhere since the last kept change; none before there is a review."""
    review = brief.diagnosis.material.review if brief.diagnosis is not None else None
    return frozenset(end.category for end in review.dead_ends) if review else frozenset()


def _consider(card: Card, context: CardContext, brief: Brief) -> Explanation:
    obstacle = card.suits(context) or _tried(card, brief)
    if obstacle is not None:
        return Explanation(card, False, obstacle.reason, 1.0)
    change = card.apply(context)
    if isinstance(change, NotApplicable):
        return Explanation(card, False, change.reason, 1.0)
    refused = (refusal.candidate_id for refusal in brief.campaign.refusals)
    judged = {brief.incumbent.id, *(round.proposed_id for round in brief.remembered), *refused}
    if change.candidate.id in judged:
        return Explanation(card, False, "it gives a kernel that was judged already", 1.0)
    predicted = card.predict(context)
    if predicted < MIN_PREDICTED:
        why = f"no gain is predicted: {change.statement[0].lower()}{change.statement[1:]}"
        return Explanation(card, False, why, predicted)
    kind = brief.bottleneck.kind
    weight = 1.0 if kind == "unknown" or kind in card.answers else OFF_TARGET_WEIGHT
    score = weight * math.log(predicted)
    delta = card.expects(context, predicted)
    return Explanation(card, True, change.statement, predicted, score, change, delta)


def _tried(card: Card, brief: Brief) -> NotApplicable | None:
    """Why the campaign's history keeps the card out; None if it doesn't."""
    rounds = [r for r in brief.remembered if r.hypothesis.tactic == TACTIC_PREFIX + card.id]
    failed = [r for r in rounds if r.decision.kind != "kept"]
    here = [r for r in failed if r.incumbent_id == brief.incumbent.id]
    if here:
        return NotApplicable(f"round {here[-1].round} tried it on this kernel")
    if len(failed) >= MAX_FAILURES:
        numbers = " and ".join(str(r.round) for r in failed)
        return NotApplicable(f"rounds {numbers} tried it, and it didn't pay")
    return None


def _propose(brief: Brief, found: Explanation, change: Change) -> Proposal:
    card = found.card
    bottleneck = brief.bottleneck
    aimed = bottleneck.kind if bottleneck.kind in card.answers else min(card.answers)
    return Proposal(
        hypothesis=Hypothesis(
            statement=change.statement,
            rationale=change.rationale or card.rationale,
            evidence=bottleneck.evidence,
            answers=aimed,
            expected_counter=card.expected_counter,
            expected_change=card.expected_change,
            expected_delta=found.expected_delta,
            predicted_speedup=found.predicted,
            bucket=card.bucket,
            category=card.category,
            tactic=TACTIC_PREFIX + card.id,
            source=card.source,
        ),
        candidate=change.candidate,
    )
