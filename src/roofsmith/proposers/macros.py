"""Function-like macros of a kernel file, for reading what an expression computes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from roofsmith.proposers.source import Source, arguments, calls, text_of, walk

_MAX_DEPTH = 4


def read_macros(source: Source) -> dict[str, tuple[tuple[str, ...], str]]:
    """Function-like macros of the file: name to parameters and body."""
    found = {}
    for node in walk(source.root, "preproc_function_def"):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        listed = node.child_by_field_name("parameters")
        if name is not None and value is not None and listed is not None:
            names = tuple(text_of(parameter) for parameter in listed.named_children)
            found[text_of(name)] = (names, text_of(value).replace("\\\n", " ").strip())
    return found


def expand(node: Node, macros: Mapping[str, tuple[tuple[str, ...], str]]) -> Node:
    """The expression with calls of the file's macros replaced, as a tree of its own."""
    text = text_of(node)
    for _ in range(_MAX_DEPTH):
        tree = Source(f"void f() {{ {text}; }}")
        used = next(((n, c) for n, c in calls(tree.root) if n in macros), None)
        if used is None:
            break
        name, call = used
        names, body = macros[name]
        given = [f"({text_of(argument)})" for argument in arguments(call)]
        body = _substitute(body, dict(zip(names, given, strict=False)))
        text = text.replace(text_of(call), f"({body})", 1)
    tree = Source(f"void f() {{ {text}; }}")
    statement = next(walk(tree.root, "expression_statement"))
    return statement.named_children[0]


def _substitute(body: str, values: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), body)
