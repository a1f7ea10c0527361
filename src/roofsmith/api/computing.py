"""What a target's reference computes, as a campaign keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from roofsmith.computation.counts import counted
from roofsmith.computation.kinds import kind
from roofsmith.computation.read import computation_of
from roofsmith.computation.sizes import Size
from roofsmith.computation.text import lines
from roofsmith.domain.computed import Computed
from roofsmith.domain.kernel import Signature
from roofsmith.domain.target import Target

MOST_LINES = 60
"""Of operations that are kept: more than a page of a brief has room for. Chosen."""


@contextmanager
def reading(
    target: Target, signature: Signature, known: Computed | None, *, reads: bool
) -> Iterator[Callable[[Target, Signature], Computed | None]]:
    """Read beside the block; what waits for the answer is yielded, which says what is known unless
    `reads`. Of another target than was begun with it is read anew."""
    if not reads:
        yield lambda _target, _signature: known
        return
    beside = ThreadPoolExecutor(1)
    begun = beside.submit(computed, target, signature)

    def found(other: Target, others: Signature) -> Computed | None:
        is_same = (other, others) == (target, signature)
        return begun.result() if is_same else computed(other, others)

    try:
        yield found
    finally:
        beside.shutdown(wait=False, cancel_futures=True)  # an error is told at once


def computed(target: Target, signature: Signature) -> Computed | None:
    """Read in a process of its own; None where there is no reference."""
    if target.reference is None or target.command is not None:
        return None
    computation = computation_of(target, signature)
    graph = computation.graph
    if graph is None:
        return Computed(doubts=(computation.refusal,))
    said, work = lines(graph), counted(graph)

    def at_workloads(size: Size) -> dict[str, float]:
        values = {one.label: {**computation.numbers, **one.dims} for one in target.workloads}
        return {} if graph.notes else {name: float(size.at(at)) for name, at in values.items()}

    cut = [f"... and {len(said) - MOST_LINES} more"] if len(said) > MOST_LINES else []
    return Computed(
        operator=kind(graph),
        operations=(*said[:MOST_LINES], *cut),
        doubts=graph.notes,
        flops=at_workloads(work.flops),
        swept_bytes=at_workloads(work.swept_bytes) if work.swept_bytes.terms else {},
    )
