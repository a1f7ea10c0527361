"""Let the compiler keep one accumulator per vector lane."""

from __future__ import annotations

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import TRANSCENDENTAL, CostEstimate, amdahl, lines_of
from roofsmith.proposers.dependence import examine
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import SIMD_FLAGS, is_own_loop, mark_simd
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import calls

REORDERING = frozenset(
    ("-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math")
)
"""Flags with which compilers reorder sums of floating-point numbers unasked."""


def apply(context: CardContext) -> CardChange | None:
    """Put `#pragma omp simd reduction(...)` on innermost loops that gather a value."""
    chosen = _choose(context)
    if not chosen:
        return None
    statement = f"Vectorise the accumulations at {lines_of(chosen)}, one partial result per lane"
    edits = [edit for marks in chosen.values() for edit in marks]
    return context.changed(edits, statement, *SIMD_FLAGS)


def _choose(context: CardContext) -> dict[Loop, list[SourceEdit]]:
    """Loops that gather in unit stride and call nothing that stays scalar, each with its mark.

    Compilers vectorise sums of whole numbers unasked, and any with leave to reorder them.
    """
    chosen: dict[Loop, list[SourceEdit]] = {}
    if REORDERING & set(context.build.flags):
        return chosen
    for function in context.functions:
        accesses = context.accesses(function)
        for loop in function.loops:
            if not loop.innermost or is_own_loop(loop):
                continue
            verdict = examine(accesses, loop)
            gathered = () if verdict is None else verdict.reductions
            if all(function.is_integer(reduction.name) for reduction in gathered):
                continue
            called = {name for name, _ in calls(loop.body)} & TRANSCENDENTAL
            mark = mark_simd(accesses, loop)
            if mark and not called and not _strided(accesses, loop):
                chosen[loop] = mark
    return chosen


def _strided(accesses: FunctionAccesses, loop: Loop) -> bool:
    """Whether vector loads would have to gather: some access steps by more than one element."""
    strides = (
        access.index.stride(loop.node.start_byte)
        for access in accesses.inside(loop)
        if access.index is not None
    )
    return any(stride.terms not in ((), ONE.terms) for stride in strides)


def predict(context: CardContext) -> float:
    """Chains of dependent additions become one addition per vector."""
    estimate = CostEstimate(context)
    chains = estimate.inside(_choose(context)).chains
    return amdahl(context, estimate.share(chains), float(context.lanes))


CARD = Card(
    id="simd-reductions",
    title="One partial result per vector lane",
    category="vectorisation",
    answers=frozenset(("latency", "compute", "unknown")),
    rationale="Floating-point sums may not be reordered unless told so: every step waits for the "
    "one before it.",
    expected_counter="ipc",
    expected_change="up, with fewer instructions",
    source="OpenMP Application Programming Interface 5.0, section 2.9.3 (SIMD); Hennessy & "
    "Patterson, Computer Architecture, 6th ed., section 4.2",
    apply=apply,
    predict=predict,
)
