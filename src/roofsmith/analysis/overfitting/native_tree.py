"""Syntax trees of C, C++, CUDA and HIP files: parsed, walked, read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_c
import tree_sitter_cpp
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

_LAUNCH = re.compile(r"<<<[^;]{0,1000}?>>>")


@cache
def _parser(*, plain_c: bool) -> Parser:
    grammar = tree_sitter_c.language() if plain_c else tree_sitter_cpp.language()
    return Parser(Grammar(grammar))


def parse(text: str, *, plain_c: bool) -> Node:
    """The root of a file; a launch's `<<<...>>>` is blanked out, so that it reads as a call."""
    plain = _LAUNCH.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return _parser(plain_c=plain_c).parse(plain.encode(errors="replace")).root_node


def nodes(root: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def written(node: Node | None) -> str:
    """A node's text, with single spaces."""
    return " ".join((node.text or b"").decode(errors="replace").split()) if node is not None else ""


def line_of(node: Node) -> int:
    """From 1."""
    return int(node.start_point[0]) + 1


def name_of(declarator: Node | None) -> str:
    """The name that a declarator declares, through pointers, arrays and references."""
    while declarator is not None:
        if declarator.type in ("identifier", "field_identifier", "qualified_identifier"):
            return written(declarator)
        inner = declarator.child_by_field_name("declarator")
        if inner is None:  # a reference has no field for it
            inner = next(
                (
                    c
                    for c in declarator.named_children
                    if "identifier" in c.type or "declarator" in c.type
                ),
                None,
            )
        declarator = inner
    return ""


def functions(root: Node) -> Iterator[Node]:
    """Definitions with a body."""
    for node in nodes(root):
        if node.type == "function_definition" and node.child_by_field_name("body") is not None:
            yield node


def function_name(function: Node) -> str:
    """Its name, as it is defined."""
    declarator = function.child_by_field_name("declarator")
    for node in nodes(declarator) if declarator is not None else ():
        if node.type == "function_declarator":
            return name_of(node.child_by_field_name("declarator"))
    return ""


def parameters(function: Node) -> list[Node]:
    """Its parameter declarations, in order."""
    for node in nodes(function):
        if node.type == "parameter_list":
            return [c for c in node.named_children if "parameter_declaration" in c.type]
        if node.type == "compound_statement":
            break
    return []


def is_device_code(function: Node) -> bool:
    """Whether it runs on a GPU."""
    head = written(function).partition("{")[0]
    return "__global__" in head or "__device__" in head
