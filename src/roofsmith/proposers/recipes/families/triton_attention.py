"""Attention without its scores in memory, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import attention, says
from roofsmith.proposers.recipes.families._modules import (
    Replacement,
    has_descriptors,
    precision,
    triton_card,
)

_NAMED = re.compile(r"attention|attn|softmax", re.IGNORECASE)
_LARGEST = 256
"""Widths of a head beyond it don't fit into registers and shared memory."""


def launch(context: CardContext) -> Replacement | None:
    """Queries, keys and values in, one output."""
    fit = attention(context)
    if fit is None or (context.family is None and not says(context, _NAMED)):
        return None
    width = max(_widths(fit.q.last, context, fit.heads))
    if width > _LARGEST:
        return None
    dot = precision(context) if fit.q.dtype == "float32" else "ieee"
    names = f"{fit.q.name}, {fit.k.name}, {fit.v.name}, {fit.o.name}"
    how = f"{fit.heads}, {fit.heads_last}, {fit.scale}, {fit.causal}, {dot!r}"
    settings = {"BLOCK_M": 128, "BLOCK_N": 64, "WARPS": 8, "STAGES": 3}
    if has_descriptors(context.device) and (fit.q.dtype != "float32" or width <= 64):
        settings = {"BLOCK_M": 64, "BLOCK_N": 64, "WARPS": 4, "STAGES": 3, "ADDRESSING": 2}
    elif fit.q.dtype == "float32" or width > 128:
        settings = {"BLOCK_M": 64, "BLOCK_N": 32, "WARPS": 4, "STAGES": 2}
    masked = "causal attention" if fit.causal else "attention"
    return Replacement(
        "attention",
        f"attention({names}, {how})",
        f"Compute {masked} block by block with a running softmax",
        settings,
    )


def _widths(last: tuple[int, ...], context: CardContext, heads: str | None) -> list[int]:
    described = context.descriptions.values()
    counts = [int(d.numbers[heads]) if heads else 1 for d in described]
    return [size // max(1, count) for size, count in zip(last, counts, strict=True)]


CARD = triton_card(
    launch,
    id="triton-attention",
    title="Attention in Triton, scores never in memory",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "launch", "unknown")),
    rationale=(
        "Scores are as many as queries times keys; where a running maximum and sum go along with "
        "both products they never leave the multiprocessor"
    ),
    expected_counter="tensor_pipe",
    expected_change="up to half of the matrix units' rate",
    instruction="HGMMA or HMMA or v_mfma",
    source=(
        "Dao, FlashAttention-2, arXiv:2307.08691, 2023; Milakov & Gimelshein, arXiv:1805.02867, "
        "2018; Triton tutorials, Fused Attention"
    ),
    families=frozenset(("attention",)),
)
