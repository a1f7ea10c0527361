"""Run the outermost independent loops on all threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, headroom, lines_of, trip_count
from roofsmith.proposers.dependence import Parallel, examine, is_needed_behind
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import directive, has_directive, is_own_loop, with_directive
from roofsmith.proposers.scratch import Scratch, scratch_of
from roofsmith.proposers.source import Loop, outermost_loops, read_loop
from roofsmith.proposers.syntax import identifiers, indent_of, statements, text_of

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
    heap: tuple[Scratch, ...] = ()
    """Buffers that every thread allocates, and frees, for itself."""

    @property
    def pragma(self) -> str:
        """The OpenMP directive."""
        collapse = " collapse(2)" if self.collapse else ""
        region = "" if self.heap else "parallel "
        return f"#pragma omp {region}for{collapse} schedule(static){self.verdict.clauses}"


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
    if choice.heap:
        return _with_own_buffers(context, choice)
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
            choice
            for loop in outermost_loops(function.body)
            for choice in _outermost_independent(context, accesses, loop)
            if _pays(context, estimate, choice.loop)
        ]
        if found:
            return found
    return []


def _outermost_independent(
    context: CardContext, accesses: FunctionAccesses, loop: Loop
) -> Iterator[Choice]:
    if not _may_be_shared(loop):
        return
    scratch = scratch_of(accesses, loop) if directive(loop) is None else ()
    verdict = examine(accesses, loop, frozenset(one.name for one in scratch))
    inner = outermost_loops(loop.body)
    if verdict is not None and not _counter_is_needed(accesses, loop):
        few = min((trip_count(loop, dims) for dims in context.dims), default=64.0)
        collapse = not scratch and _collapsible(context, accesses, loop)
        if few >= context.threads or not inner or collapse:
            yield _choice(loop, verdict, collapse, scratch)
            return
    for nested in inner:
        yield from _outermost_independent(context, accesses, nested)


def _choice(loop: Loop, verdict: Parallel, collapse: bool, scratch: tuple[Scratch, ...]) -> Choice:
    """With arrays on the stack among what is private."""
    heap = tuple(one for one in scratch if one.release is not None)
    stack = tuple(one.name for one in scratch if one.release is None)
    private = replace(verdict, private=(*verdict.private, *stack))
    return Choice(loop, private, collapse, heap)


def _with_own_buffers(context: CardContext, choice: Choice) -> list[SourceEdit]:
    """A region in the place of the loop, in which each thread has buffers of its own."""
    text, node = context.source.text, choice.loop.node
    margin = indent_of(node, text)
    first = next(iter(statements(choice.loop.body)), node)
    inner = indent_of(first, text).removeprefix(margin) or "    "
    inside = [
        *(text_of(one.declaration) + _remark(one.declaration) for one in choice.heap),
        choice.pragma,
        text_of(node),
        *(text_of(one.release) for one in choice.heap if one.release is not None),
    ]
    body = "\n".join(f"{margin}{inner}{_deeper(one, inner)}" for one in inside)
    region = f"#pragma omp parallel\n{margin}{{\n{body}\n{margin}}}"
    gone = [n for one in choice.heap for n in (one.declaration, one.release) if n is not None]
    return [*(_without_line(n, text) for n in gone), SourceEdit.replace(node, region)]


def _deeper(code: str, by: str) -> str:
    """Code whose lines behind the first one stand further to the right."""
    first, *others = code.splitlines()
    return "\n".join([first, *(by + line if line.strip() else line for line in others)])


def _remark(node: Node) -> str:
    """The comment behind a statement, on its line."""
    behind = node.next_sibling
    is_its = behind is not None and behind.type == "comment"
    if behind is None or not is_its or behind.start_point[0] != node.end_point[0]:
        return ""
    return f"  {text_of(behind)}"


def _without_line(node: Node, text: str) -> SourceEdit:
    """An edit that takes a statement out, with its line where only its comment is there, too."""
    data, last = text.encode(), node.end_byte
    if _remark(node) and node.next_sibling is not None:
        last = node.next_sibling.end_byte
    start = data.rfind(b"\n", 0, node.start_byte) + 1
    end = data.find(b"\n", last) + 1
    alone = not data[start : node.start_byte].strip() and not data[last:end].strip()
    return SourceEdit(start, end, "") if alone and end else SourceEdit(node.start_byte, last, "")


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
