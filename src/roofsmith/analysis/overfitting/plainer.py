"""Python written in a plainer way, with the lines that it had: fewer forms have to be known."""

from __future__ import annotations

import ast
from copy import deepcopy

from roofsmith.analysis.overfitting.memoisers import MEMOISERS, Memoisers
from roofsmith.analysis.overfitting.python_calls import last_name

_OWN_CLASS = ("type(self)", "self.__class__", "__class__")
_CONTAINERS = ("dict", "list", "set", "OrderedDict")


def plainer(tree: ast.Module) -> ast.Module:
    """The same program, with functions that are assigned defined, and methods called as such.

    `half = lambda x: ...` and `half = lru_cache(8)(other)` become definitions; what is memoised
    under its own name is decorated; decorators that memoise are called `lru_cache`;
    `type(self).x` becomes an attribute of the class by its name;
    `operator.setitem(d, k, v)` and `dict.setdefault(d, k, v)` become methods of `d`.
    """
    changed = _Plainer(deepcopy(tree)).made
    assert isinstance(changed, ast.Module)  # only statements and calls are replaced
    return ast.fix_missing_locations(changed)


class _Plainer(ast.NodeTransformer):
    def __init__(self, tree: ast.Module) -> None:
        self._memoisers = Memoisers(tree)
        self._functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]
        self._given: dict[str, int] = {}
        """How many arguments each function is called with at most."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := last_name(node.func)):
                self._given[name] = max(len(node.args), self._given.get(name, 0))
        self._class = ""
        """Around what is visited."""
        self.made = self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list = [
            _as_memoiser(d) if self._memoisers.has(d) else d for d in node.decorator_list
        ]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        return self._assigned(node, node.targets[0], node.value) if len(node.targets) == 1 else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return self._assigned(node, node.target, node.value)

    def _assigned(self, node: ast.stmt, target: ast.expr, value: ast.expr | None) -> ast.AST:
        memoised = self._memoisers.memoised(value)
        if memoised is not None and (known := self._rebound(target, memoised[1])):
            known.decorator_list.append(_as_memoiser(memoised[0]))
            return ast.copy_location(ast.Pass(), node)
        if not isinstance(target, ast.Name):
            return node
        if isinstance(value, ast.Lambda):
            made = _function(target.id, value.args, value.body, [])
        elif memoised is not None:
            made = self._memoised(target.id, *memoised, node.lineno)
        else:
            return node
        return ast.copy_location(made, node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        around, self._class = self._class, node.name
        self.generic_visit(node)
        self._class = around
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if self._class and ast.unparse(node.value) in _OWN_CLASS:
            node.value = ast.copy_location(ast.Name(self._class, ast.Load()), node.value)
        return node

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

    def _rebound(self, target: ast.expr, inner: ast.expr) -> ast.FunctionDef | None:
        """The function in `f = lru_cache(4)(f)`, or in `Op.f = lru_cache(4)(Op.f)`."""
        name = last_name(inner)
        if isinstance(target, ast.Attribute):
            return next((f for f in self._functions if f.name == name), None)
        is_same = isinstance(inner, ast.Name) and last_name(target) == name
        return self._bound_before(name, inner.lineno) if is_same else None

    def _memoised(
        self, name: str, memoiser: ast.expr, inner: ast.expr, line: int
    ) -> ast.FunctionDef:
        """The function that `name = lru_cache(4)(inner)` defines."""
        decorators = [_as_memoiser(memoiser)]
        if isinstance(inner, ast.Lambda):
            return _function(name, inner.args, inner.body, decorators)
        known = self._bound_before(inner.id, line) if isinstance(inner, ast.Name) else None
        if known is not None:
            given = deepcopy(known.args)
        else:  # as many as it is called with
            numbers = range(self._given.get(name, 0))
            names = [ast.arg(f"argument_{n}") for n in numbers]
            given = ast.arguments([], names, None, [], [], None, [])
        named = [ast.Name(a.arg, ast.Load()) for a in (*given.posonlyargs, *given.args)]
        call = ast.copy_location(ast.Call(inner, list[ast.expr](named), []), inner)
        return _function(name, given, call, decorators)

    def _bound_before(self, name: str, line: int) -> ast.FunctionDef | None:
        """The function that a name stands for in a line."""
        found = [f for f in self._functions if f.name == name and f.lineno < line]
        return max(found, key=lambda f: f.lineno, default=None)


def _as_memoiser(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(MEMOISERS[0], ast.Load()), node)


def _function(
    name: str, given: ast.arguments, result: ast.expr, decorators: list[ast.expr]
) -> ast.FunctionDef:
    body: list[ast.stmt] = [ast.Return(result)]
    made = ast.FunctionDef(name, given, body, decorators, None, None)
    return ast.copy_location(made, result)
