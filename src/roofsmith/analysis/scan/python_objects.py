"""What the expressions of a Python module can be, where that is sure.

Names and attributes are followed to all that they are ever given. What may be anything else as well
counts as anything: here it is told what is certainly no tensor.
"""

from __future__ import annotations

import ast
from functools import cached_property

from roofsmith.analysis.scan.python_names import Module, bound_by, is_none, root_of

_PLAIN_BASES = frozenset((
    "abc.ABC", "dict", "enum.Enum", "enum.IntEnum", "list", "object", "set", "torch.nn.Module",
    "torch.autograd.Function", "typing.NamedTuple",
))  # fmt: skip
"""Calling a class of these gives an object of that class."""
_MAKING = frozenset(("__new__", "__getattr__", "__getattribute__", "__class_getitem__"))
"""Methods by which a class may give other objects, or other methods."""
_TO_CLASSES = frozenset(("__class__", "__func__", "__get__", "__mro__", "mro"))
"""Attributes that lead from an object or a method to what any object may be passed to."""
_SPARE = ("setup", "reference")
"""What the reference's file gives, unless it leaves that to the kernel's."""
_OF_TENSORS = frozenset(("H", "T", "data", "grad", "imag", "mH", "mT", "real"))
"""Attributes of tensors that are tensors."""
FOLLOWED = 8
"""Steps from an expression to what gives it its value. Chosen."""


