"""The tree-sitter grammars of C and C++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_c
import tree_sitter_cpp
from tree_sitter import Language, Node, Parser, Tree


@cache
def _language(*, cpp: bool) -> Language:
    return Language(tree_sitter_cpp.language() if cpp else tree_sitter_c.language())


def parse(text: str, *, cpp: bool) -> Tree:
    """The syntax tree of a text; errors are nodes in it."""
    return Parser(_language(cpp=cpp)).parse(text.encode())


def text_of(node: Node | None) -> str:
    """The source text of a node; empty for none."""
    return (node.text or b"").decode() if node else ""


def descendants(node: Node, *, bodies: bool) -> Iterator[Node]:
    """A node and everything below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if bodies or current.type != "compound_statement":
            stack.extend(reversed(current.children))


def storage(node: Node) -> set[str]:
    """Storage classes of a declaration or definition, such as static."""
    return {text_of(c) for c in node.children if c.type == "storage_class_specifier"}


def has_c_linkage(node: Node | None) -> bool:
    """Whether a declaration or definition is within `extern "C"`."""
    while node is not None:
        if node.type == "linkage_specification":
            return text_of(node.child_by_field_name("value")) == '"C"'
        node = node.parent
    return False


def blank_comments(text: str, *, cpp: bool) -> str:
    """A text with comments and raw strings turned into spaces; lines keep their places."""
    raw = bytearray(text.encode())
    for node in descendants(parse(text, cpp=cpp).root_node, bodies=True):
        if node.type in ("comment", "raw_string_literal"):
            raw[node.start_byte : node.end_byte] = re.sub(rb"[^\n]", b" ", node.text or b"")
    return raw.decode()
