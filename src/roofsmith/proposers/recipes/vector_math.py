"""Replace scalar calls into the math library by inline code that vectorises."""

from __future__ import annotations

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CALL_CYCLES, CostEstimate, amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._code import rendered, with_helpers
from roofsmith.proposers.recipes._simd import SIMD_FLAGS, mark_simd
from roofsmith.proposers.source import CFunction, Loop
from roofsmith.proposers.syntax import calls

HELPERS: dict[str, tuple[str, ...]] = {
    "expf": ("expf",),
    "exp": ("exp",),
    "tanhf": ("expf", "tanhf"),
    "logf": ("logf",),
}
"""Library function to the templates that define `roofsmith_<name>`, in order."""
VECTOR_CYCLES = 20.0
"""One vector through the polynomial: about 20 instructions, two to a cycle, and some latency."""


def apply(context: CardContext) -> CardChange | None:
    """Put inline polynomials in the place of library calls, and mark the loops around them."""
    found = _calls(context)
    if not found:
        return None
    edits = []
    for name, call in found:
        function = call.child_by_field_name("function")
        assert function is not None
        edits.append(SourceEdit.replace(function, f"roofsmith_{name}"))
    marked = _marked(context)
    names = ", ".join(f"`{name}`" for name in sorted({name for name, _ in found}))
    over = f", and vectorise {_count(len(marked))} over it" if marked else ""
    statement = f"Compute {names} by an inline polynomial{over}"
    edits += [edit for marks in marked for edit in marks]
    edits = with_helpers(context.source, edits, _helpers(found))
    return context.changed(edits, statement, *SIMD_FLAGS)


def _count(loops_marked: int) -> str:
    return "the loop" if loops_marked == 1 else f"{loops_marked} loops"


def _calls(context: CardContext) -> list[tuple[str, Node]]:
    """Calls of functions that have a replacement, each with the name of the replacement."""
    found = []
    for function in context.functions:
        for name, call in calls(function.body):
            float_overload = context.candidate.language == "cpp" and context.dtype == "float32"
            name = f"{name}f" if float_overload and f"{name}f" in HELPERS else name
            if name in HELPERS and context.source.function(name) is None:
                found.append((name, call))
    return found


def _helpers(found: list[tuple[str, Node]]) -> list[str]:
    """Code of the replacements, in order, each once."""
    needed = dict.fromkeys(part for name, _ in found for part in HELPERS[name])
    return [rendered(name, vector=False) for name in needed]


def _marked(context: CardContext) -> list[list[SourceEdit]]:
    """`omp simd` on each of the innermost loops that reach one of the calls."""
    marks = (
        mark_simd(context.accesses(function), loop)
        for function in context.functions
        for loop in function.loops
        if loop.innermost and _reaches_call(context, loop)
    )
    return [mark for mark in marks if mark]


def _reaches_call(context: CardContext, loop: Loop) -> bool:
    waiting, seen = [name for name, _ in calls(loop.body)], set[str]()
    while waiting:
        name = waiting.pop()
        if name in HELPERS or f"{name}f" in HELPERS:
            return True
        inner: CFunction | None = context.source.function(name)
        if inner is not None and name not in seen:
            seen.add(name)
            waiting += [called for called, _ in calls(inner.body)]
    return False


def predict(context: CardContext) -> float:
    """The share of time in calls, at 20 cycles each, becomes 20 cycles a vector."""
    estimate = CostEstimate(context)
    share = estimate.share(estimate.total.calls)
    return amdahl(context, share, context.lanes * CALL_CYCLES / VECTOR_CYCLES)


CARD = Card(
    id="vector-math",
    title="Inline polynomials instead of calls into the math library",
    category="vectorisation",
    answers=frozenset(("compute", "latency", "unknown")),
    rationale="A call per element keeps a loop scalar; a polynomial runs in every vector lane.",
    expected_counter="instructions",
    expected_change="down by about the number of vector lanes in the loops with calls",
    source="Moshier, Cephes Mathematical Library, netlib.org/cephes; Cody & Waite, Software "
    "Manual for the Elementary Functions, Prentice-Hall 1980",
    apply=apply,
    predict=predict,
)