class Followed(Module):
    """A module as the judge's workers use it: see `_as_used`."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(_as_used(tree))
        self._makers: dict[tuple[int, int], frozenset[str]] = {}

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
            if not is_none(value):
                makers = self.makers_of(value, depth - 1)
                if not makers:
                    return frozenset()
                made |= makers
        return frozenset(made)

    def _returned_by(self, function: ast.expr) -> list[ast.expr] | None:
        """What a function of the module's own returns; None if it isn't known."""
        name = function.id if isinstance(function, ast.Name) else ""
        found = self.definitions.get(name, [])
        if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or name in self.rebound:
            return None
        nodes = [node for node in ast.walk(found[0]) if isinstance(node, (ast.Return, ast.Yield))]
        returned = [node.value for node in nodes if isinstance(node, ast.Return)]
        values = [value for value in returned if value is not None]
        return values if len(values) == len(nodes) else None

    @cached_property
    def _values(self) -> dict[str, list[ast.expr]]:
        """What names and attributes of `self` are given, where they get all of it one by one.

        An attribute whose name also stands in a string or before an argument may be given more, as
        by setattr or in a namespace; tensors have some by themselves.
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
        unknown = {f"self.{name}" for name in (*self.own, *_OF_TENSORS)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                unknown.add(f"self.{node.value}")
            elif isinstance(node, ast.keyword):
                unknown.add(f"self.{node.arg}")
            elif isinstance(node, ast.Attribute):
                is_given = isinstance(node.ctx, ast.Store)
                if is_given and id(node) not in plain:
                    unknown.add(f"self.{node.attr}")
            elif (name := bound_by(node)) is not None and id(node) not in plain:
                unknown.update((name, f"self.{name}"))
        return {name: values for name, values in given.items() if name not in unknown}

    def classes_with(self, method: str) -> frozenset[str]:
        """Its plain classes that define a method of this name: what their calls give is of them."""
        return self._methods.get(method, frozenset())

    def is_self(self, node: ast.expr, classes: frozenset[str]) -> bool:
        """Whether it is what a method of one of these classes is called on, and nothing else.

        Anything can be, once a method is taken from its class.
        """
        function = self.scope_of(node)
        owner = self.parents.get(id(function))
        if not isinstance(function, ast.FunctionDef) or not isinstance(owner, ast.ClassDef):
            return False
        first = function.args.args[0].arg if function.args.args else ""
        is_first = isinstance(node, ast.Name) and node.id == first
        is_bound = owner.name in classes - self._taken and not function.decorator_list
        return is_first and is_bound and first not in self._assigned

    @cached_property
    def _methods(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for owner in ast.walk(self.tree):
            if isinstance(owner, ast.ClassDef) and self._is_plain(owner):
                for part in owner.body:
                    if isinstance(part, ast.FunctionDef):
                        found.setdefault(part.name, set()).add(owner.name)
        return {name: frozenset(classes) for name, classes in found.items()}

    def _is_plain(self, owner: ast.ClassDef) -> bool:
        """Whether calling a class gives an object of that class, with its own methods."""
        makes = {part.name for part in owner.body if isinstance(part, ast.FunctionDef)}
        return (
            owner.name in self._classes
            and not owner.keywords
            and all(self.dotted(base) in _PLAIN_BASES - self.own for base in owner.bases)
            and all(
                self.dotted(_called(d)) == "dataclasses.dataclass" for d in owner.decorator_list
            )
            and makes.isdisjoint(_MAKING)
        )

    @cached_property
    def _taken(self) -> frozenset[str]:
        """Its classes that methods may be taken from, to be called on something else."""
        nodes = tuple(ast.walk(self.tree))
        if any(
            (isinstance(node, ast.Name) and node.id == "type")
            or (isinstance(node, ast.Attribute) and node.attr in _TO_CLASSES)
            for node in nodes
        ):
            return self._classes
        return frozenset(
            node.id
            for node in nodes
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and not self._leaves_methods(node, self.parents[id(node)])
        )

    def _leaves_methods(self, name: ast.Name, use: ast.AST) -> bool:
        """Whether a class is called, extended, or asked for what is called without an object."""
        if isinstance(use, ast.Attribute):
            return f"{name.id}.{use.attr}" in self._static
        return isinstance(use, ast.ClassDef) or (isinstance(use, ast.Call) and use.func is name)

    @cached_property
    def _static(self) -> frozenset[str]:
        return frozenset(
            f"{owner.name}.{part.name}"
            for owner in ast.walk(self.tree)
            if isinstance(owner, ast.ClassDef)
            for part in owner.body
            if isinstance(part, ast.FunctionDef)
            and any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in part.decorator_list)
        )

    @cached_property
    def _assigned(self) -> frozenset[str]:
        """Names that get a value otherwise than as a parameter."""
        return frozenset(
            name
            for node in ast.walk(self.tree)
            if not isinstance(node, ast.arg) and (name := bound_by(node)) is not None
        )

    @cached_property
    def _classes(self) -> frozenset[str]:
        """Names that stand for one class of its own, and for nothing else."""
        named = {
            name
            for name, found in self.definitions.items()
            if len(found) == 1 and isinstance(found[0], ast.ClassDef)
        }
        return frozenset(named - self.rebound - set(self.names))


def _called(node: ast.expr) -> ast.expr:
    """A decorator without its arguments."""
    return node.func if isinstance(node, ast.Call) else node


def _spelled(target: ast.expr) -> str | None:
    """A name, or an attribute of whatever object; None for what takes a value apart."""
    if isinstance(target, ast.Name):
        return target.id
    return f"self.{target.attr}" if isinstance(target, ast.Attribute) else None


def _as_used(tree: ast.Module) -> ast.Module:
    """A module without what it does when it is the program itself, and without a `setup` and a
    `reference` of which nothing else in it speaks: inputs come from elsewhere."""
    stored = "__name__" in (bound_by(node) for node in ast.walk(tree))
    imported: list[ast.stmt] = []
    for node in tree.body:
        is_main = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        imported += node.orelse if isinstance(node, ast.If) and is_main and not stored else [node]
    whole = ast.Module(imported, tree.type_ignores)
    spare = {*_SPARE} - {_mentioned(node) for node in ast.walk(whole)}
    used = [n for n in imported if not isinstance(n, ast.FunctionDef) or n.name not in spare]
    return ast.Module(used, tree.type_ignores)


def _mentioned(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
