"""Nodes of a syntax tree: their text, what is below them, what they call."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of

CASTS = frozenset(("static_cast", "float", "double", "int", "long", "size_t"))
"""What C++ writes casts with, besides names of the file's own types."""


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def walk(node: Node, *kinds: str) -> Iterator[Node]:
    """The node and all below it, in source order; only those of `kinds`, if any are given."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if not kinds or found.type in kinds:
            yield found
        waiting += reversed(found.children)


def within(inner: Node, outer: Node) -> bool:
    """Whether `inner` lies inside `outer` (or is it)."""
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def strip_parens(node: Node) -> Node:
    """The expression inside any parentheses and casts."""
    while True:
        if node.type == "call_expression" and called_name(node) in CASTS and arguments(node):
            node = arguments(node)[0]
        elif node.type == "parenthesized_expression" and node.named_child_count >= 1:
            node = node.named_children[0]
        elif node.type == "cast_expression":
            value = node.child_by_field_name("value")
            if value is None:
                return node
            node = value
        else:
            return node


def assignment_of(node: Node) -> tuple[Node, str, Node] | None:
    """Target, operator and value of `x += y`, also as a statement; None for anything else."""
    if node.type == "expression_statement" and node.named_child_count == 1:
        node = strip_parens(node.named_children[0])
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type != "assignment_expression" or left is None or right is None:
        return None
    return left, operator_of(node), right


def assigned(node: Node) -> Iterator[Node]:
    """What is assigned or counted in the node."""
    for found in walk(node, "assignment_expression", "update_expression"):
        target = found.child_by_field_name("left") or found.child_by_field_name("argument")
        if target is not None:
            yield target


def statements(body: Node) -> list[Node]:
    """Statements of a loop's body, comments left out."""
    nodes = body.named_children if body.type == "compound_statement" else [body]
    return [node for node in nodes if node.type != "comment"]


def identifiers(node: Node) -> set[str]:
    return {text_of(found) for found in walk(node, "identifier")}


def calls(node: Node) -> list[tuple[str, Node]]:
    """Calls by plain name in the node: the name, and the `call_expression`."""
    found = []
    for call in walk(node, "call_expression"):
        name = called_name(call)
        if name is not None:
            found.append((name, call))
    return found


def called_name(call: Node) -> str | None:
    """What a `call_expression` calls, without `std::` and arguments of templates; None for any
    other node."""
    function = call.child_by_field_name("function") if call.type == "call_expression" else None
    return None if function is None else _plain_name(function).removeprefix("std::")


def _plain_name(node: Node) -> str:
    """`a::f` of `a::f<float>`."""
    name, scope = node.child_by_field_name("name"), node.child_by_field_name("scope")
    if node.type == "qualified_identifier" and name is not None and scope is not None:
        return f"{_plain_name(scope)}::{_plain_name(name)}"
    is_template = node.type in ("template_function", "template_type")
    return _plain_name(name) if is_template and name is not None else text_of(node)


def arguments(call: Node) -> list[Node]:
    """The argument expressions of a `call_expression`."""
    listed = call.child_by_field_name("arguments")
    if listed is None:
        return []
    return [node for node in listed.named_children if node.type != "comment"]


def subscripts(node: Node) -> tuple[list[Node], Node]:
    """The indices of `A[i][j]`, and `A`."""
    indices: list[Node] = []
    while node.type == "subscript_expression":
        index = node.named_children[-1]
        if index.type == "subscript_argument_list" and index.named_children:
            index = index.named_children[0]
        indices.insert(0, index)
        node = strip_parens(node.named_children[0])
    return indices, node


def is_row(node: Node) -> bool:
    """Whether a subscript is only the first part of another, as `A[i]` in `A[i][j]`."""
    around = node.parent
    while around is not None and around.type == "parenthesized_expression":
        node, around = around, around.parent
    is_part = around is not None and around.type == "subscript_expression"
    return is_part and around is not None and around.named_children[0] == node


def indent_of(node: Node, text: str) -> str:
    """White space in front of the line that the node starts on."""
    line = text.encode()[: node.start_byte].rsplit(b"\n", 1)[-1].decode()
    return line[: len(line) - len(line.lstrip())]
