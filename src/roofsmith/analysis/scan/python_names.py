"""A Python module's syntax tree, and the full names of what it uses."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from roofsmith.analysis.scan.rules import Remarks, matches

M = TypeVar("M")


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
        name, root = self.dotted(node), root_of(node)
        if name is None:
            return frozenset()
        rest = name.removeprefix(self.names.get(root, root))
        meant = [full for local, full in self._meanings if local == root]
        return frozenset(full + rest for full in meant or [root])

    def is_imported(self, node: ast.AST) -> bool:
        """Whether an expression begins with an imported name."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names

    def stands_for_import(self, node: ast.AST) -> bool:
        """Whether a chain of attributes is what was imported, and nothing put in its place."""
        name = self.dotted(node)
        if name is None or not self.is_imported(node) or self.is_patched(name):
            return False
        root, scope = root_of(node), self.scope_of(node)
        while root not in self._bindings.get(id(scope), ()):
            if scope is self.tree:
                return True
            scope = self.scope_of(scope)
        return False

    def is_patched(self, name: str) -> bool:
        """Whether the module puts something of its own where a full name leads."""
        return any(matches(name, patched) for patched in self._patched)

    @cached_property
    def parents(self) -> dict[int, ast.AST]:
        """What each node is a part of, by the node's id."""
        nodes = ast.walk(self.tree)
        return {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}

    @property
    def rebound(self) -> frozenset[str]:
        """Names of parameters, and of whatever is assigned anywhere."""
        return frozenset().union(*self._bindings.values())

    @cached_property
    def _bindings(self) -> dict[int, set[str]]:
        """Names that get a value, by the id of the function, class or module where they do.

        None doesn't count: it stands for a module that isn't installed.
        """
        missing = {
            id(target)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and is_none(node.value)
            for target in node.targets
        }
        bound: dict[int, set[str]] = {}
        for node in ast.walk(self.tree):
            if id(node) not in missing and (name := bound_by(node)) is not None:
                bound.setdefault(id(self.scope_of(node)), set()).add(name)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                bound.setdefault(id(self.tree), set()).update(node.names)
        return bound

    def scope_of(self, node: ast.AST) -> ast.AST:
        """The function, class or module that a node is in."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
        node = self.parents[id(node)]
        while not isinstance(node, kinds):
            node = self.parents[id(node)]
        return node

    @cached_property
    def _patched(self) -> frozenset[str]:
        """Full names of attributes of imported things that are assigned."""
        return frozenset(
            name
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and self.is_imported(node)
            for name in self.meanings_of(node)
        )

    @property
    def own(self) -> frozenset[str]:
        """Names of its functions and classes, wherever they are defined."""
        return frozenset(self.definitions)

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Its functions and classes by name."""
        found: dict[str, list[ast.stmt]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, []).append(node)
        return found


def root_of(node: ast.AST) -> str:
    """The name that a chain of attributes begins with, or nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def parsed(text: str, found: Remarks, kind: Callable[[ast.Module], M]) -> M | None:
    """The module, or a remark that says why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(ast.parse(text))
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


def bound_by(node: ast.AST) -> str | None:
    """The name that a parameter, an assignment or a pattern gives something."""
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.MatchMapping):
        return node.rest
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name
    return None


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_stored_name(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_builtin(name: str, own: frozenset[str]) -> bool:
    return "." not in name and name not in own
