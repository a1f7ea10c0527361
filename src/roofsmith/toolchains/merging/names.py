"""Names that a C or C++ file gives to things at its outermost level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.domain.kernel import Candidate
from roofsmith.toolchains.grammar import descendants, has_c_linkage, parse, storage, text_of
from roofsmith.toolchains.preprocess import preprocess

_TAGGED = ("struct_specifier", "union_specifier", "enum_specifier")
_NAMES = ("identifier", "type_identifier", "primitive_type")
_KEYWORDS = frozenset(("bool", "char", "double", "float", "int", "long", "short", "void"))
"""What a declaration that the grammar misread may seem to name."""


@dataclass(frozen=True, slots=True)
class FileScope:
    """What one preprocessed file defines."""

    names: tuple[str, ...]
    """Everything that two files in one can't both be called, in order."""
    c_names: tuple[str, ...]
    """Functions and variables that it defines with C linkage."""
    entry_parameters: str
    """The entry's parameter list as written, brackets included; empty if it isn't defined."""
    reopens_std: bool
    """Whether it adds to namespace `std`."""


def file_scope(candidate: Candidate) -> FileScope:
    """Read the kernel file of a candidate whose own includes are inlined."""
    cpp = candidate.language != "c"
    text = preprocess(candidate).text
    root = parse(text, cpp=cpp).root_node
    nodes = list(descendants(root, bodies=False))
    functions = [node for node in nodes if node.type == "function_definition"]
    names = [name for node in nodes for name in _names(node)]
    names += _defined_externs(nodes)
    return FileScope(
        names=tuple(dict.fromkeys(name for name in names if name and name not in _KEYWORDS)),
        c_names=tuple(
            dict.fromkeys(
                (
                    *(_declared(f) for f in functions if not cpp or _in_c(f, nodes)),
                    *(name for node in nodes for name in _c_variables(node)),
                )
            )
        ),
        entry_parameters=next(
            (_parameters(f) for f in functions if _declared(f) == candidate.entry), ""
        ),
        reopens_std=any(map(_is_foreign, nodes)),
    )


def _names(node: Node) -> Iterator[str]:
    match node.type:
        case "function_definition":
            yield _declared(node)
        case "declaration" if "extern" not in storage(node):
            for declarator in node.children_by_field_name("declarator"):
                if not _is_function(declarator) or "static" in storage(node):
                    yield _name_in(declarator)
        case "type_definition":
            for declarator in node.children_by_field_name("declarator"):
                yield _name_in(declarator)
        case "enumerator" | "namespace_definition":
            yield text_of(node.child_by_field_name("name"))
        case kind if kind in _TAGGED and node.child_by_field_name("body") is not None:
            yield text_of(node.child_by_field_name("name"))
        case _:
            return


def _defined_externs(nodes: list[Node]) -> list[str]:
    """Names that are declared `extern` and defined at once."""
    return [
        _name_in(declarator)
        for node in nodes
        if node.type == "declaration" and "extern" in storage(node)
        for declarator in node.children_by_field_name("declarator")
        if declarator.type == "init_declarator"
    ]


def _declared(node: Node) -> str:
    """The name of what a definition declares."""
    return _name_in(node.child_by_field_name("declarator"))


def _name_in(declarator: Node | None) -> str:
    while declarator is not None and declarator.type not in _NAMES:
        inner = declarator.child_by_field_name("declarator")
        if inner is None:  # brackets, pointers with attributes: the name is further down
            inner = next((c for c in declarator.named_children if _declares(c)), None)
        declarator = inner
    return text_of(declarator)


def _declares(node: Node) -> bool:
    return node.type in _NAMES or node.type.endswith("_declarator")


def _is_function(declarator: Node) -> bool:
    node: Node | None = declarator
    while node is not None and node.type in ("pointer_declarator", "attributed_declarator"):
        node = node.child_by_field_name("declarator")
    return node is not None and node.type == "function_declarator"


def _in_c(function: Node, nodes: list[Node]) -> bool:
    """Whether a function has C linkage: here, or where it was declared before."""
    name = _declared(function)
    places = [function]
    places += [
        node
        for node in nodes
        if node.type == "declaration"
        and any(_name_in(d) == name for d in node.children_by_field_name("declarator"))
    ]
    return any(has_c_linkage(place) for place in places)


def _c_variables(node: Node) -> Iterator[str]:
    """Variables that a declaration defines with C linkage."""
    if node.type != "declaration" or "extern" in storage(node) or not has_c_linkage(node):
        return
    for declarator in node.children_by_field_name("declarator"):
        if not _is_function(declarator):
            yield _name_in(declarator)


def _is_foreign(node: Node) -> bool:
    """Whether it adds to namespace std: as a namespace, or `template <> struct std::hash<Key>`."""
    name = text_of(node.child_by_field_name("name"))
    if node.type == "namespace_definition":
        return name == "std"
    is_type = node.type in (*_TAGGED, "class_specifier")
    is_defined = is_type and node.child_by_field_name("body") is not None
    return is_defined and name.removeprefix("::").startswith("std::")


def _parameters(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    return " ".join(text_of(listed).split())
