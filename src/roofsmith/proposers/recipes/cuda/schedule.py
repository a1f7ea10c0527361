"""Write the CUDA kernels anew from what the reference computes."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import promised_gain
from roofsmith.proposers.schedules.cuda.module import MARK, CudaText, cuda_kernel
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.wanted import Wanted

_SHARED_BYTES = 48 * 1024
"""Of a block, where the device doesn't say: what none has to be asked for."""


def written(context: CardContext) -> CudaText | None:
    """The kernels of the reference's graph, if that is certain and can be written."""
    if MARK in context.candidate.kernel.text or context.graph is None:
        return None
    if context.device.kind == "cpu":
        return None
    wanted = Wanted(
        dims=context.extents,
        cores=context.device.cores,
        arch=context.device.arch,
        tf32=context.tf32,
        shared_bytes=int(context.device.limits.get("max_shared_bytes_per_block", _SHARED_BYTES)),
    )
    try:
        return cuda_kernel(context.graph, context.signature, wanted)
    except NoSchedule:
        return None


def apply(context: CardContext) -> CardChange | None:
    """A kernel for each group of operations that share a walk through memory."""
    kernel = written(context)
    if kernel is None:
        return None
    entry = context.signature.entry
    statement = f"Write `{entry}` anew from what the reference computes: {kernel.told}"
    return CardChange(context.candidate.with_kernel_text(kernel.text), statement)


def predict(context: CardContext) -> float:
    """From where the incumbent is on its roofline to where such kernels get."""
    kernel = written(context)
    if kernel is None:
        return 1.0
    return promised_gain(context, f"cuda-schedule{' products' if kernel.has_products else ''}")


CARD = Card(
    id="cuda-schedule",
    title="CUDA kernels written from the computation",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "launch", "unknown")),
    rationale="What the reference computes is known: kernels that read each array as rarely as "
    "possible, 16 bytes at a time, and keep what lies between in registers needn't be found by "
    "changing what is there",
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source="Ragan-Kelley et al., Halide, PLDI 2013, doi:10.1145/2491956.2462176",
    languages=frozenset(("cuda",)),
    apply=apply,
    predict=predict,
)
