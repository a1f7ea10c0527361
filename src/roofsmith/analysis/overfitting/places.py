"""What a Python module holds on to between calls: names, attributes, defaults, closures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from roofsmith.analysis.overfitting.memoisers import MEMOISERS
from roofsmith.analysis.overfitting.python_calls import (
    imports,
    is_launch,
    last_name,
    writes_receiver,
)
from roofsmith.analysis.overfitting.tokens import MOST_ALIGNED

Function = ast.FunctionDef | ast.AsyncFunctionDef

MUTATORS = frozenset((
    "add", "append", "appendleft", "extend", "insert", "move_to_end", "pop", "popitem", "push",
    "put", "set", "setdefault", "update", "__setitem__",
))  # fmt: skip
"""Methods that change the container they belong to."""
REGISTERS = ("register_buffer", "register_parameter")
"""Methods of a `torch.nn.Module` that set an attribute."""
INSTANCES = ("self", "cls")
_COMPILED = ("jit", "kernel")
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_DIVIDES = (ast.FloorDiv, ast.Div, ast.RShift)
_CONTAINERS = (
    "dict", "list", "set", "cache", "dictionary", "deque", "counter", "namespace", "local",
)  # fmt: skip
"""How names of containers end."""


@dataclass(slots=True)
class Scope:
    """A function while it is read: what its names depend on is in `Flow`."""

    function: Function
    owner: str | None
    """The class that it is a method of."""
    outer: Scope | None = None
    own: frozenset[str] = field(init=False)
    """Names that are bound here and end with the call."""

    def __post_init__(self) -> None:
        declared = _declared_elsewhere(self.function)
        self.own = frozenset(_bound(self.function)) - declared

    @property
    def is_constructor(self) -> bool:
        """What it stores in `self` is as old as the object."""
        return self.owner is not None and self.function.name in ("__init__", "__post_init__")


class Module:
    """A parsed module: its functions, and the places where it keeps things."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.functions: dict[str, Function] = {}
        self.methods: dict[str, list[tuple[str, Function]]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self._index(tree)
        self.containers = frozenset(
            name for name, kind in self.classes.items() if any(map(_is_container, kind.bases))
        )
        """Classes whose objects are containers themselves."""
        self.globals = frozenset(_bound_in(tree.body))
        self._numbers = dict(_numbers(tree))
        self._imported = dict(imports(tree))
        changed = frozenset(_changed(tree))
        self._holders = frozenset(_holders(tree, self.classes)) - changed
        """Places that may be changed by another name, as they are written."""
        self.changed = changed | self._holders
        """Places that are changed after they were made, or may be, as they are written."""
        self.stashes = frozenset(
            place.rpartition(".")[2]
            for place in changed
            if "." in place and place.partition(".")[0] not in INSTANCES
        )
        """Attributes that are set on something else than an object of a class of its own."""

    def _index(self, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, Function):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
                for item in node.body:
                    if isinstance(item, Function):
                        self.methods.setdefault(item.name, []).append((node.name, item))

    def is_alignment(self, node: ast.BinOp) -> bool:
        """`address % 16` and `address & 15`; a digit of an address that was divided is none."""
        size = self._number(node.right)
        if size is None or any(isinstance(n, _DIVIDES) for n in ast.walk(node.left)):
            return False
        return isinstance(node.op, (ast.Mod, ast.BitAnd)) and 0 <= size <= MOST_ALIGNED

    def _number(self, node: ast.expr) -> int | None:
        """A number that is written out, or that the module has a name for."""
        if isinstance(node, ast.Name):
            return self._numbers.get(node.id)
        value = node.value if isinstance(node, ast.Constant) else None
        return value if isinstance(value, int) else None

    def settle(self, stored: Iterable[str]) -> bool:
        """Drop places that may be changed and aren't: tables, settings; whether there are any.

        Args:
            stored: all places that something is stored in, by any name.
        """
        doubtful = self._holders
        self._holders = frozenset()
        by_another_name = {p for p in stored if p in doubtful or p.partition(".")[0] in doubtful}
        self.changed = (self.changed - doubtful) | by_another_name
        return not doubtful <= by_another_name

    def dotted(self, node: ast.AST) -> str:
        """`torch.nn.functional.gelu` for `F.gelu`; empty for what isn't attributes of a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._imported.get(node.id, node.id), *reversed(parts)])

    def place(self, node: ast.expr, scope: Scope) -> str | None:
        """The place that an expression is, if what lies there outlives the call."""
        if isinstance(node, ast.Call):
            is_namespace = isinstance(node.func, ast.Name) and node.func.id in ("globals", "vars")
            return f"{ast.unparse(node.func)}()" if is_namespace else None
        if isinstance(node, ast.Subscript):
            is_itself = last_name(node.value) == "modules" and ast.unparse(node.slice) == "__name__"
            return "sys.modules" if is_itself or self.dotted(node.value) == "sys.modules" else None
        base = _base(node)
        if base is None:
            return None
        written = ast.unparse(node)
        if written in INSTANCES and scope.owner in self.containers:
            return written if written in self.changed else None
        if base in INSTANCES and scope.owner is not None and written != base:
            return written if written in self.changed and not scope.is_constructor else None
        if isinstance(node, ast.Name):
            return written if self._is_kept(base, scope) and written in self.changed else None
        if base in scope.own or (base not in self.globals and not self._is_local_thing(base)):
            return None
        if last_name(node) == "__dict__":  # of a function, a class or a module, by any name
            return written
        return written if written in self.changed or base in self.changed else None

    def _is_kept(self, name: str, scope: Scope) -> bool:
        if name in scope.own:
            return name in mutable_defaults(scope.function)
        inner, outer = scope, scope.outer
        while outer is not None:
            if name in outer.own:
                return escapes(inner.function, outer.function)
            inner, outer = outer, outer.outer
        return name in self.globals

    def _is_local_thing(self, name: str) -> bool:
        return name in self.functions or name in self.classes


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            value = node.value.value
            names = (t.id for t in node.targets if isinstance(t, ast.Name))
            yield from ((name, value) for name in names if isinstance(value, int))


def escapes(inner: Function, outer: Function) -> bool:
    """Whether a function outlives the call that defines it, and what it closes over with it."""
    callees = {id(node.func) for node in ast.walk(outer) if isinstance(node, ast.Call)}
    return any(
        isinstance(node, ast.Name) and node.id == inner.name and id(node) not in callees
        for node in ast.walk(outer)
    )


def mutable_defaults(function: Function) -> frozenset[str]:
    """Parameters whose default is a container or an object, which all calls share."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return frozenset(
        argument.arg
        for argument, default in pairs
        if _makes_container(default) or _makes_object(default)
    )


