"""Calls of PyTorch's C++ interface that deal rows evenly: `x.chunk(G)`, `x.view({G, -1, K})`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_tree as tree
from roofsmith.analysis.overfitting.group_names import is_count
from roofsmith.analysis.overfitting.tokens import is_weight_name

_INTO = ("chunk", "tensor_split", "unsafe_chunk")
_SHAPES = ("view", "reshape", "unflatten", "reshape_symint", "view_symint")
_EXTENT = re.compile(r"(\w+)\s*\.\s*(?:size\s*\(\s*0\s*\)|sizes\s*\(\s*\)\s*\[\s*0\s*\])")


def counts(nodes: Iterable[Node]) -> tuple[set[str], set[str]]:
    """Names that are bound to the number of groups, and to that of other groups.

    `const int64_t n = m_sizes.numel()`, and `int64_t num_groups = K / 128`.
    """
    found: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        value = node.child_by_field_name("value") if node.type == "init_declarator" else None
        if value is not None and is_count(tree.written(value)):
            found.add(tree.name_of(node))
        elif value is not None and value.type == "binary_expression":
            others.add(tree.name_of(node))
    return found, others


def is_extent_of_weights(text: str) -> bool:
    """`w.size(0)`: one matrix per group."""
    extent = _EXTENT.fullmatch(text)
    return extent is not None and is_weight_name(extent[1])


def deals(
    call: Node, is_groups: Callable[[Node], bool], is_average: Callable[[Node], bool]
) -> bool:
    """Whether rows go to groups in equal parts.

    Args:
        call: a call of anything.
        is_groups: whether an expression is the number of groups.
        is_average: whether it is the number of rows for each of them, if all were equal.
    """
    name, array, given = _taken(call)
    if array is None or not given or is_weight_name(_root(array)):
        return False
    if name in _INTO:
        return is_groups(given[0]) and (len(given) < 2 or tree.written(given[1]) == "0")
    if name not in _SHAPES:
        return False
    if name == "unflatten":
        if tree.written(given[0]) != "0":
            return False
        given = given[1:]
    shape = _elements(given[0]) if given else []
    if len(shape) < (2 if name == "unflatten" else 3):
        return False
    first, second = shape[:2]
    if is_groups(first):
        return tree.written(second) == "-1" or is_average(second)
    return tree.written(first) == "-1" and is_average(second)


def _taken(call: Node) -> tuple[str, Node | None, Sequence[Node]]:
    """What is called, on which array, with what: a method, or a function of `at` or `torch`."""
    function = call.child_by_field_name("function")
    listed = call.child_by_field_name("arguments")
    given = [n for n in listed.named_children if n.type != "comment"] if listed is not None else []
    if function is not None and function.type == "field_expression":
        name = tree.written(function.child_by_field_name("field"))
        return name, function.child_by_field_name("argument"), given
    owner, _, name = tree.written(function).rpartition("::")
    is_library = owner.rpartition("::")[2] in ("at", "torch")
    return (name, given[0], given[1:]) if is_library and given else ("", None, ())


def _root(array: Node) -> str:
    """`w` of `w.contiguous()[0]`."""
    node: Node | None = array
    while node is not None and node.type != "identifier":
        inner = [node.child_by_field_name(field) for field in ("function", "argument")]
        node = next((n for n in inner if n is not None), None)
    return tree.written(node)


def _elements(node: Node) -> list[Node]:
    """Of `{G, -1, K}`, and of a list that is built from it."""
    lists = [n for n in tree.nodes(node) if n.type == "initializer_list"]
    return [n for n in lists[0].named_children if n.type != "comment"] if lists else []
