"""Softmax and log-softmax of rows, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import rows_and_columns, says
from roofsmith.proposers.recipes.families._modules import Replacement, triton_card

_NAMED = re.compile(r"softmax", re.IGNORECASE)
_LOGARITHM = re.compile(r"log_?softmax|\blog\(", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """One input and one output of its shape."""
    fit = rows_and_columns(context)
    if fit is None or fit.vectors or fit.residual or fit.eps or min(fit.x.last) < 1:
        return None
    if context.family is None and not says(context, _NAMED):
        return None
    if context.operator not in (None, "softmax", "log-softmax"):
        return None
    log = says(context, _LOGARITHM) if context.operator is None else context.operator != "softmax"
    return Replacement(
        "softmax",
        f"softmax({fit.x.name}, {fit.y.name}, {log})",
        f"Compute the {'log-softmax' if log else 'softmax'} of whole rows in registers",
    )


CARD = triton_card(
    launch,
    id="triton-softmax",
    title="Softmax in Triton, whole rows in registers",
    category="fusion",
    answers=frozenset(("memory", "latency", "launch", "unknown")),
    rationale=(
        "Every element is read once and written once where a row stays in registers; several "
        "short rows share a program, and long ones keep a running maximum and sum"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source=(
        "Milakov & Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867, 2018; "
        "Triton tutorials, Fused Softmax"
    ),
    families=frozenset(("softmax",)),
)
