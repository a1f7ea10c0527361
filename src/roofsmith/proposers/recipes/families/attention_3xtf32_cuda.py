"""Replace attention by one pass over the keys, in float32's accuracy on tensor cores."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import Attention, attention
from roofsmith.proposers.recipes.families._fit_cuda import extents, with_kernel


def apply(context: CardContext) -> CardChange | None:
    """Q, K, V and their output in float32, in any of the usual layouts."""
    fit = attention(context)
    if fit is None or {o.dtype for o in (fit.q, fit.k, fit.v, fit.o)} != {"float32"}:
        return None
    sizes = _sizes(fit)
    if sizes is None:
        return None
    causal = next((n for n in fit.call.scalars if "causal" in n.lower()), str(fit.causal).lower())
    return with_kernel(
        context,
        "attention_3xtf32",
        f"Compute {fit.o.name} in one pass over {fit.k.name} and {fit.v.name}, without the scores' "
        "matrix, on tensor cores as three TF32 products",
        q=fit.q.name,
        k=fit.k.name,
        v=fit.v.name,
        output=fit.o.name,
        heads_last=str(fit.heads_last).lower(),
        causal=causal,
        scale=fit.scale or "0",
        **sizes,
    )


def _sizes(fit: Attention) -> dict[str, str] | None:
    one = (1,) * len(fit.q.shapes)
    tokens = (1 if fit.heads_last else 2) if fit.q.rank == 4 else fit.q.rank - 2
    heads = fit.q.axis(3 - tokens) if fit.q.rank == 4 else fit.q.axis(0) if tokens else one
    found = extents(
        fit.call,
        {
            "b": fit.q.axis(0) if fit.q.rank == 4 else one,
            "h": heads,
            "m": fit.q.axis(tokens),
            "n": fit.k.axis(tokens),
            "d": fit.q.last,
        },
    )
    if found is None:
        return None
    return {
        "batch": found["b"],
        "heads": fit.heads or found["h"],
        "queries": found["m"],
        "keys": found["n"],
        "width": f"({found['d']}) / {fit.heads}" if fit.heads else found["d"],
    }


CARD = Card(
    id="attention-3xtf32",
    title="Attention in one pass, as TF32 products",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Scores that stay in registers are neither written nor read again, and tensor cores do "
        "both products at a multiple of the float32 units' rate; operands split into a TF32 number "
        "and its rest lose no more than float32 does"
    ),
    expected_counter="tensor_pipe",
    expected_change="up from none",
    instruction="HMMA.TF32",
    source=(
        "Dao et al., FlashAttention, NeurIPS 2022, arXiv:2205.14135; Ootomo & Yokota, Recovering "
        "single precision accuracy from Tensor Cores, IJHPCA 36(4), 2022, arXiv:2203.03341"
    ),
    apply=apply,
    predict=reaching("attention-3xtf32"),
    families=frozenset(("attention",)),
    languages=frozenset(("cuda",)),
)
