"""Run the outermost independent loops on all threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, headroom, lines_of, trip_count
from roofsmith.proposers.dependence import Parallel, examine, is_needed_behind
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import directive, has_directive, is_own_loop, with_directive
from roofsmith.proposers.source import Loop, outermost_loops, read_loop
from roofsmith.proposers.syntax import identifiers, statements, text_of

FORK_JOIN_S = 5e-6
"""What one parallel region costs (Bull, "Measuring synchronisation and scheduling overheads in
OpenMP", EWOMP 1999, gives a few microseconds)."""
CYCLES_PER_S = 3e9
"""Of a processor, about: whether a loop takes microseconds or milliseconds. Chosen."""


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


def apply(context: CardContext) -> CardChange | None:
    """Put `#pragma omp parallel for` on the outermost loops that are independent."""
    if context.threads < 2 or "omp parallel" in context.source.text:
        return None
    chosen = _choose(context)
    if not chosen:
        return None
    found = [choice.loop for choice in chosen]
    names = ", ".join(f"`{loop.variable}`" for loop in found)
    statement = f"Share the loop over {names} ({lines_of(found)}) out to {context.threads} threads"
    edits = [edit for one in chosen for edit in _mark(context, one)]
    return context.changed(edits, statement, "-fopenmp")


def _mark(context: CardContext, choice: Choice) -> list[SourceEdit]:
    """The directive in front of the loop, in the place of an `omp simd` there."""
    before = directive(choice.loop)
    if before is None:
        return with_directive(choice.loop, choice.pragma, context.source.text)
    text = choice.pragma.replace("parallel for", "parallel for simd", 1)
    return [SourceEdit.replace(before, text + "\n" * text_of(before).endswith("\n"))]


def _choose(context: CardContext) -> list[Choice]:
    """Independent loops that are worth it, as far out as possible: in `solve`, else in what it
    calls."""
    estimate = CostEstimate(context)
    for function in context.functions:
        accesses = context.accesses(function)
        found = [
            Choice(*choice, _collapsible(context, accesses, choice[0]))
            for loop in outermost_loops(function.body)
            for choice in _outermost_independent(context, accesses, loop)
            if _pays(context, estimate, choice[0])
        ]
        if found:
            return found
    return []


def _outermost_independent(
    context: CardContext, accesses: FunctionAccesses, loop: Loop
) -> Iterator[tuple[Loop, Parallel]]:
    if not _may_be_shared(loop):
        return
    verdict = examine(accesses, loop)
    inner = outermost_loops(loop.body)
    if verdict is not None and not _counter_is_needed(accesses, loop):
        few = min((trip_count(loop, dims) for dims in context.dims), default=64.0)
        if few >= context.threads or not inner or _collapsible(context, accesses, loop):
            yield loop, verdict
            return
    for nested in inner:
        yield from _outermost_independent(context, accesses, nested)


def _pays(context: CardContext, estimate: CostEstimate, loop: Loop) -> bool:
    """Whether threads save more of a loop's time than starting them takes, as far as is known."""
    cycles, regions = estimate.known_cycles(loop), _regions(context, loop)
    has_unread = not all(found.is_known for found in estimate.loops)  # whose share nobody can tell
    if has_unread and cycles is not None and cycles < regions * FORK_JOIN_S * CYCLES_PER_S:
        return False
    share = estimate.whole_share(loop)
    saved_s = (share or 0.0) * max(_times(context)) * (1 - 1 / context.threads)
    return share is None or saved_s > _regions(context, loop) * FORK_JOIN_S


def _times(context: CardContext) -> list[float]:
    """Measured times; a millisecond where there are none."""
    return list(context.times_s.values()) or [1e-3]


def _may_be_shared(loop: Loop) -> bool:
    """Not a loop that a card wrote for one vector or row, nor one with another directive."""
    before = directive(loop)
    free = before is None or has_directive(loop, "simd")
    return free and not is_own_loop(loop)


def _collapsible(context: CardContext, accesses: FunctionAccesses, loop: Loop) -> bool:
    """Few iterations outside, and nothing but one independent, rectangular loop inside."""
    few = min((trip_count(loop, dims) for dims in context.dims), default=64.0)
    if few >= 4 * context.threads:
        return False
    inside = statements(loop.body)
    if len(inside) != 1 or inside[0].type != "for_statement":
        return False
    inner = read_loop(inside[0])
    if not inner.canonical or inner.lower is None or inner.upper is None:
        return False
    if loop.variable in identifiers(inner.lower) | identifiers(inner.upper):
        return False
    verdict = examine(accesses, inner)
    is_apart = verdict is not None and not verdict.reductions
    return is_apart and not _counter_is_needed(accesses, inner)


def _counter_is_needed(accesses: FunctionAccesses, loop: Loop) -> bool:
    """Whether its counter, which is every thread's own, is read behind the loop."""
    is_outer = loop.declared_type is None and loop.variable is not None
    return is_outer and is_needed_behind(accesses.function, loop.node, str(loop.variable))


def predict(context: CardContext) -> float:
    """T threads, less a fork and join for every region, within what the roofline leaves.

    The roofline's ceilings are those of all threads, so headroom caps a kernel that one thread
    keeps near the memory's limit.
    """
    time_s, chosen = min(_times(context)), [choice.loop for choice in _choose(context)]
    estimate = CostEstimate(context)
    shares = [estimate.whole_share(loop) for loop in chosen]
    shared = 1.0 if None in shares else min(1.0, sum(share or 0.0 for share in shares))
    regions = sum(_regions(context, loop) for loop in chosen)
    alone_s = time_s * (1 - shared + shared / context.threads)
    factor = time_s / (alone_s + regions * FORK_JOIN_S)
    limit = headroom(context)
    return max(1.0, factor if limit is None else min(factor, limit))


def _regions(context: CardContext, loop: Loop) -> float:
    """How often the loop is entered: the product of the trip counts around it."""
    count = 1.0
    parent = loop.node.parent
    while parent is not None:
        if parent.type == "for_statement":
            count *= trip_count(read_loop(parent), context.dims[0] if context.dims else {})
        parent = parent.parent
    return count


CARD = Card(
    id="parallel-loops",
    title="Share independent iterations out to all threads",
    category="parallelism",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale="One core reaches neither the machine's arithmetic peak nor its bandwidth.",
    expected_counter="processors_used",
    expected_change="up to the number of threads",
    source="OpenMP Application Programming Interface 5.0, section 2.9.2 (Worksharing-Loop)",
    apply=apply,
    predict=predict,
    expects=lambda context, _: (
        context.threads / max(1.0, context.profile.get("processors_used") or 1.0)
    ),
)
