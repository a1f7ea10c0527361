"""Syntax trees of C, C++, CUDA and HIP, and what their nodes say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_c
import tree_sitter_cpp
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

NAMES = ("identifier", "qualified_identifier", "type_identifier", "field_identifier")
"""Kinds of nodes that are names."""
DEEPEST = 6000
"""Levels of a tree: asked for the parent of a node, tree-sitter descends by recursion, and ended
the process below 10,000 to 20,000 on a stack of 8 MiB."""
_ARGUMENTS = re.compile(r"\s*<[^<>]*>")


@cache
def _parser(*, plain_c: bool) -> Parser:
    grammar = tree_sitter_c.language() if plain_c else tree_sitter_cpp.language()
    return Parser(Grammar(grammar))


def root_of(text: str, *, plain_c: bool) -> Node:
    """The tree of a text; whatever can't be parsed is an error node in it."""
    return _parser(plain_c=plain_c).parse(text.encode(errors="replace")).root_node


def nodes_of(root: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def is_too_deep(root: Node) -> bool:
    """Whether a tree has more than `DEEPEST` levels, as no file that somebody wrote has."""
    level = [root]
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children]
        if not level:
            return False
    return True


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def operator_of(node: Node) -> str:
    """`+=` of `x += 1`, `-` of `-x`; empty where there is none."""
    operator = node.child_by_field_name("operator")
    return "" if operator is None else text_of(operator)


def line_of(node: Node) -> int:
    """Where it begins, counted from 1."""
    return int(node.start_point[0]) + 1


def is_outermost(node: Node) -> bool:
    """Not a part of a longer qualified name, nor a member or a variable's own name."""
    parent = node.parent
    if parent is None or node.type == "field_identifier":
        return False
    declares = parent.type in ("init_declarator", "pointer_declarator", "parameter_declaration")
    is_variable = declares and parent.child_by_field_name("declarator") == node
    return parent.type != "qualified_identifier" and not is_variable


def without_arguments(name: str) -> str:
    """A qualified name without its templates' arguments, which are names of their own."""
    shorter = _ARGUMENTS.sub("", name)
    while shorter != name:
        name, shorter = shorter, _ARGUMENTS.sub("", shorter)
    return name.removeprefix("::").replace("template ", "")


def header_of(include: Node) -> str:
    """The file that an `#include` names."""
    path = include.child_by_field_name("path")
    return "" if path is None else text_of(path).strip('<>"')


def is_asm(node: Node) -> bool:
    """Whether it is assembly, as a statement or as the label of a declaration."""
    if node.type in ("gnu_asm_expression", "asm_statement"):
        return True
    if node.type != "call_expression":
        return False
    function = node.child_by_field_name("function")
    return function is not None and text_of(function) in ("asm", "__asm__", "__asm")
