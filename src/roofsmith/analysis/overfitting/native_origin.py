"""The statements of a C, C++, CUDA or HIP file that make what is kept, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_tree as tree

_BRANCHES = ("if_statement", "switch_statement", "catch_clause")
_NAMES = ("identifier", "field_identifier")
_STATEMENTS = ("declaration", "expression_statement")


class NativeOrigin:
    """What the statements that store in some lines take with them."""

    def __init__(self, files: Mapping[str, Node]) -> None:
        """Args: files: syntax trees of all of a candidate, by path."""
        self._files = files
        self._functions = {
            tree.function_name(f).rpartition("::")[2]: f
            for root in files.values()
            for f in tree.functions(root)
        }
        self._macros = [
            n for r in files.values() for n in tree.nodes(r) if n.type.startswith("preproc_")
            and n.type.endswith("def")
        ]  # fmt: skip
        self._found: dict[tuple[int, int, str], None] = {}
        self._taken: set[str] = set()

    def of(self, path: str, lines: Iterable[int]) -> tuple[str, ...]:
        """Texts of these statements, sorted."""
        for line in lines:
            inside = [f for f in tree.functions(self._files[path]) if _covers(f, line)]
            if inside:
                self._slice(inside[-1], _stored_by(inside[-1], line))
            else:  # at the file's own level
                self._take(*(n for n in self._files[path].children if _covers(n, line)))
        return tuple(sorted(text for _, _, text in self._found))

    def _slice(self, function: Node, chosen: Node) -> None:
        """A node of a function, and what comes before and binds or fills what is used there."""
        names = _names(chosen)
        self._take(chosen)
        before = [
            n
            for n in tree.nodes(function)
            if n.type in _STATEMENTS and n.end_byte <= chosen.start_byte
        ]
        for node in reversed(before):
            changed = tree.changed_names(node) | _declared(node) | _given(node)
            if changed & names:
                self._take(node)
                names |= _names(node)
        given = {
            tree.name_of(p.child_by_field_name("declarator")) for p in tree.parameters(function)
        }
        if given & names:
            self._from_callers(tree.function_name(function))

    def _from_callers(self, name: str) -> None:
        """What a function is given."""
        for root in self._files.values():
            for function in tree.functions(root):
                for node in tree.nodes(function):
                    if node.type != "call_expression" or _place(node) in self._found:
                        continue
                    if tree.written(node.child_by_field_name("function")) == name:
                        self._slice(function, node)

    def _take(self, *nodes: Node) -> None:
        waiting = list(nodes)
        while waiting:
            node = waiting.pop(0)
            if _place(node) in self._found:
                continue
            self._found[_place(node)] = None
            names = _names(node) - self._taken
            self._taken |= names
            waiting += (f for name, f in self._functions.items() if name in names)
            waiting += (
                m for m in self._macros if tree.written(m.child_by_field_name("name")) in names
            )


def _stored_by(function: Node, line: int) -> Node:
    """The innermost branch around a line; without one, its statement."""
    around = [n for n in tree.nodes(function) if _covers(n, line)]
    branches = [n for n in around if n.type in _BRANCHES]
    statements = [n for n in around if n.type in _STATEMENTS]
    return (branches or statements or [function])[-1]


def _place(node: Node) -> tuple[int, int, str]:
    return node.start_byte, node.end_byte, _text(node)


def _covers(node: Node, line: int) -> bool:
    return bool(tree.line_of(node) <= line <= int(node.end_point[0]) + 1)


def _names(node: Node) -> set[str]:
    return {tree.written(n) for n in tree.nodes(node) if n.type in _NAMES}


def _declared(node: Node) -> set[str]:
    if node.type != "declaration":
        return set()
    return {tree.name_of(n) for n in node.named_children if "declarator" in n.type}


def _given(node: Node) -> set[str]:
    """What the calls of a statement are given, and may write to."""
    calls = (n for n in tree.nodes(node) if n.type == "call_expression")
    arguments = (n.child_by_field_name("arguments") for n in calls)
    return set[str]().union(*(_names(n) for n in arguments if n is not None))


def _text(node: Node) -> str:
    """Without comments and layout."""
    words = (n for n in tree.nodes(node) if not n.children and n.type != "comment")
    return " ".join((n.text or b"").decode(errors="replace") for n in words)
