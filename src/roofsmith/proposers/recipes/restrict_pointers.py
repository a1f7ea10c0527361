"""Promise that arrays don't overlap."""

from __future__ import annotations

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import text_of, walk


def apply(context: CardContext) -> CardChange | None:
    """Add `__restrict__` to every pointer parameter of `solve` that has none."""
    solve = context.source.function(context.signature.entry)
    declarators = [] if solve is None else _unqualified(solve)
    if len(declarators) < 2:
        return None
    edits = []
    for declarator in declarators:
        star = declarator.children[0]
        edits.append(SourceEdit.after(star, " __restrict__ "))
    return context.changed(edits, f"Promise that the {len(declarators)} arrays don't overlap")


def _unqualified(solve: CFunction) -> list[Node]:
    """Pointer declarators of the parameter list without `restrict` in any spelling."""
    found = []
    head = solve.node.child_by_field_name("declarator")
    for node in walk(head, "parameter_declaration") if head is not None else ():
        declarator = node.child_by_field_name("declarator")
        if declarator is None or declarator.type != "pointer_declarator":
            continue
        if "restrict" not in text_of(node) and text_of(declarator.children[0]) == "*":
            found.append(declarator)
    return found


def predict(context: CardContext) -> float:
    """Little where the compiler checks for overlap at run time, which it mostly does."""
    return amdahl(context, 0.05, 2.0)


CARD = Card(
    id="restrict-pointers",
    title="Arrays that don't overlap",
    category="vectorisation",
    answers=frozenset(("compute", "latency", "unknown")),
    rationale="A store might change what is read next, so values are loaded again and loops are "
    "kept in order or doubled with run-time checks.",
    expected_counter="instructions",
    expected_change="down",
    source="ISO/IEC 9899:2018 (C17), section 6.7.3.1 (formal definition of restrict)",
    apply=apply,
    predict=predict,
)
