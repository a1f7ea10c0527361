"""Products of float32 on tensor cores, in three parts."""

from __future__ import annotations

import ast

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.triton._modules import TritonModule, option_of, triton_module


def apply(context: CardContext) -> CardChange | None:
    """Use TF32 in three products where IEEE arithmetic is asked for.

    One product in TF32 isn't tried: its error is that of a 10-bit mantissa.
    """
    if context.dtype != "float32":
        return None
    module = triton_module(context)
    calls = [call for kernel in module.kernels for call in kernel.calls("dot")]
    edits = [edit for call in calls if (edit := _edit(module, call)) is not None]
    if not edits:
        return None
    return module.edited(context, edits, "Multiply float32 on tensor cores, as three TF32 products")


def _edit(module: TritonModule, call: ast.Call) -> SourceEdit | None:
    precision = option_of(call, "input_precision")
    if isinstance(precision, ast.Constant) and precision.value == "ieee":
        return module.replace(precision, '"tf32x3"')
    return None


def predict(context: CardContext) -> float:
    """Three products at several times the rate of IEEE ones: half of the arithmetic's time."""
    return amdahl(context, 0.6 if context.bottleneck.kind == "compute" else 0.2, 2.0)


CARD = Card(
    id="dot-precision",
    title="Float32 products on tensor cores",
    category="precision",
    answers=frozenset(("compute",)),
    rationale="IEEE products run on the plain arithmetic units; the two parts of a float32 that "
    "TF32 holds give nearly its precision, in three products on tensor cores.",
    expected_counter="tensor_pipe",
    expected_change="up from none",
    source="Triton documentation, triton.language.dot (input_precision); Ootomo & Yokota, "
    "Recovering single precision accuracy from Tensor Cores, 2022, arXiv:2203.03341",
    apply=apply,
    predict=predict,
    languages=frozenset(("triton",)),
)
