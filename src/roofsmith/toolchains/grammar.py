"""The tree-sitter grammars of C and C++."""

from __future__ import annotations

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
    """A node and everything below it, in the order of the text.

    Args:
        node: where to start.
        bodies: whether to look into the bodies of functions too.
    """
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if bodies or current.type != "compound_statement":
            stack.extend(reversed(current.children))
