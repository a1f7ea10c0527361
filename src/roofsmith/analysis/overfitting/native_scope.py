"""What a C, C++, CUDA or HIP file holds on to: variables of the file, statics, arguments."""

from __future__ import annotations

import re

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_tree as tree
from roofsmith.analysis.overfitting.tokens import NOTHING, Tokens, kept, union

_TENSOR = re.compile(r"\b(torch|at)::Tensor\b|\bDeviceArray\b")
_CONSTANT = re.compile(r"((static|inline|extern|alignas\(\w+\)) )*(const|constexpr)\b")
_HOLDERS = (
    "namespace_definition", "declaration_list", "template_declaration", "linkage_specification",
    "preproc_if", "preproc_ifdef", "preproc_else", "class_specifier", "struct_specifier",
    "field_declaration_list",
)  # fmt: skip


def file_scope(root: Node) -> list[str]:
    """Variables of the file and of its namespaces, and static members."""
    found, types = [], set()
    waiting = list(root.named_children)
    while waiting:
        node = waiting.pop()
        if node.type in _HOLDERS:
            waiting += node.named_children
        elif node.type == "declaration" or (
            node.type == "field_declaration" and tree.written(node).startswith(("static", "inline"))
        ):
            is_constant = _CONSTANT.match(tree.written(node)) is not None
            types.add(tree.written(node.child_by_field_name("type")))
            for child in node.named_children:
                is_one = "declarator" in child.type or child.type == "identifier"
                kinds = {c.type for c in tree.nodes(child)} if is_one else {"function_declarator"}
                fixed = is_constant and "pointer_declarator" not in kinds
                if not fixed and "function_declarator" not in kinds:
                    found.append(tree.name_of(child).rpartition("::")[2])
    types |= {
        tree.written(node.child_by_field_name("type"))
        for node in tree.nodes(root)
        if node.type == "declaration"
        and tree.outlives_calls(node)
        and _CONSTANT.match(tree.written(node)) is None
    }
    return [name for name in (*found, *_fields(root, types)) if name]


def _fields(root: Node, types: set[str]) -> list[str]:
    """Members of classes that there is an object of for as long as the program runs."""
    found = []
    for node in tree.nodes(root):
        named = tree.written(node.child_by_field_name("name"))
        if node.type not in ("class_specifier", "struct_specifier") or named not in types:
            continue
        body = node.child_by_field_name("body")
        for member in body.named_children if body is not None else ():
            if member.type == "field_declaration":
                found += [tree.name_of(c) for c in member.children_by_field_name("declarator")]
    return [name for name in found if name]


def static_result(function: Node) -> Tokens:
    """The statics of a function that it returns."""
    statics, found = set(), NOTHING
    for node in tree.nodes(function):
        if node.type == "declaration" and tree.outlives_calls(node):
            statics |= {tree.name_of(c) for c in node.children_by_field_name("declarator")}
        elif node.type == "return_statement":
            names = {tree.written(n) for n in tree.nodes(node) if n.type == "identifier"}
            found = union([found, *(kept(name) for name in names & statics)])
    return found


def arguments(function: Node) -> list[tuple[str, Tokens]]:
    """Pointers and tensors that a function is given."""
    made: list[tuple[str, Tokens]] = []
    for parameter in tree.parameters(function):
        text = tree.written(parameter)
        name = tree.name_of(parameter.child_by_field_name("declarator"))
        is_array = "*" in text or "[" in text or _TENSOR.search(text) is not None
        made.append((name, frozenset({("tensor", name)}) if is_array else NOTHING))
    return made
