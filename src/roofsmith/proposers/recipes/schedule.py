"""Write the kernel anew from what the reference computes."""

from __future__ import annotations

from functools import partial

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate
from roofsmith.proposers.cards import Card, CardChange, CardContext, add_flags
from roofsmith.proposers.recipes._gemm import blocking_for, product_code
from roofsmith.proposers.schedules.c_file import MARK, PLAIN, REACHED, CKernel, c_kernel
from roofsmith.proposers.schedules.lowering import NoSchedule

UNKNOWN_GAIN = 8.0
"""Where there is no bound: threads, vectors, and fewer walks through memory. Chosen."""


def written(context: CardContext, *, fused: bool) -> CKernel | None:
    """The kernel of the reference's graph, if that is certain and can be written."""
    if MARK in context.source.text or context.graph is None:
        return None
    try:
        kernel = c_kernel(
            context.graph, context.signature, language=context.candidate.language,
            threads=context.threads, dims=context.extents, fused=fused,
            packing=partial(_packing, context.device),
        )  # fmt: skip
    except NoSchedule:
        return None
    return None if kernel.text.replace(MARK, PLAIN) == context.source.text else kernel


def _packing(device: Device, real: str, batched: bool) -> str:
    return product_code(real, blocking_for(device, real), batched=batched)


def kernel_of(context: CardContext, kernel: CKernel) -> Candidate:
    """The incumbent with that file; nothing of the old one stays that it should look like."""
    build = add_flags(context.build, *kernel.flags)
    return context.candidate.with_kernel_text(kernel.text).with_build(build)


def apply(context: CardContext) -> CardChange | None:
    """One nest of loops for each group of operations that share a walk through memory."""
    kernel = written(context, fused=True)
    if kernel is None:
        return None
    statement = (
        f"Write `{context.signature.entry}` anew from what the reference computes: {kernel.told}"
    )
    return CardChange(kernel_of(context, kernel), statement)


def predict(context: CardContext) -> float:
    """From where the incumbent is on its roofline to where such loops get."""
    fraction, kernel = context.roofline_fraction, written(context, fused=True)
    if kernel is None:
        return 1.0
    if fraction is None:
        return max(1.0, UNKNOWN_GAIN * kernel.reach / REACHED)
    return max(1.0, kernel.reach / fraction)


CARD = Card(
    id="schedule",
    title="Loops written from the computation",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale="What the reference computes is known; loops over it that read each array as rarely "
    "as possible, in vectors and on all threads, needn't be found by changing what is there.",
    expected_counter="instructions",
    expected_change="down by about the number of vector lanes",
    source="Ragan-Kelley et al., Halide, PLDI 2013, doi:10.1145/2491956.2462176",
    apply=apply,
    predict=predict,
)
