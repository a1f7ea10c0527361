"""Write the kernel anew with a loop nest for each operation: where fused ones were no gain."""

from __future__ import annotations

import math

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.recipes import schedule


def apply(context: CardContext) -> CardChange | None:
    """One nest of loops for each reduction and each result."""
    kernel = schedule.written(context, fused=False)
    if kernel is None:
        return None
    statement = (
        f"Write `{context.signature.entry}` anew from what the reference computes, in loops of "
        f"their own: {kernel.told}"
    )
    return CardChange(schedule.kernel_of(context, kernel), statement)


def predict(context: CardContext) -> float:
    """Half the gain, in the logarithm, of what comes first."""
    return math.sqrt(schedule.predict(context))


CARD = Card(
    id="schedule-apart",
    title="Loops written from the computation, one for each operation",
    category="fusion",
    answers=schedule.CARD.answers,
    rationale="Fused loops may need more registers and more of the cache than there is.",
    expected_counter="instructions",
    expected_change="down by about the number of vector lanes",
    source=schedule.CARD.source,
    apply=apply,
    predict=predict,
)
