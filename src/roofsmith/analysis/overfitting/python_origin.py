"""The statements of a Python module that make what is kept, as text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from roofsmith.analysis.overfitting.places import Function, parameters
from roofsmith.analysis.overfitting.python_calls import last_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


class PythonOrigin:
    """What the statements that store in some lines take with them."""

    def __init__(self, files: Mapping[str, ast.Module]) -> None:
        """Args: files: all of a candidate, by path."""
        self._files = files
        nodes = [node for module in files.values() for node in ast.walk(module)]
        self._functions = [n for n in nodes if isinstance(n, (*_FUNCTIONS, ast.ClassDef))]
        self._tops = [
            node for n in nodes if isinstance(n, (ast.Module, ast.ClassDef)) for node in n.body
        ]
        self._found: dict[int, str] = {}

    def of(self, path: str, lines: Iterable[int]) -> tuple[str, ...]:
        """Texts of these statements, sorted."""
        for line in lines:
            top = next((n for n in self._tops if _covers(n, line) and _is_function(n)), None)
            if top is None or line <= _head(top):  # memoised as a whole
                self._take(*([top] if top is not None else self._files[path].body))
            else:
                self._slice(top, _stored_by(top, line), line)
        return tuple(sorted(self._found.values()))

    def _slice(self, top: ast.AST, start: Sequence[ast.AST], line: int) -> None:
        """Statements, and those before a line that bind or fill what is used in them."""
        names = set[str]().union(*map(_used, start))
        self._take(*start)
        local = _bound_below(top)
        for node in sorted(_simple_before(top, line), key=_first, reverse=True):
            is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            if (_names(node) & local if is_call else _binds(node)) & names:
                self._take(node)
                names |= _used(node)
        for function in (n for n in ast.walk(top) if _is_function(n) and _covers(n, line)):
            if isinstance(function, Function) and (_arguments(function) & names):
                self._from_callers(function)

    def _from_callers(self, function: Function) -> None:
        """What a function is given, and what it is a decorator of."""
        for top in self._tops:
            for node in ast.walk(top):
                if isinstance(node, ast.Call) and last_name(node.func) == function.name:
                    if id(node) not in self._found:
                        self._slice(top, [node], node.lineno)
                elif isinstance(node, _FUNCTIONS):
                    decorators = {name for d in node.decorator_list for name in _names(d)}
                    if function.name in decorators:
                        self._take(node)

    def _take(self, *nodes: ast.AST) -> None:
        waiting = list(nodes)
        while waiting:
            node = waiting.pop(0)
            if id(node) in self._found:
                continue
            self._found[id(node)] = ast.unparse(node)
            used = _used(node)
            called = (f for f in self._functions if f.name in used)
            waiting += (f for f in called if not any(n is node for n in ast.walk(f)))
            waiting += (n for n in self._tops if not _is_function(n) and _binds(n) & used)


def _stored_by(top: ast.AST, line: int) -> list[ast.AST]:
    """The statement of a line, the branch that it is in, and what leads there."""
    around = [n for n in ast.walk(top) if isinstance(n, (ast.stmt, ast.ExceptHandler))]
    around = sorted((n for n in around if _covers(n, line)), key=lambda n: (_first(n), -_last(n)))
    found: list[ast.AST] = [around[-1]]
    branches = [n for n in around if isinstance(n, (ast.If, ast.Try, ast.ExceptHandler))]
    if branches:
        blocks = (getattr(branches[-1], part, []) for part in _PARTS)
        found += next((b for b in blocks if b and _first(b[0]) <= line <= _last(b[-1])), [])
        found += (n.test for n in branches if isinstance(n, ast.If))
    return found


def _simple_before(top: ast.AST, line: int) -> list[ast.AST]:
    """Statements that hold no others, and heads of loops and of `with`, in front of a line."""
    found: list[ast.AST] = []
    for node in ast.walk(top):
        if isinstance(node, (ast.stmt, ast.comprehension)) and not hasattr(node, "body"):
            found += [node] if _last(node) < line else []
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            found += (n for n in node.items if n.optional_vars and _first(node) <= line)
    return found


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, _FUNCTIONS)


def _arguments(function: Function) -> set[str]:
    given = function.args
    return {*parameters(function), *(a.arg for a in (given.vararg, given.kwarg) if a is not None)}


def _covers(node: ast.AST, line: int) -> bool:
    return _first(node) <= line <= _last(node)


def _first(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min(int(getattr(n, "lineno", 0)) for n in (node, *decorators))


def _last(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", 0) or 0)


def _head(function: ast.AST) -> int:
    """The line of a function's name."""
    return int(getattr(function, "lineno", 0))


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _used(node: ast.AST) -> set[str]:
    """Names and attributes below."""
    return _names(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _bound_below(top: ast.AST) -> set[str]:
    given = {n.arg for n in ast.walk(top) if isinstance(n, ast.arg)}
    return given | {n.id for n in ast.walk(top) if isinstance(n, ast.Name) and _is_stored(n)}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _binds(node: ast.AST) -> set[str]:
    """What an assignment changes, also an element or an attribute of it."""
    found: set[str] = set()
    for target in filter(_is_stored, ast.walk(node)):
        inner: ast.AST = target
        while isinstance(inner, (ast.Subscript, ast.Starred)):
            inner = inner.value
        if isinstance(inner, (ast.Name, ast.Attribute)):
            found.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    return found
