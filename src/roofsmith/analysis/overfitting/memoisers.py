"""What keeps the results of a Python function: `lru_cache` and its like, by any name."""

from __future__ import annotations

import ast

from roofsmith.analysis.overfitting.python_calls import imports, last_name

MEMOISERS = ("lru_cache", "cache", "cached", "memoize", "memoise", "memoized", "cachedmethod")
_OF_FUNCTIONS = ("lru_cache", "cache")
"""Those that take a function without being called first; `cached` may take a container."""
_BINDERS = ("staticmethod", "classmethod")


class Memoisers:
    """A module's names for what keeps results."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported = dict(imports(tree))
        self._names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and self._makes_one(node.value):
                self._names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.FunctionDef) and self._returns_memoised(node):
                self._names.add(node.name)

    def has(self, function: ast.expr) -> bool:
        """Whether what is called, or what it was made by, is one."""
        return self._named(function.func if isinstance(function, ast.Call) else function) != ""

    def memoised(self, value: ast.expr | None) -> tuple[ast.expr, ast.expr] | None:
        """The memoiser and the function that it is given, in `lru_cache(4)(function)`."""
        while isinstance(value, ast.Call) and last_name(value.func) in _BINDERS and value.args:
            value = value.args[0]
        if not (isinstance(value, ast.Call) and self.has(value.func) and len(value.args) == 1):
            return None
        inner = value.args[0]
        is_called_first = isinstance(value.func, ast.Call)
        if isinstance(inner, ast.Constant):
            return None
        if isinstance(inner, ast.Call) and not is_called_first:
            return (value.func, inner) if self._named(value.func) in _OF_FUNCTIONS else None
        return value.func, inner

    def _named(self, node: ast.expr) -> str:
        """What a memoiser is called where it comes from; empty for anything else."""
        written = last_name(node)
        if isinstance(node, ast.Name):
            if node.id in self._names:
                return _OF_FUNCTIONS[0]
            written = self._imported.get(node.id, node.id).rpartition(".")[2]
        return written if written in MEMOISERS else ""

    def _makes_one(self, value: ast.expr) -> bool:
        """`lru_cache`, `lru_cache(8)` and `partial(lru_cache, maxsize=8)`."""
        if not isinstance(value, ast.Call):
            return self._named(value) in _OF_FUNCTIONS
        if last_name(value.func) == "partial" and value.args:
            return self._named(value.args[0]) != ""
        return self._named(value.func) != "" and self.memoised(value) is None

    def _returns_memoised(self, function: ast.FunctionDef) -> bool:
        """`def memo(f): return lru_cache(8)(f)`."""
        given = {a.arg for a in function.args.args}
        returned = [n.value for n in function.body if isinstance(n, ast.Return)]
        found = self.memoised(returned[-1]) if returned else None
        return found is not None and isinstance(found[1], ast.Name) and found[1].id in given
