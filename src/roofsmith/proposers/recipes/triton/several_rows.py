"""Programs that stay, and take one row after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.triton._modules import edited, launched_kernels, triton_module
from roofsmith.proposers.triton_module import TritonKernel, TritonModule, axis_of

PROGRAMS = 8
"""For each multiprocessor: of four warps each, half of what one holds at a time."""


def apply(context: CardContext) -> CardChange | None:
    """Call the kernel as a function, from one that loops over its programs' numbers."""
    module = triton_module(context)
    for kernel in launched_kernels(context):
        edits = list(_edits(module, kernel, PROGRAMS * context.device.cores))
        if edits:
            said = f"Let programs of `{kernel.node.name}` take several numbers each"
            return edited(context, edits, said)
    return None


def _edits(module: TritonModule, kernel: TritonKernel, most: int) -> Iterator[SourceEdit]:
    ids, launches = kernel.calls("program_id"), module.launches_alone(kernel)
    given = kernel.node.args
    grid = launches[0].grid if len(launches) == 1 else None
    if len(ids) != 1 or axis_of(ids[0]) != 0 or grid is None or not _is_simple(kernel):
        return
    if (
        not module.helpers_ask_no_number(kernel)
        or kernel.calls("dot")
        or kernel.calls("num_programs")
        or not given.args
    ):
        return
    name, tl = kernel.node.name, kernel.language
    parameters = ", ".join(module.text_of(arg) for arg in given.args)
    looping = (
        f"\n\n\n@{module.text_of(kernel.node.decorator_list[0])}\n"
        f"def roofsmith_{name}({parameters}, rs_all):\n"
        f"    rs_first = {tl}.program_id(0)\n"
        f"    for rs_past in {tl}.range(0, rs_all - rs_first, {tl}.num_programs(0)):\n"
        f"        {name}({', '.join(kernel.parameters)}, rs_first + rs_past)"
    )
    size = module.text_of(grid)
    yield module.after(given.args[-1], ", rs_at")
    yield module.replace(ids[0], "rs_at")
    yield module.after(kernel.node, looping)
    yield module.replace(launches[0].named, f"roofsmith_{name}")
    yield module.replace(grid, f"min({size}, {most})")
    yield module.with_option(launches[0].call, f"rs_all={size}")


def _is_simple(kernel: TritonKernel) -> bool:
    """Whether it can be called: no way out but its end, one decorator, plain parameters."""
    given = kernel.node.args
    leaves = any(isinstance(node, ast.Return) for node in ast.walk(kernel.node))
    plain = not (given.defaults or given.kwonlyargs or given.posonlyargs or given.vararg)
    return not leaves and plain and len(kernel.node.decorator_list) == 1


def predict(context: CardContext) -> float:
    """A twentieth of the time goes to starting programs; more where starting is what is slow."""
    return amdahl(context, 0.05 if context.bottleneck.kind == "memory" else 0.08, 2.0)


CARD = Card(
    id="several-rows-a-program",
    title="Several rows a program",
    category="scheduling",
    answers=frozenset(("memory", "latency", "tail")),
    rationale="A program that does little spends a good part of its life on being started; one "
    "that takes the next row can load it while the last one is stored.",
    expected_counter="grid_size",
    expected_change="down to what runs at a time",
    source="Triton documentation, tutorial Fused Softmax (persistent programs), and "
    "triton.language.range",
    apply=apply,
    predict=predict,
    languages=frozenset(("triton",)),
)
