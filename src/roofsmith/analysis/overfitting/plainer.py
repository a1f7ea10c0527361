"""Python written in a plainer way, with the lines that it had: fewer forms have to be known."""

from __future__ import annotations

import ast
from copy import deepcopy

from roofsmith.analysis.overfitting.python_calls import last_name

MEMOISERS = ("lru_cache", "cache", "cached", "memoize", "memoise", "memoized", "cachedmethod")
_CONTAINERS = ("dict", "list", "set", "OrderedDict")


def plainer(tree: ast.Module) -> ast.Module:
    """The same program, with functions that are assigned defined, and methods called as such.

    `half = lambda x: ...` and `half = lru_cache(8)(other)` become definitions;
    `operator.setitem(d, k, v)` and `dict.setdefault(d, k, v)` become methods of `d`.
    """
    functions = {f.name: f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
    changed = _Plainer(functions).visit(deepcopy(tree))
    assert isinstance(changed, ast.Module)  # only statements and calls are replaced
    return ast.fix_missing_locations(changed)


class _Plainer(ast.NodeTransformer):
    def __init__(self, functions: dict[str, ast.FunctionDef]) -> None:
        self._functions = functions

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        made = self._defined(node.targets[0].id, node.value)
        return ast.copy_location(made, node) if made is not None else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
            return node
        owner, name = node.func.value.id, node.func.attr
        if (owner, name) == ("operator", "setitem"):
            name = "__setitem__"
        elif owner not in _CONTAINERS:
            return node
        if not node.args or isinstance(node.args[0], ast.Starred):
            return node
        method = ast.Attribute(node.args[0], name, ast.Load())
        return ast.copy_location(ast.Call(method, node.args[1:], node.keywords), node)

    def _defined(self, name: str, value: ast.expr) -> ast.FunctionDef | None:
        """The function that an assignment defines."""
        if isinstance(value, ast.Lambda):
            return _function(name, value.args, value.body, [])
        if not (isinstance(value, ast.Call) and _is_memoiser(value.func) and len(value.args) == 1):
            return None
        inner = value.args[0]
        if isinstance(inner, ast.Lambda):
            return _function(name, inner.args, inner.body, [value.func])
        known = self._functions.get(inner.id) if isinstance(inner, ast.Name) else None
        if known is None:
            return None
        given = (*known.args.posonlyargs, *known.args.args)
        call = ast.Call(inner, [ast.Name(a.arg, ast.Load()) for a in given], [])
        return _function(name, deepcopy(known.args), call, [value.func])


def _function(
    name: str, given: ast.arguments, result: ast.expr, decorators: list[ast.expr]
) -> ast.FunctionDef:
    body: list[ast.stmt] = [ast.Return(result)]
    made = ast.FunctionDef(name, given, body, decorators, None, None)
    return ast.copy_location(made, result)


def _is_memoiser(function: ast.expr) -> bool:
    inner = function.func if isinstance(function, ast.Call) else function
    return last_name(inner) in MEMOISERS
