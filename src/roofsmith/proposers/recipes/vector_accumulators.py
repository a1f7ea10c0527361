"""Several vectors in flight: accumulations and exponentials written in vector types."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.proposers.affine import NotRecognisedError
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CHAIN_CYCLES, CostEstimate, amdahl, lines_of
from roofsmith.proposers.recipes._code import with_helpers
from roofsmith.proposers.recipes._simd import has_directive, is_own_loop, replaced
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import indent_of
from roofsmith.proposers.vectorise import LoopVectoriser

UNROLL = 4
"""Vectors in flight: latency (4 cycles) times throughput (1 to 2 a cycle) asks for 4 to 8, and four
leave registers for the exponential's constants."""


def apply(context: CardContext) -> CardChange | None:
    """Rewrite innermost loops that gather values or compute exponentials."""
    chosen = list(_choose(context))
    if not chosen:
        return None
    text = context.source.text
    edits = [replaced(loop, found.rewrite(indent_of(loop.node, text))) for loop, found in chosen]
    edits = with_helpers(context.source, edits, _helpers(chosen))
    lanes = chosen[0][1].type.lanes
    return context.changed(
        edits, f"Keep {UNROLL} vectors of {lanes} in flight in {lines_of([c[0] for c in chosen])}"
    )


def _choose(context: CardContext) -> Iterator[tuple[Loop, LoopVectoriser]]:
    for function in context.functions:
        accesses = context.accesses(function)
        for loop in function.loops:
            if not loop.innermost or is_own_loop(loop) or has_directive(loop, "parallel"):
                continue
            try:
                vectoriser = LoopVectoriser(accesses, loop, context.lanes, UNROLL)
                vectoriser.rewrite("")
            except NotRecognisedError:
                continue
            if vectoriser.worthwhile:
                yield loop, vectoriser


def _helpers(chosen: list[tuple[Loop, LoopVectoriser]]) -> list[str]:
    types = [vectoriser.type.code for _, vectoriser in chosen]
    exponentials = [found.type.exp_code for _, found in chosen if found.uses_exp]
    return [*types, *exponentials]


def predict(context: CardContext) -> float:
    """Dependent steps that were one vector or one element wide overlap four-fold.

    A loop that is marked `omp simd` already runs all lanes, at a step per CHAIN_CYCLES;
    exponentials gain by overlap as well, by about half.
    """
    estimate = CostEstimate(context)
    chosen = {loop.node.start_byte for loop, _ in _choose(context)}
    found = [w for w in estimate.loops if w.loop.node.start_byte in chosen]
    scalar = sum(w.work.chains for w in found)
    marked = sum(w.work.total for w in found if not w.work.chains)
    saved = scalar * (1 - 1 / (context.lanes * CHAIN_CYCLES)) + marked / 2
    share = estimate.share(saved)
    return amdahl(context, share, 1e9) if share < 1 else float(context.lanes)


CARD = Card(
    id="vector-accumulators",
    title="Four vectors in flight",
    category="scheduling",
    answers=frozenset(("latency", "compute", "unknown")),
    rationale="One accumulator makes every addition wait for the one before it; four independent "
    "ones keep the arithmetic units busy.",
    expected_counter="ipc",
    expected_change="up",
    source="Fog, Optimizing software in C++, section 12.5 and chapter 11 (agner.org/optimize); "
    "Bryant & O'Hallaron, Computer Systems, 3rd ed., section 5.9",
    apply=apply,
    predict=predict,
)
