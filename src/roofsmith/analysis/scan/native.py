"""What a C, C++, CUDA or HIP file does, read from its syntax tree."""

from __future__ import annotations

import re

from tree_sitter import Node

from roofsmith.analysis.scan.rules import Remarks, carried, meanings
from roofsmith.analysis.scan.syntax import (
    NAMES,
    is_asm,
    is_outermost,
    is_too_deep,
    line_of,
    nodes_of,
    root_of,
    text_of,
)

_STATIC = frozenset(("static", "thread_local"))
_FIXED = frozenset(("const", "constexpr", "extern", "__constant__", "__shared__"))
_POINTER_KEY = re.compile(r"(map|set)<(std::(tuple|pair)<)?[^<>]*\*")
_WHOLE_FILE = ("translation_unit", "declaration_list")
_READ = frozenset((
    *NAMES, "string_literal", "raw_string_literal", "function_definition", "template_type",
    "declaration", "update_expression",
))  # fmt: skip
_INNER = re.compile(r"(static|__global__|__device__)\b")


def scan_native(path: str, text: str, *, plain_c: bool = False) -> Remarks:
    found = Remarks(path)
    root = root_of(text, plain_c=plain_c)
    if is_too_deep(root):
        found.add("unreadable", 1, "nested too deeply")
        return found
    nodes = tuple(nodes_of(root))
    kept = {name for node in nodes for name in _kept(node)}
    for node in nodes:
        for remark, detail in _said(node, kept):
            found.add(remark, line_of(node), detail)
    return found


def _said(node: Node, kept: set[str]) -> list[tuple[str, str]]:
    """Remarks that a node leads to, each with what was found."""
    if is_asm(node):
        strings = (part for part in nodes_of(node) if part.type.endswith("string_content"))
        words = [word for part in strings for word in re.findall(r"\w+", text_of(part))]
        return [(remark, word) for word in words for remark in meanings(word, "assembly")]
    if node.type not in _READ:  # what holds much, at any depth
        return []
    text = text_of(node)
    if node.type in NAMES:
        return [(r, text) for r in meanings(text, "native")] if is_outermost(node) else []
    if node.type in ("string_literal", "raw_string_literal"):
        return list(carried(text))
    if node.type == "function_definition":
        name = "" if _INNER.match(text.lstrip()) else _declared(node)
        return [(remark, name) for remark in meanings(name, "defines")]
    if node.type == "template_type":
        is_key = _POINTER_KEY.match("".join(text.split()))
        return [("keyed_by_address", text)] if is_key else []
    if node.type == "declaration":
        return [("state", name) for name in _kept(node)]
    counted = node.child_by_field_name("argument")
    return [("counts_calls", text)] if counted is not None and text_of(counted) in kept else []


def _kept(node: Node) -> list[str]:
    """Variables of a declaration that live as long as the program does."""
    if node.type != "declaration" or node.has_error or node.parent is None:
        return []
    said = {text_of(part) for part in node.children}
    if said & _FIXED or not (said & _STATIC or node.parent.type in _WHOLE_FILE):
        return []
    declarators = node.children_by_field_name("declarator")
    return [name for part in declarators if (name := _variable(part))]


def _variable(declarator: Node) -> str:
    """The name that is declared; none of a function."""
    inner: Node | None = declarator
    while inner is not None and inner.type not in ("identifier", "function_declarator"):
        inner = inner.child_by_field_name("declarator")
    return text_of(inner) if inner is not None and inner.type == "identifier" else ""


def _declared(function: Node) -> str:
    inner = function.child_by_field_name("declarator")
    while inner is not None and inner.type != "identifier":
        inner = inner.child_by_field_name("declarator")
    return "" if inner is None else text_of(inner)
