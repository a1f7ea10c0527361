"""Reductions along an axis, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import reduction, says
from roofsmith.proposers.recipes.families._modules import Replacement, triton_card

_KINDS = {
    "argmax": re.compile(r"arg_?max", re.IGNORECASE),
    "argmin": re.compile(r"arg_?min", re.IGNORECASE),
    "mean": re.compile(r"\bmean|average", re.IGNORECASE),
    "max": re.compile(r"amax|(?:tl|torch)\.max|\.max\(|maximum", re.IGNORECASE),
    "min": re.compile(r"amin|(?:tl|torch)\.min|\.min\(|minimum", re.IGNORECASE),
    "sum": re.compile(r"sum", re.IGNORECASE),
}
_EXPONENTIAL = re.compile(r"\bexp|\.exp|square|\*\* *2|norm", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """One input, and one output without one of its axes, or without all."""
    fit = reduction(context)
    kind = next((kind for kind, words in _KINDS.items() if says(context, words)), None)
    if fit is None or kind is None or says(context, _EXPONENTIAL):
        return None
    if kind.startswith("arg") != (fit.y.dtype in ("int32", "int64")):
        return None
    if kind.startswith("arg") and fit.axis is None:
        return None
    return Replacement(
        "reduce",
        f"reduce({fit.x.name}, {fit.y.name}, {fit.axis}, {kind!r})",
        f"Compute the {kind} with enough programs to fill the device",
    )


CARD = triton_card(
    launch,
    id="triton-reduction",
    title="Reduction in Triton, in two stages where outputs are few",
    category="parallelism",
    answers=frozenset(("memory", "latency", "occupancy", "launch", "unknown")),
    rationale=(
        "Memory is at its rate when every multiprocessor has loads under way; where there are "
        "fewer outputs than that takes, several programs share one and a second launch joins them"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source="Harris, Optimizing Parallel Reduction in CUDA, NVIDIA 2007",
    families=frozenset(("reduction",)),
)
