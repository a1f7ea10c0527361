"""Calls of function-like macros, replaced by what they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from roofsmith.proposers.source import Macro, Source
from roofsmith.proposers.syntax import arguments, calls, text_of, walk

_MAX_DEPTH = 4


def expand(node: Node, macros: Mapping[str, Macro]) -> Node:
    """The expression with calls of the file's macros replaced, as a tree of its own."""
    text = text_of(node)
    for _ in range(_MAX_DEPTH):
        tree = Source(f"void f() {{ {text}; }}")
        used = next(((n, c) for n, c in calls(tree.root) if n in macros), None)
        if used is None:
            break
        name, call = used
        macro = macros[name]
        given = [f"({text_of(argument)})" for argument in arguments(call)]
        body = _substitute(macro.body, dict(zip(macro.parameters, given, strict=False)))
        text = text.replace(text_of(call), f"({body})", 1)
    tree = Source(f"void f() {{ {text}; }}")
    statement = next(walk(tree.root, "expression_statement"))
    return statement.named_children[0]


def _substitute(body: str, values: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), body)
