"""Syntax trees of C, C++, CUDA and HIP files: parsed, walked, read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import nodes_of, root_of

_LAUNCH = re.compile(r"<<<[^;]{0,1000}?>>>")
_WHERE = re.compile(r"\b__(device|constant|managed|host|global|forceinline|noinline)__\b")
"""Where a variable lies or a function runs, which the grammar takes for a type."""
_SHARED = re.compile(r"\b((static|extern)\s+)?__shared__\b")
_THREAD = re.compile(r"\b_Thread_local\b")
"""C's own word, in front of which the grammar knows no other."""
_OUTLIVING = frozenset(("static", "thread_local", "__thread", "extern"))


def parse(text: str, *, plain_c: bool) -> Node:
    """The root of a file, without what CUDA adds to the language: a launch reads as a call.

    Memory that a block shares ends with it: it reads as a constant, which keeps nothing.
    """
    plain = _THREAD.sub("thread_local ", _LAUNCH.sub(_blank, text))
    plain = _SHARED.sub(lambda found: "const" + _blank(found)[5:], _WHERE.sub(_blank, plain))
    return root_of(plain, plain_c=plain_c)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def nodes(root: Node | None) -> Iterator[Node]:
    """A node and all below it, in the order of the text; none of nothing."""
    return nodes_of(root) if root is not None else iter(())


def written(node: Node | None) -> str:
    """A node's text, with single spaces."""
    return " ".join((node.text or b"").decode(errors="replace").split()) if node is not None else ""


def outlives_calls(declaration: Node) -> bool:
    """Whether what a function declares is still there in its next call.

    What says so may stand behind an alignment or a qualifier.
    """
    return any(
        child.type == "storage_class_specifier" and written(child) in _OUTLIVING
        for child in declaration.children
    )


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
    for node in nodes(function):
        if node.type == "parameter_list":
            return [c for c in node.named_children if "parameter_declaration" in c.type]
        if node.type == "compound_statement":
            break
    return []


def first_name(node: Node | None) -> str:
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("argument") or (
            node.named_children[0] if node.named_children else None
        )
    return written(node)


def code(root: Node) -> str:
    """Its words, without comments and layout."""
    leaves = (n for n in nodes(root) if not n.children and n.type != "comment")
    return " ".join(written(leaf) for leaf in leaves)
