"""Which names a piece of a loop declares, assigns, reads and relies on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tree_sitter import Node

from roofsmith.proposers.loopnest_body import INTEGER_TYPES
from roofsmith.proposers.syntax import identifiers, text_of, walk, within


def declared_in(nodes: Iterable[Node]) -> set[str]:
    """Names that these statements declare, at any depth."""
    return {
        text_of(name)
        for node in nodes
        for declaration in walk(node, "declaration")
        for declarator in declaration.children_by_field_name("declarator")
        if (name := next(walk(declarator, "identifier"), None)) is not None
    }


def assigned_in(node: Node) -> set[str]:
    """Plain names that are assigned or counted in a statement."""
    return {
        text_of(target)
        for found in walk(node, "assignment_expression", "update_expression")
        if (target := found.child_by_field_name("left") or found.child_by_field_name("argument"))
        is not None
        and target.type == "identifier"
    }


def needed_by(before: Sequence[Node], used_in: Sequence[Node]) -> list[Node]:
    """Declarations that these statements rely on."""
    names: set[str] = set().union(*(identifiers(node) for node in used_in))
    kept = []
    for node in reversed(before):
        if node.type == "declaration" and declared_in([node]) & names:
            kept.append(node)
            names |= identifiers(node)
    return kept[::-1]


def declares_reals(node: Node) -> bool:
    """Whether a statement declares floating-point scalars rather than integers or pointers."""
    kind = node.child_by_field_name("type")
    if node.type != "declaration" or kind is None or set(text_of(kind).split()) & INTEGER_TYPES:
        return False
    return next(walk(node, "pointer_declarator", "array_declarator"), None) is None


def pointers_in(statements: Iterable[Node], arrays: set[str]) -> dict[str, set[str]]:
    """Pointers that are declared in these statements, and the arrays that they point into."""
    found = {}
    for statement in statements:
        for node in walk(statement, "init_declarator"):
            named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if named is not None and value is not None and named.type == "pointer_declarator":
                name = next(walk(named, "identifier"))
                found[text_of(name)] = identifiers(value) & arrays
    return found


def read_in(statement: Node) -> set[str]:
    """Names that a statement uses other than to store there or to make a pointer."""
    stored = [
        left.named_children[0]
        for node in walk(statement, "assignment_expression")
        if (left := node.child_by_field_name("left")) is not None and left.named_child_count
    ]
    stored += [
        node
        for node in walk(statement, "init_declarator")
        if (named := node.child_by_field_name("declarator")) is not None
        and named.type == "pointer_declarator"
    ]
    return {
        text_of(node)
        for node in walk(statement, "identifier")
        if not any(within(node, place) for place in stored)
    }
