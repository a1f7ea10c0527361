"""RMS and layer norm of rows, in Triton, with a residual that is added first."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import RowOperator, rows_and_columns, says
from roofsmith.proposers.recipes.families._modules import SMALL_NUMBER, Replacement, triton_card

_NAMED = re.compile(r"norm", re.IGNORECASE)
_RMS = re.compile(r"rms", re.IGNORECASE)
_CENTRED = re.compile(r"layer|\bvar(iance)?\b|\.var\(|- *mean|- *mu\b", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """One or two inputs as large as the output, and up to two vectors."""
    fit = rows_and_columns(context)
    named = context.family is not None or says(context, _NAMED)
    if fit is None or not named or min(fit.x.last) < 1:
        return None
    centred = _is_centred(context, fit)
    weight, bias = (*(vector.name for vector in fit.vectors), "None", "None")[:2]
    if "bias" in weight.lower() and bias != "None":
        weight, bias = bias, weight
    residual = fit.residual.name if fit.residual else "None"
    summed = fit.summed.name if fit.summed else "None"
    operands = f"{fit.x.name}, {fit.y.name}, {weight}, {bias}, {residual}, {summed}"
    kind = "layer norm" if centred else "RMS norm"
    added = " and the sum before it" if fit.residual else ""
    return Replacement(
        "norm",
        f"norm({operands}, {fit.eps or _epsilon(context, centred)}, {centred})",
        f"Compute the {kind}{added} of whole rows in registers",
    )


def _is_centred(context: CardContext, fit: RowOperator) -> bool:
    if context.family in ("rmsnorm", "layernorm"):
        return context.family == "layernorm"
    if says(context, _RMS):
        return False
    return len(fit.vectors) == 2 or says(context, _CENTRED)


def _epsilon(context: CardContext, centred: bool) -> str:
    """The one that the kernel's file has, else PyTorch's for layer norm and Llama's for RMS."""
    found = SMALL_NUMBER.search(context.candidate.kernel.text)
    return found.group() if found else "1e-5" if centred else "1e-6"


CARD = triton_card(
    launch,
    id="triton-norm",
    title="RMS or layer norm in Triton, whole rows in registers",
    category="fusion",
    answers=frozenset(("memory", "latency", "launch", "unknown")),
    rationale=(
        "Every element is read once and written once where a row stays in registers between its "
        "statistics and its result, and what is added to it first needs no pass of its own"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source=(
        "Triton tutorials, Layer Normalization; Zhang & Sennrich, Root Mean Square Layer "
        "Normalization, arXiv:1910.07467, 2019"
    ),
    families=frozenset(("norm", "rmsnorm", "layernorm")),
)
