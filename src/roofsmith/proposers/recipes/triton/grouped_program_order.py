"""Let tiles that share rows and columns of the inputs be worked on at the same time."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.triton._modules import edited, launched_kernels, triton_module
from roofsmith.proposers.triton_module import TritonKernel, TritonModule, axis_of

GROUP = 8
"""Tiles, as in Triton's tutorial on matrix multiplication."""


def apply(context: CardContext) -> CardChange | None:
    """Number the programs of a two-dimensional grid in groups of eight rows."""
    module = triton_module(context)
    for kernel in launched_kernels(context):
        edits = _edits(module, kernel)
        if edits:
            said = f"Order the programs of `{kernel.node.name}` in groups of {GROUP} rows of tiles"
            return edited(context, edits, said)
    return None


def _edits(module: TritonModule, kernel: TritonKernel) -> list[SourceEdit]:
    ids = {axis: [c for c in kernel.calls("program_id") if axis_of(c) == axis] for axis in (0, 1)}
    plain = (
        module.helpers_ask_no_number(kernel)
        and not kernel.calls("swizzle2d")
        and not kernel.calls("num_programs")
    )
    if not kernel.calls("dot") or not plain or not all(ids.values()):
        return []
    tl = kernel.language
    line = (
        f"rs_1, rs_0 = {tl}.swizzle2d({tl}.program_id(1), {tl}.program_id(0), "
        f"{tl}.num_programs(1), {tl}.num_programs(0), {GROUP})"
    )
    first = module.before_body(kernel, line)
    if first is None:
        return []
    return [
        first,
        *(module.replace(call, f"rs_{axis}") for axis, found in ids.items() for call in found),
    ]


def predict(context: CardContext) -> float:
    """Where memory is the bottleneck, a fifth of the traffic halves; elsewhere less."""
    return amdahl(context, 0.2 if context.bottleneck.kind == "memory" else 0.08, 2.0)


CARD = Card(
    id="grouped-program-order",
    title="Tiles in groups",
    category="scheduling",
    answers=frozenset(("memory", "latency")),
    rationale="Programs that run at the same time are neighbours in one row of tiles and share one "
    "operand only; a square group shares both, and fits in the L2 cache.",
    expected_counter="l2_hit_rate",
    expected_change="up where a row of tiles doesn't fit in the L2 cache",
    source="Triton documentation, tutorial Matrix Multiplication (L2 cache optimizations), and "
    "triton.language.swizzle2d",
    apply=apply,
    predict=predict,
    languages=frozenset(("triton",)),
)
