"""Let the compiler keep one accumulator per vector lane."""

from __future__ import annotations

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE, line_of
from roofsmith.proposers.cards import Card, CardContext, Change, NotApplicable
from roofsmith.proposers.costs import TRANSCENDENTAL, Estimate, amdahl, lines_of
from roofsmith.proposers.dependence import Parallel, examine
from roofsmith.proposers.edits import Edit
from roofsmith.proposers.recipes._simd import SIMD_FLAGS, is_own_loop, mark_simd
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import calls


def apply(context: CardContext) -> Change | NotApplicable:
    """Put `#pragma omp simd reduction(...)` on innermost loops that gather a value."""
    edits, chosen, reason = _choose(context)
    if not chosen:
        return NotApplicable(reason or "no innermost loop gathers a sum or a maximum")
    text = context.source.edited(edits).text
    return Change(
        context.with_text(text, *SIMD_FLAGS),
        f"Vectorise the accumulations at {lines_of(chosen)}, one partial result per lane",
    )


def _choose(context: CardContext) -> tuple[list[Edit], list[Loop], str]:
    edits, chosen, reason = [], [], ""
    for function in context.functions:
        accesses = context.accesses(function)
        for loop in function.loops:
            if not loop.innermost or is_own_loop(loop):
                continue
            verdict = examine(accesses, loop)
            if not isinstance(verdict, Parallel) or not verdict.reductions:
                continue
            called = {name for name, _ in calls(loop.body)} & TRANSCENDENTAL
            if called:
                reason = f"the accumulating loops call `{min(called)}`, which stays scalar"
                continue
            if _strided(accesses, loop):
                reason = f"the loop at line {line_of(loop.node)} walks its array in long strides"
                continue
            mark = mark_simd(accesses, loop)
            if isinstance(mark, Edit):
                edits.append(mark)
                chosen.append(loop)
            else:
                reason = mark.reason
    return edits, chosen, reason


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
    estimate = Estimate(context)
    chains = estimate.inside(_choose(context)[1]).chains
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
