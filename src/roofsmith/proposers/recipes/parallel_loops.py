"""Run the outermost independent loops on all threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.cards import C_AND_CPP, Card, CardContext, Change, NotApplicable
from roofsmith.proposers.costs import headroom, lines_of, trip_count
from roofsmith.proposers.dependence import Parallel, examine
from roofsmith.proposers.source import (
    Edit,
    Loop,
    identifiers,
    indent_of,
    outermost_loops,
    read_loop,
)

FORK_JOIN_S = 5e-6
"""What one parallel region costs (Bull, "Measuring synchronisation and scheduling overheads in
OpenMP", EWOMP 1999, gives a few microseconds)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A loop to be shared out."""

    loop: Loop
    verdict: Parallel
    collapse: bool

    @property
    def pragma(self) -> str:
        """The OpenMP directive."""
        collapse = " collapse(2)" if self.collapse else ""
        return f"#pragma omp parallel for{collapse} schedule(static){self.verdict.clauses}"


def apply(context: CardContext) -> Change | NotApplicable:
    """Put `#pragma omp parallel for` on the outermost loops that are independent."""
    if context.threads < 2:
        return NotApplicable("one thread is all there is")
    if "omp parallel" in context.source.text:
        return NotApplicable("the kernel runs on several threads already")
    chosen, reasons = _choose(context)
    if not chosen:
        return NotApplicable(reasons[0] if reasons else "there is no loop to share out")
    edits = [
        Edit.before(choice.loop.node, f"{choice.pragma}\n{_indent(context, choice.loop)}")
        for choice in chosen
    ]
    text = context.source.edited(edits).text
    found = [choice.loop for choice in chosen]
    names = ", ".join(f"`{loop.variable}`" for loop in found)
    return Change(
        context.with_text(text, "-fopenmp"),
        f"Share the loop over {names} ({lines_of(found)}) out to {context.threads} threads",
    )


def _indent(context: CardContext, loop: Loop) -> str:
    return indent_of(loop.node, context.source.text)


def _choose(context: CardContext) -> tuple[list[Choice], list[str]]:
    """Independent loops, as far out as possible: in `solve`, else in what it calls."""
    reasons: list[str] = []
    for function in context.functions:
        accesses = FunctionAccesses(context.source, function)
        found = [
            Choice(*choice, _collapsible(context, accesses, choice[0]))
            for loop in outermost_loops(function.body)
            for choice in _outermost_independent(context, accesses, loop, reasons)
        ]
        if found:
            return found, reasons
    return [], reasons


def _outermost_independent(
    context: CardContext, accesses: FunctionAccesses, loop: Loop, reasons: list[str]
) -> Iterator[tuple[Loop, Parallel]]:
    verdict = examine(accesses, loop)
    inner = outermost_loops(loop.body)
    if isinstance(verdict, Parallel):
        few = min((trip_count(loop, dims) for dims in context.dims), default=64.0)
        if few >= context.threads or not inner or _collapsible(context, accesses, loop):
            yield loop, verdict
            return
        reasons.append(f"the loop over `{loop.variable}` has too few iterations to share out")
    else:
        reasons.append(verdict.reason)
    for nested in inner:
        yield from _outermost_independent(context, accesses, nested, reasons)


def _collapsible(context: CardContext, accesses: FunctionAccesses, loop: Loop) -> bool:
    """Few iterations outside, and nothing but one independent, rectangular loop inside."""
    few = min((trip_count(loop, dims) for dims in context.dims), default=64.0)
    if few >= 4 * context.threads:
        return False
    statements = [child for child in loop.body.named_children if child.type != "comment"]
    if loop.body.type == "for_statement":
        statements = [loop.body]
    if len(statements) != 1 or statements[0].type != "for_statement":
        return False
    inner = read_loop(statements[0])
    if not inner.canonical or inner.lower is None or inner.upper is None:
        return False
    if loop.variable in identifiers(inner.lower) | identifiers(inner.upper):
        return False
    verdict = examine(accesses, inner)
    return isinstance(verdict, Parallel) and not verdict.reductions


def predict(context: CardContext) -> float:
    """T threads, less a fork and join, within what the roofline leaves.

    The roofline's ceilings are those of all threads, so headroom caps a kernel that one thread
    keeps near the memory's limit.
    """
    factor = float(context.threads)
    times = list(context.times_s.values())
    if times:
        shortest = min(times)
        factor = shortest / (shortest / context.threads + FORK_JOIN_S)
    limit = headroom(context)
    return factor if limit is None else max(1.0, min(factor, limit))


CARD = Card(
    id="parallel-loops",
    title="Share independent iterations out to all threads",
    families=frozenset(),
    languages=C_AND_CPP,
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale="One core reaches neither the machine's arithmetic peak nor its bandwidth.",
    expected_counter="task_clock_cores",
    expected_change="up to the number of threads",
    source="OpenMP Application Programming Interface 5.0, section 2.9.2 (Worksharing-Loop)",
    apply=apply,
    predict=predict,
)
