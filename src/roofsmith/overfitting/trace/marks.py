"""Marks in Python modules where something kept is looked up and where it is stored."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import FileFinder, SourceFileLoader
from types import CodeType
from typing import Any

MARK = "__roofsmith_mark__"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


Site = tuple[int, dict[str, Any]]
"""A number, and the lines `looked_up` and `stored`."""


def compiler(sites: Mapping[str, Sequence[Site]]) -> Callable[[bytes, str], CodeType]:
    """Compiles modules, with marks in those that have sites by their path."""

    def compiled(source: bytes, path: str) -> CodeType:
        if path not in sites:
            return compile(source, path, "exec", dont_inherit=True)
        return compile(marked(source.decode(), path, sites[path]), path, "exec", dont_inherit=True)

    return compiled


def mark_imports(root: str, compiled: Callable[[bytes, str], CodeType]) -> None:
    """Have modules below a folder found there first, and compiled so when they are imported."""

    class Loader(SourceFileLoader):
        """Never looks at what was compiled before."""

        def get_code(self, fullname: str) -> CodeType:
            path = self.get_filename(fullname)
            return compiled(self.get_data(path), path)

    def below(path: str) -> FileFinder:
        if path != root and not path.startswith(f"{root}/"):
            raise ImportError(path)
        return FileFinder(path, (Loader, [".py"]))

    sys.path_hooks.insert(0, below)
    sys.path_importer_cache.clear()
    sys.path.insert(0, root)


def marked(text: str, path: str, sites: Sequence[Site]) -> ast.Module:
    """The module's tree, with a call of `MARK` in front of every line of the sites.

    Lines keep their numbers, so that what reads a function's source by them still finds it.
    """
    tree = ast.parse(text, path)
    marks: dict[int, list[tuple[int, str]]] = {}
    for number, site in sites:
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
