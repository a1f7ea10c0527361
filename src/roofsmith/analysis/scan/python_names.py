"""A Python module's syntax tree, and the full names of what it uses."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from roofsmith.analysis.scan.rules import Remarks


class Module:
    """A parsed module, with what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        imported = tuple(_imported(tree))
        self.names = dict(imported)
        self._meanings = frozenset(imported)

    def dotted(self, node: ast.AST) -> str | None:
        """The full dotted name of an expression, such as `torch.nn.functional.gelu` for `F.gelu`.

        None for what isn't a chain of attributes that begins with a name.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.names.get(node.id, node.id), *reversed(parts)])

    def meanings_of(self, node: ast.AST) -> frozenset[str]:
        """The full dotted names that an expression may have: a name can be imported twice."""
        name, root = self.dotted(node), node
        while isinstance(root, ast.Attribute):
            root = root.value
        if name is None or not isinstance(root, ast.Name):
            return frozenset()
        rest = name.removeprefix(self.names.get(root.id, root.id))
        meant = [full for local, full in self._meanings if local == root.id]
        return frozenset(full + rest for full in meant or [root.id])

    def is_imported(self, node: ast.AST) -> bool:
        """Whether an expression begins with an imported name."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names

    @property
    def own(self) -> frozenset[str]:
        """Names of its functions and classes, wherever they are defined."""
        kinds = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
        return frozenset(node.name for node in ast.walk(self.tree) if isinstance(node, kinds))


def parsed(text: str, found: Remarks) -> Module | None:
    """The module, or a remark that says why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Module(ast.parse(text))
    except SyntaxError as error:
        found.add("unreadable", error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        found.add("unreadable", 1, type(error).__name__)
    return None


def uses(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names that are imported or used, with their lines."""
    own = module.own
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, (ast.Attribute, ast.Name)) and not _is_stored_name(node):
            name = module.dotted(node)
            if name is not None and (module.is_imported(node) or _is_builtin(name, own)):
                yield name, node.lineno


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local names and the dotted ones they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _is_stored_name(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_builtin(name: str, own: frozenset[str]) -> bool:
    return "." not in name and name not in own
