"""Products of float32 on tensor cores, where the target allows TF32."""

from __future__ import annotations

import ast

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.triton._modules import edited, launched_kernels, triton_module
from roofsmith.proposers.triton_module import TritonModule, option_of


def apply(context: CardContext) -> CardChange | None:
    """Multiply in TF32 what is asked for in more, where the reference may do so as well.

    Not in three TF32 products for one of IEEE's: in a kernel whose tiles were chosen for plain
    arithmetic these took longer on an H100 (0.68 to 0.84 of the speed).
    """
    if context.dtype != "float32" or not context.tf32:
        return None
    module = triton_module(context)
    calls = [call for kernel in launched_kernels(context) for call in kernel.calls("dot")]
    edits = [edit for call in calls if (edit := _edit(module, call)) is not None]
    if not edits:
        return None
    return edited(context, edits, "Multiply float32 on tensor cores, in TF32")


def _edit(module: TritonModule, call: ast.Call) -> SourceEdit | None:
    precision = option_of(call, "input_precision")
    if isinstance(precision, ast.Constant) and precision.value in ("ieee", "tf32x3"):
        return module.replace(precision, '"tf32"')
    allowed = option_of(call, "allow_tf32")
    if isinstance(allowed, ast.Constant) and allowed.value is False:
        return module.replace(allowed, "True")
    return None


def predict(context: CardContext) -> float:
    """One product at several times the rate of IEEE ones: half of the arithmetic's time."""
    return amdahl(context, 0.6 if context.bottleneck.kind == "compute" else 0.2, 2.0)


CARD = Card(
    id="dot-precision",
    title="Float32 products in TF32",
    category="precision",
    answers=frozenset(("compute",)),
    rationale="IEEE products run on the plain arithmetic units; tensor cores take float32 with a "
    "mantissa of 10 bits, at several times the rate.",
    expected_counter="tensor_pipe",
    expected_change="up from none",
    instruction="HGMMA or HMMA or v_mfma",
    source="Triton documentation, triton.language.dot (input_precision); NVIDIA A100 Tensor Core "
    "GPU Architecture, 2020, TF32",
    apply=apply,
    predict=predict,
    languages=frozenset(("triton",)),
)
