"""A Python module's syntax tree, and the full names of what it uses."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property

from roofsmith.analysis.scan.rules import Remarks, matches

FOLLOWED = 4
"""Steps from an expression to what gives it its value. Chosen."""


class Module:
    """A parsed module, with what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        imported = tuple(_imported(tree))
        self.names = dict(imported)
        self._meanings = frozenset(imported)
        self._makers: dict[tuple[int, int], frozenset[str]] = {}

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
        root, scope = root_of(node), self._scope_of(node)
        while root not in self._bindings.get(id(scope), ()):
            if scope is self.tree:
                return True
            scope = self._scope_of(scope)
        return False

    def is_patched(self, name: str) -> bool:
        """Whether the module puts something of its own where a full name leads."""
        return any(matches(name, patched) for patched in self._patched)

    def makers_of(self, node: ast.expr | None, depth: int = FOLLOWED) -> frozenset[str]:
        """Full names of the functions and classes that give an expression its value.

        Names and attributes of `self` are followed to all that they are ever given, calls of the
        module's own functions to what these return.

        Returns:
            Nothing if it may be anything else as well, or that isn't seen within `FOLLOWED` steps.
        """
        known = self._makers.get((id(node), depth))
        if known is None:
            known = self._makers[id(node), depth] = self._made_by(node, depth)
        return known

    def _made_by(self, node: ast.expr | None, depth: int) -> frozenset[str]:
        values: list[ast.expr] | None = None
        if isinstance(node, ast.Call) and depth:
            if self.stands_for_import(node.func):
                return frozenset({self.dotted(node.func) or ""})
            if isinstance(node.func, ast.Name) and node.func.id in self._classes:
                return frozenset({node.func.id})
            values = self._returned_by(node.func)
        elif isinstance(node, ast.Name) and depth:
            values = self._values.get(node.id)
        elif isinstance(node, ast.Attribute) and root_of(node) == "self" and depth:
            values = self._values.get(f"self.{node.attr}")
        made: set[str] = set()
        for value in values or ():
            if not _is_none(value):
                makers = self.makers_of(value, depth - 1)
                if not makers:
                    return frozenset()
                made |= makers
        return frozenset(made)

    def _returned_by(self, function: ast.expr) -> list[ast.expr] | None:
        """What a function of the module's own returns; None if it isn't known."""
        name = function.id if isinstance(function, ast.Name) else ""
        found = self._definitions.get(name, [])
        if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or name in self.rebound:
            return None
        nodes = [node for node in ast.walk(found[0]) if isinstance(node, (ast.Return, ast.Yield))]
        returned = [node.value for node in nodes if isinstance(node, ast.Return)]
        values = [value for value in returned if value is not None]
        return values if len(values) == len(nodes) else None

    @cached_property
    def _values(self) -> dict[str, list[ast.expr]]:
        """What names and attributes of `self` are given, where they get all of it one by one.

        An attribute whose name also stands in a string may be given more, as by setattr.
        """
        given: dict[str, list[ast.expr]] = {}
        plain: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if node.value is not None and (name := _spelled(target)) is not None:
                        plain.add(id(target))
                        given.setdefault(name, []).append(node.value)
        texts = {
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        unknown = {f"self.{text}" for text in texts} | {f"self.{name}" for name in self.own}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                is_given = isinstance(node.ctx, ast.Store)
                if is_given and id(node) not in plain:
                    unknown.add(f"self.{node.attr}")
            elif (name := _bound(node)) is not None and id(node) not in plain:
                unknown.update((name, f"self.{name}"))
        return {name: values for name, values in given.items() if name not in unknown}

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
            if isinstance(node, ast.Assign) and _is_none(node.value)
            for target in node.targets
        }
        bound: dict[int, set[str]] = {}
        for node in ast.walk(self.tree):
            if id(node) not in missing and (name := _bound(node)) is not None:
                bound.setdefault(id(self._scope_of(node)), set()).add(name)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                bound.setdefault(id(self.tree), set()).update(node.names)
        return bound

    def _scope_of(self, node: ast.AST) -> ast.AST:
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
        return frozenset(self._definitions)

    @cached_property
    def _definitions(self) -> dict[str, list[ast.stmt]]:
        """Its functions and classes by name."""
        found: dict[str, list[ast.stmt]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, []).append(node)
        return found

    def classes_with(self, method: str) -> frozenset[str]:
        """Its classes that define a method of this name."""
        return self._methods.get(method, frozenset())

    @cached_property
    def _methods(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for owner in ast.walk(self.tree):
            if isinstance(owner, ast.ClassDef):
                for part in owner.body:
                    if isinstance(part, ast.FunctionDef):
                        found.setdefault(part.name, set()).add(owner.name)
        return {name: frozenset(classes) for name, classes in found.items()}

    @cached_property
    def _classes(self) -> frozenset[str]:
        """Names that stand for one class of its own, and for nothing else."""
        named = {
            name
            for name, found in self._definitions.items()
            if len(found) == 1 and isinstance(found[0], ast.ClassDef)
        }
        return frozenset(named - self.rebound - set(self.names))


def root_of(node: ast.AST) -> str:
    """The name that a chain of attributes begins with, or nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def parsed(text: str, found: Remarks, *, as_imported: bool = False) -> Module | None:
    """The module, or a remark that says why there is none.

    Args:
        text: of the file.
        found: gets the remark.
        as_imported: leave out what it does when it is the program itself.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            return Module(without_main(tree) if as_imported else tree)
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


def _bound(node: ast.AST) -> str | None:
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


def _spelled(target: ast.expr) -> str | None:
    """A name, or an attribute of whatever object; None for what takes a value apart."""
    if isinstance(target, ast.Name):
        return target.id
    return f"self.{target.attr}" if isinstance(target, ast.Attribute) else None


def without_main(tree: ast.Module) -> ast.Module:
    """A module as others import it: without what it does when it is the program itself."""
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "__name__"
              and not isinstance(n.ctx, ast.Load)]  # fmt: skip
    if stored:
        return tree
    body: list[ast.stmt] = []
    for node in tree.body:
        is_main = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        body += node.orelse if is_main and isinstance(node, ast.If) else [node]
    return ast.Module(body, tree.type_ignores)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_stored_name(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_builtin(name: str, own: frozenset[str]) -> bool:
    return "." not in name and name not in own
