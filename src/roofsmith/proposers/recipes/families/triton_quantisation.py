"""Rows quantised to 8 bits with a scale each, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import quantisation, says
from roofsmith.proposers.recipes.families._modules import SMALL_NUMBER, Replacement, triton_card

_NAMED = re.compile(r"quant|127|448", re.IGNORECASE)
_WIDEST = 32768


def launch(context: CardContext) -> Replacement | None:
    """One input, its elements in 8 bits, and a scale for each row."""
    fit = quantisation(context)
    if fit is None or not says(context, _NAMED) or max(fit.x.last) > _WIDEST:
        return None
    found = SMALL_NUMBER.search(context.candidate.kernel.text)
    lowest = found.group() if found else "1e-12"
    return Replacement(
        "quantise",
        f"quantise({fit.x.name}, {fit.y.name}, {fit.scales.name}, {lowest})",
        "Quantise whole rows in registers",
    )


CARD = triton_card(
    launch,
    id="triton-quantisation",
    title="Quantisation of rows in Triton, each read once",
    category="fusion",
    answers=frozenset(("memory", "latency", "launch", "unknown")),
    rationale=(
        "A row that stays in registers between its largest element and its quotients is read once"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source="Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433, 2022",
    families=frozenset(("elementwise", "reduction")),
)
