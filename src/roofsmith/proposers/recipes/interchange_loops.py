"""Swap two loops so that the inner one walks memory in unit steps."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import STRIDED_CYCLES, CostEstimate, amdahl, lines_of
from roofsmith.proposers.dependence import Parallel, examine
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._nests import Nest, read_nest, walks_columns
from roofsmith.proposers.recipes._simd import directive


def apply(context: CardContext) -> CardChange | None:
    """Swap the headers of perfect nests that walk columns."""
    found = list(_nests(context))
    if not found:
        return None
    edits = []
    for nest in found:
        outer, inner = _header(nest, outer=True), _header(nest, outer=False)
        edits.append(SourceEdit(nest.outer.node.start_byte, outer[1], inner[0]))
        edits.append(SourceEdit(nest.inner.node.start_byte, inner[1], outer[0]))
    where = lines_of([nest.outer for nest in found])
    return context.changed(edits, f"Swap the loops at {where}: rows, not columns")


def _header(nest: Nest, *, outer: bool) -> tuple[str, int]:
    """Text of `for (...)`, and the byte where it ends."""
    loop = nest.outer if outer else nest.inner
    start, end = loop.node.start_byte, loop.body.start_byte
    text = (loop.node.text or b"")[: end - start].decode()
    bare = text.rstrip()
    return bare, start + len(bare.encode())


def _nests(context: CardContext) -> Iterator[Nest]:
    for function in context.functions:
        accesses = context.accesses(function)
        for loop in function.loops:
            nest = read_nest(loop)
            if nest is None or nest.before or nest.after or not walks_columns(accesses, nest):
                continue
            marked = directive(nest.outer) is not None or directive(nest.inner) is not None
            if not marked and _may_swap(accesses, nest):
                yield nest


def _may_swap(accesses: FunctionAccesses, nest: Nest) -> bool:
    """The inner iterations are independent, and outer ones are too or meet the same elements in
    the same order."""
    inner = examine(accesses, nest.inner)
    if not isinstance(inner, Parallel) or inner.reductions or inner.private:
        return False
    outer = examine(accesses, nest.outer)
    if isinstance(outer, Parallel):
        return not outer.reductions
    id = nest.outer.node.start_byte
    writes = [access for access in accesses.inside(nest.inner) if access.writes]
    return all(w.index is not None and not w.index.stride(id).terms for w in writes)


def predict(context: CardContext) -> float:
    """A cache line per element becomes a cache line per vector or two."""
    estimate = CostEstimate(context)
    saved = estimate.inside(nest.inner for nest in _nests(context)).strided
    return amdahl(context, estimate.share(saved), STRIDED_CYCLES)


CARD = Card(
    id="interchange-loops",
    title="Rows, not columns",
    category="memory_access",
    answers=frozenset(("memory", "latency", "compute", "unknown")),
    rationale="A walk down a column brings a new cache line for every element.",
    expected_counter="cache_references",
    expected_change="down by the elements in a cache line",
    source="Wolf & Lam, A data locality optimizing algorithm, PLDI 1991; Hennessy & Patterson, "
    "Computer Architecture, 6th ed., section 2.3",
    apply=apply,
    predict=predict,
)
