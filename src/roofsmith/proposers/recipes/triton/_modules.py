"""The incumbent's Triton module, for cards."""

from __future__ import annotations

from functools import lru_cache

from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.triton_module import TritonKernel, TritonModule, span_of
from roofsmith.proposers.tunables_reach import dead_spans


@lru_cache(maxsize=4)
def _read(text: str) -> TritonModule:
    try:
        return TritonModule(text)
    except (SyntaxError, ValueError):
        return TritonModule("")


def triton_module(context: CardContext) -> TritonModule:
    """The incumbent's kernel file; no kernels in what isn't Python."""
    return _read(context.candidate.kernel.text)


def launched_kernels(context: CardContext) -> list[TritonKernel]:
    """Kernels that some workload launches, as far as the host's code can be followed."""
    module = triton_module(context)
    dead = dead_spans(module.text, tuple(context.descriptions.values()))
    begins = {kernel: span_of(kernel.node, module.starts)[0] for kernel in module.entered}
    return [
        kernel for kernel, at in begins.items()
        if not any(begin <= at < end for begin, end in dead)
    ]  # fmt: skip


def edited(context: CardContext, edits: list[SourceEdit], statement: str) -> CardChange:
    """The incumbent with its kernel file edited."""
    text = apply_edits(context.candidate.kernel.text, edits)
    return CardChange(context.with_text(text), statement)
