"""Of a sort of which the first few are used, no more than these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import headroom
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import CFunction, Loop, read_loop
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    called_name,
    identifiers,
    statements,
    text_of,
    walk,
    within,
)

_HELPER = """\
/* The first k of n elements in the order of qsort; the others stay behind them, in any order. */
static void roofsmith_first(void *base, size_t n, size_t size, size_t k,
                            int (*order)(const void *, const void *))
{
    char *const all = (char *)base, held[256];
    if (k >= n || k == 0 || size > sizeof held) {
        qsort(base, n, size, order);
        return;
    }
    qsort(base, k, size, order);
    for (size_t i = k; i < n; i++) {
        size_t at = k - 1;
        if (order(all + i * size, all + at * size) >= 0) continue;
        memcpy(held, all + i * size, size);
        memcpy(all + i * size, all + at * size, size);
        while (at > 0 && order(held, all + (at - 1) * size) < 0) {
            memcpy(all + at * size, all + (at - 1) * size, size);
            at--;
        }
        memcpy(all + at * size, held, size);
    }
}
"""


@dataclass(frozen=True, slots=True)
class LibrarySort:
    """A call that sorts more than is read behind it."""

    call: Node
    first: str
    """How many are read."""


def apply(context: CardContext) -> CardChange | None:
    """`std::partial_sort` in place of `std::sort`; of `qsort`, a pass that keeps the first."""
    found = next((s for f in context.functions for s in _sorts(f)), None)
    if found is None:
        return None
    given, name = arguments(found.call), called_name(found.call)
    called = found.call.child_by_field_name("function")
    where = found.call.start_point.row + 1
    statement = f"Sort no more than the first {found.first} at line {where}"
    assert called is not None
    if name == "qsort":
        words = [*(text_of(one) for one in given[:3]), found.first, text_of(given[3])]
        edits = [
            SourceEdit.replace(found.call, f"roofsmith_first({', '.join(words)})"),
            *context.source.include("stdlib.h"),
            *context.source.include("string.h"),
            context.source.insert_helpers(_HELPER),
        ]
        return context.changed(edits, statement)
    begin, end = text_of(given[0]), text_of(given[1])
    length = f"{end} - {begin}"
    middle = f"{begin} + std::min<long>({found.first}, {length})"
    new = text_of(called).replace("sort", "partial_sort")
    rest = [text_of(one) for one in given[2:]]
    call = f"{new}({', '.join([begin, middle, end, *rest])})"
    return context.changed([SourceEdit.replace(found.call, call)], statement)


def _sorts(function: CFunction) -> Iterator[LibrarySort]:
    for call in walk(function.body, "call_expression"):
        name, given = called_name(call), arguments(call)
        if (name, len(given)) not in (("sort", 2), ("sort", 3), ("qsort", 4)):
            continue
        array = re.match(r"\s*(?:std::)?(?:begin\()?\s*(\w+)", text_of(given[0]))
        statement = call.parent
        block = statement.parent if statement is not None else None
        if array is None or block is None or block.type != "compound_statement":
            continue
        first = _read_behind(array[1], block, call)
        if first is not None and first not in text_of(given[1]):
            yield LibrarySort(call, first)


def _read_behind(array: str, block: Node, call: Node) -> str | None:
    """The bound of the loops that read an array behind a call, always from its beginning; None
    where anything else does."""
    bounds = set()
    for use in walk(block, "identifier"):
        if text_of(use) != array or use.start_byte <= call.end_byte:
            continue
        access = use.parent
        if access is None or access.type != "subscript_expression":
            if access is not None and called_name(_around(access)) == "free":
                continue
            return None
        loop = _loop_of(access, block, text_of(access.named_children[-1]).strip("[] "))
        if loop is None:
            return None
        bounds.add(text_of(loop.upper) if loop.upper is not None else "")
    return bounds.pop() if len(bounds) == 1 and "" not in bounds else None


def _around(node: Node) -> Node:
    return node.parent if node.type == "argument_list" and node.parent is not None else node


def _loop_of(access: Node, block: Node, index: str) -> Loop | None:
    """The loop from 0, by 1, whose variable is an index, and which doesn't change the array."""
    parent = access.parent
    while parent is not None and parent != block:
        if parent.type == "for_statement":
            loop = read_loop(parent)
            begins = loop.lower is not None and text_of(loop.lower) == "0"
            plain = loop.canonical and loop.step == "1" and not loop.inclusive and begins
            if loop.variable == index and plain and within(access, loop.body):
                written = any(
                    (found := assignment_of(one)) is not None and found[0] == access
                    for one in statements(loop.body)
                )
                used = identifiers(loop.upper) if loop.upper is not None else set()
                return None if written or loop.variable in used else loop
        parent = parent.parent
    return None


def predict(context: CardContext) -> float:
    """One look at each element, in place of a look at each of log2(n) levels.

    What else the kernel does isn't known: half of its time, at a cautious guess.
    """
    limit = headroom(context)
    return 4.0 if limit is None else max(1.0, min(4.0, limit))


CARD = Card(
    id="partial-sort",
    title="No more of a sort than is used",
    category="algebra",
    answers=frozenset(("compute", "latency", "memory", "unknown")),
    rationale="A sort takes n log n comparisons; to have its first k takes about n, as most "
    "elements lose against the k-th.",
    expected_counter="instructions",
    expected_change="down by the levels of the sort",
    source="Knuth, The Art of Computer Programming, vol. 3, section 5.3.3 (minimum-comparison "
    "selection)",
    apply=apply,
    predict=predict,
)
