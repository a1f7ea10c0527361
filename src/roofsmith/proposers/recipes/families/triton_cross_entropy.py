"""Cross-entropy over many classes, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import cross_entropy, says
from roofsmith.proposers.recipes.families._modules import Replacement, triton_card

_OTHERWISE = re.compile(r"smooth|ignore_index|reduction *= *['\"]sum", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """Logits and classes in, losses or their mean out."""
    fit = cross_entropy(context)
    if fit is None or says(context, _OTHERWISE):
        return None
    operands = f"{fit.logits.name}, {fit.targets.name}, {fit.loss.name}"
    return Replacement(
        "cross_entropy",
        f"cross_entropy({operands}, {fit.is_mean})",
        "Compute the losses with one pass over the logits",
    )


CARD = triton_card(
    launch,
    id="triton-cross-entropy",
    title="Cross-entropy in Triton, logits read once",
    category="fusion",
    answers=frozenset(("memory", "latency", "launch", "unknown")),
    rationale=(
        "A running maximum and sum need every logit once, and the log-probabilities, as large as "
        "the logits, are never written"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source=(
        "Milakov & Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867, 2018; "
        "Hsu et al., Liger Kernel, arXiv:2410.10989, 2024"
    ),
    families=frozenset(("cross_entropy",)),
)
