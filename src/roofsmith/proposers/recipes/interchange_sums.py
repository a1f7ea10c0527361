"""Sum whole rows of columns at once, in the place of one column after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import STRIDED_CYCLES, CostEstimate, amdahl, lines_of
from roofsmith.proposers.dependence import examine
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._nests import Nest, read_nest, walks_columns
from roofsmith.proposers.reductions import find_reduction
from roofsmith.proposers.source import Element
from roofsmith.proposers.syntax import assignment_of, indent_of, statements, text_of, walk

COLUMNS = 256
"""Columns summed at once: 1 KiB of float accumulators, well inside any first-level cache."""


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """`for c { s = start; for j s += f(j, c); use(s, c); }`."""

    nest: Nest
    name: str
    element: Element
    start: Node
    """Value that the sum starts from."""
    update: Node
    """The statement that adds to it."""
    declared: bool
    """The sum is declared inside the outer loop."""


def apply(context: CardContext) -> CardChange | None:
    """Expand the sum into an array over a block of columns, and put the columns innermost."""
    found = list(_column_sums(context))
    if not found:
        return None
    edits = [_rewrite(context, sums) for sums in found]
    where = lines_of([sums.nest.outer for sums in found])
    return context.changed(
        edits, f"Sum {COLUMNS} columns at once in the loop at {where}, row by row"
    )


def _column_sums(context: CardContext) -> Iterator[ColumnSums]:
    for function in context.functions:
        accesses = context.accesses(function)
        types = function.element_types
        for loop in function.loops:
            nest = read_nest(loop)
            if nest is None or not walks_columns(accesses, nest):
                continue
            sums = _read(nest, types)
            verdict = examine(accesses, loop)
            if sums is not None and verdict is not None and not verdict.reductions:
                yield sums


def _read(nest: Nest, types: Mapping[str, Element]) -> ColumnSums | None:
    """The sum, where it is all that the two loops do before it is used."""
    inside = statements(nest.inner.body)
    if len(nest.before) != 1 or len(inside) != 1:
        return None
    start = _started(nest.before[0])
    if start is None or start[0] not in types:
        return None
    name, value, declared = start
    reduction = find_reduction(nest.inner, name)
    if reduction is None or reduction.operation != "+" or reduction.updates[0].node != inside[0]:
        return None
    return ColumnSums(nest, name, types[name], value, inside[0], declared)


def _started(statement: Node) -> tuple[str, Node, bool] | None:
    """Name and value of `T s = value;` or `s = value;`."""
    if statement.type == "declaration":
        found = statement.children_by_field_name("declarator")
        if len(found) != 1:
            return None
        name, value = (found[0].child_by_field_name(f) for f in ("declarator", "value"))
    else:
        assignment = assignment_of(statement)
        if assignment is None or assignment[1] != "=":
            return None
        name, _, value = assignment
    if name is None or value is None or name.type != "identifier":
        return None
    return text_of(name), value, statement.type == "declaration"


def _rewrite(context: CardContext, sums: ColumnSums) -> SourceEdit:
    nest = sums.nest
    outer, inner = nest.outer, nest.inner
    assert outer.lower is not None
    indent = indent_of(outer.node, context.source.text)
    pad, deep = indent + "    ", indent + "        "
    kind = outer.declared_type or "int"
    column = f"for ({kind} {outer.variable} = rs_block; {outer.variable} < rs_stop; "
    column += f"{outer.variable}++)"
    slot = f"rs_sums[{outer.variable} - rs_block]"
    update = _with_slot(sums, slot)
    header_end = inner.body.start_byte - inner.node.start_byte
    header = (inner.node.text or b"")[:header_end].decode().strip()
    used = [f"{deep}{text_of(node)}" for node in nest.after]
    opened = f"{sums.element} {sums.name} = {slot};" if sums.declared else f"{sums.name} = {slot};"
    lines = [
        f"for ({kind} rs_block = {text_of(outer.lower)}; rs_block < {outer.upper_text}; "
        f"rs_block += {COLUMNS}) {{ /* sums of up to {COLUMNS} columns at once */",
        f"{pad}const {kind} rs_left = {outer.upper_text} - rs_block;",
        f"{pad}const {kind} rs_stop = rs_block + (rs_left < {COLUMNS} ? rs_left : {COLUMNS});",
        f"{pad}{sums.element} rs_sums[{COLUMNS}];",
        f"{pad}{column} {slot} = {text_of(sums.start)};",
        f"{pad}{header}",
        f"{deep}{column} {update}",
        f"{pad}{column} {{",
        f"{deep}{opened}",
        *used,
        f"{pad}}}",
        f"{indent}}}",
    ]
    return SourceEdit.replace(outer.node, "\n".join(lines))


def _with_slot(sums: ColumnSums, slot: str) -> str:
    """The update with every mention of the sum replaced by its element of the array."""
    text = sums.update.text or b""
    for node in reversed(list(walk(sums.update, "identifier"))):
        if text_of(node) == sums.name:
            start, end = (b - sums.update.start_byte for b in (node.start_byte, node.end_byte))
            text = text[:start] + slot.encode() + text[end:]
    return text.decode()


def predict(context: CardContext) -> float:
    """A cache line per element becomes a cache line per vector or two, and the chain is gone."""
    estimate = CostEstimate(context)
    work = estimate.inside(sums.nest.inner for sums in _column_sums(context))
    return amdahl(context, estimate.share(work.strided + work.chains), STRIDED_CYCLES)


CARD = Card(
    id="interchange-sums",
    title="Sum columns row by row",
    category="memory_access",
    answers=frozenset(("memory", "latency", "compute", "unknown")),
    rationale="A sum down a column touches a new cache line for every element and uses one of its "
    "numbers; a row of sums uses them all, and vectorises.",
    expected_counter="cache_references",
    expected_change="down by the elements in a cache line",
    source="Allen & Kennedy, Optimizing Compilers for Modern Architectures, 2001, sections 5.2 "
    "(loop interchange) and 5.3 (scalar expansion)",
    apply=apply,
    predict=predict,
)
