"""Hints that a C, C++, CUDA or HIP kernel keeps something between calls, from its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import line_of
from roofsmith.domain.transfer import KeptValue
from roofsmith.overfitting.hints import native_tree as tree
from roofsmith.overfitting.hints.tokens import is_weight_name

_CONSTANT = re.compile(r"((static|inline|extern|alignas\(\w+\)) )*(const|constexpr)\b[^*]*$")
_HOLDERS = (
    "namespace_definition", "declaration_list", "template_declaration", "linkage_specification",
    "preproc_if", "preproc_ifdef", "preproc_else", "class_specifier", "struct_specifier",
    "field_declaration_list",
)  # fmt: skip
_LOOKS = frozenset(("size", "data", "empty", "begin", "end", "find", "count", "load", "c_str"))
"""Methods that change nothing."""
_KEYED = frozenset((
    "find", "count", "contains", "emplace", "try_emplace", "insert", "insert_or_assign", "at",
))  # fmt: skip
_THROUGH = frozenset((
    "parenthesized_expression", "cast_expression", "argument_list", "initializer_list",
    "compound_literal_expression", "subscript_argument_list",
))  # fmt: skip
_MAKES = re.compile(r"(static|reinterpret|const)_cast\b.*|(std::)?(make_pair|make_tuple|tie)")
_ARRAY = re.compile(r"[*\[]|\b(torch|at)::Tensor\b")
_NULL = ("0", "NULL", "nullptr")


def cache_hints_native(
    path: str, text: str, weights: frozenset[str] = frozenset(), *, plain_c: bool = False
) -> tuple[KeptValue, ...]:
    """Every variable that outlives a call and that a function of the file writes.

    Args:
        path: of the file.
        text: of the file.
        weights: arguments known to be weights, beside those that are named so.
        plain_c: C rather than C++.
    """
    root = tree.parse(text, plain_c=plain_c)
    shared = _file_scope(root)
    lines: dict[str, int] = {}
    keys: dict[str, list[str]] = {}
    for function in tree.functions(root):
        body = function.child_by_field_name("body")
        places = shared | set(_statics(body))
        for name, line in _writes(body, places):
            lines.setdefault(name, line)
        used = {tree.written(n) for n in tree.nodes(body) if n.type == "identifier"} & places
        for name in used:
            keys.setdefault(name, []).extend(_keys(function, places))
    hints = (_hint(path, name, line, keys.get(name, []), weights) for name, line in lines.items())
    return tuple(sorted(hints, key=lambda hint: (hint.line, hint.name)))


def _hint(path: str, name: str, line: int, keys: list[str], weights: frozenset[str]) -> KeptValue:
    is_of_weights = all(k in weights or is_weight_name(k) for k in keys)
    found_by = "may be found by an argument's address" if keys else "outlives the call"
    return KeptValue(
        name=name, path=path, line=line, key=", ".join(dict.fromkeys(keys)), says=found_by,
        bucket="W3" if not keys else "W1" if is_of_weights else "W2",
    )  # fmt: skip


def _file_scope(root: Node) -> set[str]:
    """Variables of the file and of its namespaces, and static members."""
    found: set[str] = set()
    waiting = list(root.named_children)
    while waiting:
        node = waiting.pop()
        if node.type in _HOLDERS:
            waiting += node.named_children
        elif node.type == "declaration" or (
            node.type == "field_declaration" and tree.written(node).startswith(("static", "inline"))
        ):
            found |= set(_declared(node))
    return found


def _statics(body: Node | None) -> Iterator[str]:
    """What a function declares and finds again in its next call."""
    for node in tree.nodes(body):
        if node.type == "declaration" and tree.outlives_calls(node):
            yield from _declared(node, is_local=True)


def _declared(declaration: Node, *, is_local: bool = False) -> Iterator[str]:
    """Variables, but for constants and functions; in a function, `static const T t(x)` is one."""
    if not is_local and _CONSTANT.match(tree.written(declaration).partition("=")[0]):
        return
    for child in declaration.children_by_field_name("declarator"):
        kinds = {n.type for n in tree.nodes(child)}
        if (is_local or "function_declarator" not in kinds) and (name := tree.name_of(child)):
            yield name.rpartition("::")[2]


def _writes(body: Node | None, places: set[str]) -> Iterator[tuple[str, int]]:
    """Places and lines: assigned, counted, changed by a method, handed to a function."""
    for node in tree.nodes(body):
        for written in _written(node):
            name = tree.first_name(written)
            if name in places:
                yield name, line_of(node)


def _written(node: Node) -> Iterator[Node | None]:
    if node.type in ("assignment_expression", "update_expression"):
        yield node.child_by_field_name("left") or node.child_by_field_name("argument")
    elif node.type == "return_statement":
        yield node.named_children[0] if node.named_children else None
    elif node.type == "declaration" and tree.outlives_calls(node):
        for child in node.children_by_field_name("declarator"):
            used = [n for n in tree.nodes(child) if "identifier" in n.type]
            yield used[0] if len(used) > 1 else None
    elif node.type == "call_expression":
        function = node.child_by_field_name("function")
        if function is not None and function.type == "field_expression":
            is_look = tree.written(function.child_by_field_name("field")) in _LOOKS
            yield None if is_look else function.child_by_field_name("argument")
        given = node.child_by_field_name("arguments")
        yield from (given.named_children if given is not None else ())


def _keys(function: Node, places: set[str]) -> Iterator[str]:
    """Arrays among a function's arguments whose address is compared, looked up or remembered."""
    arrays = {
        tree.name_of(p.child_by_field_name("declarator"))
        for p in tree.parameters(function)
        if _ARRAY.search(tree.written(p))
    }
    for node in tree.nodes(function.child_by_field_name("body")):
        if node.type == "identifier" and tree.written(node) in arrays and _is_key(node, places):
            yield tree.written(node)


def _is_key(node: Node, places: set[str]) -> bool:
    while (parent := node.parent) is not None:
        if parent.type in ("binary_expression", "assignment_expression"):
            operator = tree.written(parent.child_by_field_name("operator"))
            sides = [tree.written(parent.child_by_field_name(s)) for s in ("left", "right")]
            if operator == "=":
                left = tree.first_name(parent.child_by_field_name("left"))
                return left in places and node == parent.child_by_field_name("right")
            return operator in ("==", "!=") and not any(side in _NULL for side in sides)
        if parent.type == "subscript_expression":
            return parent.child_by_field_name("argument") != node
        if parent.type == "call_expression":
            called = parent.child_by_field_name("function")
            if called is not None and called.type == "field_expression":
                is_keyed = tree.written(called.child_by_field_name("field")) in _KEYED
                is_address = "data_ptr" in tree.written(called)
                if is_keyed or not is_address:
                    return is_keyed
            elif not _MAKES.fullmatch(tree.written(called)):
                return False
        elif parent.type == "init_declarator":
            return "pair" in tree.written(parent) or "uintptr_t" in tree.written(parent.parent)
        elif parent.type not in (*_THROUGH, "field_expression"):
            return False
        node = parent
    return False
