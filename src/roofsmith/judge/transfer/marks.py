"""Marks in a Python module where something kept is looked up and where it is stored."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

MARK = "__roofsmith_mark__"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def marked(text: str, path: str, sites: Sequence[dict[str, Any]]) -> ast.Module:
    """The module's tree, with a call of `MARK` in front of every line of the sites.

    Lines keep their numbers, so that what reads a function's source by them still finds it.

    Args:
        text: of the module.
        path: of the module, for messages.
        sites: each with the lines `looked_up` and `stored`; known by its place in the sequence.
    """
    tree = ast.parse(text, path)
    marks: dict[int, list[tuple[int, str]]] = {}
    for number, site in enumerate(sites):
        for kind in ("looked_up", "stored"):
            for line in site[kind]:
                marks.setdefault(line, []).append((number, kind))
    _Marker(marks).visit(tree)
    return ast.fix_missing_locations(tree)


class _Marker(ast.NodeTransformer):
    def __init__(self, marks: dict[int, list[tuple[int, str]]]) -> None:
        self._marks = marks
        self._depth = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        self._depth += is_function
        super().generic_visit(node)
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, self._with_marks(body))
        self._depth -= is_function
        return node

    def _with_marks(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            if not isinstance(statement, _DEFINITIONS):
                for number, kind in self._marks.get(statement.lineno, ()):
                    call = ast.Call(
                        ast.Name(MARK, ast.Load()), [ast.Constant(number), ast.Constant(kind)], []
                    )
                    made.append(ast.copy_location(ast.Expr(call), statement))
            made.append(statement)
        return made
