"""What every iteration of a loop computes anew and alike, once in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.accesses import PURE_CALLS
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, amdahl, lines_of
from roofsmith.proposers.dependence import declared_names
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import directive
from roofsmith.proposers.source import CFunction, Loop, loops, outermost_loops, read_loop
from roofsmith.proposers.syntax import (
    CASTS,
    assigned,
    calls,
    identifiers,
    statements,
    strip_parens,
    subscripts,
    text_of,
    walk,
)

_KINDS = ("declaration", "for_statement", "expression_statement")
_ENDS = ("return_statement", "goto_statement", "break_statement", "continue_statement",
         "while_statement", "do_statement", "static")  # fmt: skip
_MANY = 64.0
"""Turns of a loop that can't be told, as everywhere in cards."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """Statements of a loop's body that its turns don't change."""

    loop: Loop
    moved: tuple[Node, ...]


def apply(context: CardContext) -> CardChange | None:
    """Move tables and sums that are the same in every iteration in front of the loop."""
    found = next(_invariants(context), None)
    if found is None:
        return None
    start = directive(found.loop) or found.loop.node
    text = "\n".join(text_of(node) for node in found.moved)
    edits = [
        SourceEdit.before(start, f"{{\n{text}\n"),
        *(SourceEdit.replace(node, "") for node in found.moved),
        SourceEdit.after(found.loop.node, "\n}"),
    ]
    where = lines_of([read_loop(node) for node in found.moved if node.type == "for_statement"])
    return context.changed(edits, f"Compute once what the loop at {where} computes every time")


def _invariants(context: CardContext) -> Iterator[Invariant]:
    for function in context.functions:
        for loop in outermost_loops(function.body):
            if loop.canonical and loop.body.type == "compound_statement":
                moved = _moved(context, function, loop)
                if any(node.type == "for_statement" for node in moved):
                    yield Invariant(loop, moved)


def _written(node: Node) -> set[str]:
    """Names that a statement declares, sets, or sets elements of."""
    found = set(declared_names(node))
    for target in assigned(node):
        base = strip_parens(target)
        if base.type == "subscript_expression":
            base = subscripts(base)[1]
        found |= {text_of(base)} if base.type == "identifier" else identifiers(base)
    return found


def _handed_on(node: Node) -> Iterator[str]:
    """Names that a statement may change by another way: an argument that isn't a plain number of a
    pure function, what a method is called on, an address, an array by its name alone."""
    subscripted = {id_.start_byte for one in walk(node, "subscript_expression")
                   for id_ in [subscripts(one)[1]]}  # fmt: skip
    for name, call in calls(node):
        if name not in PURE_CALLS:
            yield from identifiers(call)
    for found in walk(node, "call_expression", "pointer_expression", "init_declarator"):
        for one in walk(found, "identifier"):
            if one.start_byte not in subscripted and found.type != "call_expression":
                yield text_of(one)
        if found.type == "call_expression" and (f := found.child_by_field_name("function")):
            yield from identifiers(f) if f.type == "field_expression" else ()


def _moved(context: CardContext, function: CFunction, loop: Loop) -> tuple[Node, ...]:
    """The largest set of statements that need nothing of the others, nor of the loop's variable."""
    body = statements(loop.body)
    left = [node for node in body if _may_move(context, node)]
    fixed = {p.name for p in function.parameters if p.pointer and p.const}
    while True:
        own = {name for node in left if node.type == "declaration" for name in declared_names(node)}
        behind = [node for node in body if node not in left]
        others = {name for node in behind for name in (*_written(node), *_handed_on(node))}
        kept = [
            node for node in left if _is_apart(node, own, others | {loop.variable or ""}, fixed)
        ]
        if len(kept) == len(left):
            return tuple(left)
        left = kept


def _may_move(context: CardContext, node: Node) -> bool:
    """Whether a statement computes and nothing else."""
    pure = PURE_CALLS | CASTS | context.source.types
    return (
        node.type in _KINDS
        and not any(walk(node, *_ENDS))
        and not any(walk(node, "pointer_expression", "pointer_declarator", "reference_declarator"))
        and {name for name, _ in calls(node)} <= pure
        and not any(directive(inner) for inner in loops(node))
    )


def _is_apart(node: Node, own: set[str], others: set[str], fixed: set[str]) -> bool:
    """Whether it reads nothing that stays behind, and writes what is moved with it alone."""
    inside = declared_names(node) - own
    written = _written(node)
    read = {text_of(subscripts(one)[1]) for one in walk(node, "subscript_expression")}
    return (
        written <= own | inside
        and not (identifiers(node) - inside) & others
        and read <= own | inside | fixed
    )


def predict(context: CardContext) -> float:
    """All but one of the turns save it."""
    found = next(_invariants(context), None)
    if found is None:
        return 1.0
    estimate = CostEstimate(context)
    inner = [read_loop(node) for node in found.moved if node.type == "for_statement"]
    shares = [estimate.whole_share(loop) for loop in inner]
    share = sum(0.25 if one is None else one for one in shares)
    return amdahl(context, min(1.0, share), _MANY)


CARD = Card(
    id="hoist-invariants",
    title="Compute once what doesn't change",
    category="algebra",
    answers=frozenset(("compute", "latency", "memory", "unknown")),
    rationale="A table or a recurrence that needs nothing of the loop around it is the same in"
    " every turn; compilers move expressions, not loops that fill arrays.",
    expected_counter="instructions",
    expected_change="down by all turns of it but one",
    source="Muchnick, Advanced Compiler Design and Implementation, 1997, section 13.2"
    " (loop-invariant code motion)",
    apply=apply,
    predict=predict,
)