def _makes_object(value: ast.expr | None) -> bool:
    """Whether it calls something that is named as classes are."""
    return isinstance(value, ast.Call) and last_name(value.func).lstrip("_")[:1].isupper()


def _makes_container(value: ast.expr | None) -> bool:
    """Whether an expression is a new container, or several of them."""
    match value:
        case ast.Call(func=kind):
            return _is_container(kind)
        case ast.Tuple(elts=parts):
            return any(map(_makes_container, parts))
        case ast.BinOp(left=left, op=ast.Mult()):  # [None] * 4
            return _makes_container(left)
        case _:
            return isinstance(value, _DISPLAYS)


def _is_container(kind: ast.expr) -> bool:
    return last_name(kind).lower().endswith(_CONTAINERS)


def parameters(function: Function) -> tuple[str, ...]:
    """Names of a function's parameters, in order, without `*args` and `**kwargs`."""
    given = function.args
    return tuple(a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def is_memoised(function: Function) -> bool:
    """Whether a decorator keeps its results."""
    return any(last_name(_called(d)) in MEMOISERS for d in function.decorator_list)


def is_compiled(function: Function) -> bool:
    """Whether it is code for the device: `triton.jit` and its like."""
    return any(last_name(_called(d)) in _COMPILED for d in function.decorator_list)


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _base(node: ast.expr) -> str | None:
    """The name that a chain of attributes begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _changed(tree: ast.Module) -> Iterator[str]:
    """Places that code in functions writes to, or into."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        elsewhere = _declared_elsewhere(function)
        is_constructor = function.name in ("__init__", "__post_init__")
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                yield ast.unparse(_whole(node.value))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if not (is_constructor and _base(node) == "self"):
                    yield ast.unparse(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if node.id in elsewhere:
                    yield node.id
            elif isinstance(node, ast.Call) and is_launch(node):
                yield from (ast.unparse(a) for a in node.args if _base(a) is not None)
            elif isinstance(node, ast.keyword) and node.arg == "out":
                yield ast.unparse(_whole(node.value))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in MUTATORS or writes_receiver(node):
                    yield ast.unparse(_whole(node.func.value))
                elif node.func.attr in REGISTERS and isinstance(node.args[0], ast.Constant):
                    yield f"{ast.unparse(node.func.value)}.{node.args[0].value!s}"
            elif isinstance(node, ast.Call) and last_name(node.func) == "setattr" and node.args:
                target, name = node.args[0], node.args[1] if len(node.args) > 1 else None
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield f"{ast.unparse(target)}.{name.value}"


def _holders(tree: ast.Module, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """Names and attributes that are bound to a container or to an object of a class of its own.

    Whoever has it by another name may change it.
    """
    for top in ast.walk(tree):
        if isinstance(top, Function):
            yield from mutable_defaults(top)
        for node in top.body if isinstance(top, _BODIES) else ():
            if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                continue
            is_object = isinstance(node.value, ast.Call) and last_name(node.value.func) in classes
            if not (is_object or _makes_container(node.value)):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if not isinstance(top, ast.ClassDef):
                    yield ast.unparse(target)
                elif isinstance(target, ast.Name):
                    yield from (f"{owner}.{target.id}" for owner in (top.name, *INSTANCES))


def _whole(node: ast.expr) -> ast.expr:
    """What an element, a slice or a view is of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _declared_elsewhere(function: Function) -> frozenset[str]:
    """Names that a function, without those inside it, says are bound outside."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found |= set(node.names)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)


def _bound(function: Function) -> Iterator[str]:
    given = function.args
    yield from parameters(function)
    yield from (a.arg for a in (given.vararg, given.kwarg) if a is not None)
    yield from _bound_in(function.body)


def _bound_in(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind, without those of functions inside."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((a.asname or a.name).partition(".")[0] for a in node.names)
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
