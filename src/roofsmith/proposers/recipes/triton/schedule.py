"""Write the module's kernels anew from what the reference computes."""

from __future__ import annotations

import ast

from roofsmith.domain.kernel import TRITON_LANGUAGES
from roofsmith.domain.yardstick import ENTRY
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import promised_gain
from roofsmith.proposers.recipes.families._modules import has_descriptors, with_kernels
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.triton.module import MARK, TritonText, triton_kernel
from roofsmith.proposers.schedules.wanted import Wanted

_SHARED_BYTES = 99 * 1024
"""Of a block, where the device doesn't say: the least of today's."""


def written(context: CardContext) -> TritonText | None:
    """The kernels of the reference's graph, if that is certain and can be written."""
    text = context.candidate.kernel.text
    if MARK in text or context.device.kind == "cpu" or context.graph is None:
        return None
    given = _parameters(text)
    if given is None:
        return None
    wanted = Wanted(
        dims=context.extents,
        cores=context.device.cores,
        tf32=context.tf32,
        shared_bytes=int(context.device.limits.get("max_shared_bytes_per_block", _SHARED_BYTES)),
        boxes=has_descriptors(context.device),
    )
    try:
        return triton_kernel(context.graph, given, wanted)
    except NoSchedule:
        return None


def _parameters(text: str) -> tuple[str, ...] | None:
    """Names that the entry is given."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    entry = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY), None)
    if entry is None:
        return None
    args = entry.args
    return tuple(one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs))


def apply(context: CardContext) -> CardChange | None:
    """A kernel for each group of operations that share a walk through memory."""
    kernel = written(context)
    if kernel is None:
        return None
    text = with_kernels(context.candidate.kernel.text, kernel.text, kernel.call)
    if text is None:
        return None
    statement = f"Write the kernels anew from what the reference computes: {kernel.told}"
    return CardChange(context.candidate.with_kernel_text(text), statement)


def predict(context: CardContext) -> float:
    """From where the incumbent is on its roofline to where such kernels get."""
    kernel = written(context)
    if kernel is None:
        return 1.0
    return promised_gain(context, f"triton-schedule{' products' if kernel.has_products else ''}")


CARD = Card(
    id="triton-schedule",
    title="Triton kernels written from the computation",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "launch", "unknown")),
    rationale="What the reference computes is known: kernels that read each array as rarely as "
    "possible and keep what lies between in registers needn't be found by changing what is there",
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source="Tillet et al., Triton, MAPL 2019, doi:10.1145/3315508.3329973",
    languages=frozenset(TRITON_LANGUAGES),
    apply=apply,
    predict=predict,
)
