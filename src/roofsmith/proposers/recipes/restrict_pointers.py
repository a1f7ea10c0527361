"""Promise that arrays don't overlap."""

from __future__ import annotations

from tree_sitter import Node

from roofsmith.domain.kernel import Language
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import text_of, walk


def apply(context: CardContext) -> CardChange | None:
    """Add `__restrict__` to every pointer parameter of `solve` that has none."""
    solve = context.source.function(context.signature.entry)
    places = [] if solve is None else _unqualified(solve, context.candidate.language)
    if len(places) < 2 or not context.keeps_contract:
        return None
    edits = [SourceEdit.after(place, " __restrict__ ") for place in places]
    return context.changed(edits, f"Promise that the {len(places)} arrays don't overlap")


def _unqualified(solve: CFunction, language: Language) -> list[Node]:
    """The `*` of each pointer, and of arrays in C the first `[`, in the parameter list without
    `restrict` in any spelling."""
    found = []
    head = solve.node.child_by_field_name("declarator")
    for node in walk(head, "parameter_declaration") if head is not None else ():
        declarators = list(walk(node, "pointer_declarator", "array_declarator"))
        if not declarators or "restrict" in text_of(node):
            continue
        place = next((part for part in declarators[-1].children if text_of(part) in "*["), None)
        if place is not None and (text_of(place) == "*" or language == "c"):
            found.append(place)
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
