"""Transposed matrices, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import says, transposition
from roofsmith.proposers.recipes.families._modules import Replacement, triton_card

_NAMED = re.compile(r"transpos", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """One input, and one output whose last two axes are the other way round."""
    fit = transposition(context)
    if fit is None or fit.x.dtype == "bool":
        return None
    if context.family is None and not says(context, _NAMED):
        return None
    return Replacement(
        "transpose",
        f"transpose({fit.x.name}, {fit.y.name})",
        "Transpose square tiles on the chip",
    )


CARD = triton_card(
    launch,
    id="triton-transpose",
    title="Transposition in Triton, by tiles",
    category="memory_access",
    answers=frozenset(("memory", "latency", "unknown")),
    rationale=(
        "Whichever way a thread walks, one side of a transposition is touched in columns; a tile "
        "that is turned in shared memory is read and written in rows"
    ),
    expected_counter="excess_global_sectors",
    expected_change="down to none",
    source="Ruetsch & Micikevicius, Optimizing Matrix Transpose in CUDA, NVIDIA 2009",
    families=frozenset(("transpose",)),
)
