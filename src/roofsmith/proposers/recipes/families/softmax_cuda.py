"""Replace a softmax of rows by one that reads every row once."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import rows_and_columns, says
from roofsmith.proposers.recipes.families._fit_cuda import TYPES, extents, with_kernel

_NAMED = re.compile(r"softmax", re.IGNORECASE)


def apply(context: CardContext) -> CardChange | None:
    """Where the only arrays are an input and an output of the same shape."""
    fit = rows_and_columns(context)
    if fit is None or fit.vectors or fit.residual or fit.eps:
        return None
    if context.family != "softmax" and not says(context, _NAMED):
        return None
    if context.operator not in (None, "softmax"):
        return None
    sizes = extents(fit.call, {"n": fit.x.rows, "d": fit.x.last})
    if sizes is None:
        return None
    return with_kernel(
        context,
        "softmax_rows",
        f"Compute the softmax of `{fit.x.name}` with every row in the registers of a warp or block",
        input=fit.x.name,
        output=fit.y.name,
        input_type=TYPES[fit.x.dtype],
        output_type=TYPES[fit.y.dtype],
        rows=sizes["n"],
        columns=sizes["d"],
    )


CARD = Card(
    id="softmax-cuda",
    title="Softmax with rows in registers",
    category="fusion",
    answers=frozenset(("memory", "latency", "unknown")),
    rationale=(
        "Maximum, sum and quotient each read the row again; a row that stays in registers, loaded "
        "16 bytes at a time and reduced by shuffles, is read once and written once"
    ),
    expected_counter="dram_bytes_read",
    expected_change="down to one read of the input",
    source="Milakov & Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867",
    apply=apply,
    predict=reaching("softmax-cuda"),
    families=frozenset(("softmax",)),
    languages=frozenset(("cuda",)),
)
