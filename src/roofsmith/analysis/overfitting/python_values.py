"""What expressions of a Python module depend on, and what they store on the way."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from roofsmith.analysis.overfitting import python_calls as calls
from roofsmith.analysis.overfitting.places import (
    REGISTERS,
    Function,
    Module,
    Scope,
    parameters,
)
from roofsmith.analysis.overfitting.python_tensors import callee_of
from roofsmith.analysis.overfitting.stores import Guard, Store
from roofsmith.analysis.overfitting.tokens import (
    NOTHING,
    Tokens,
    TooMuchError,
    aligned,
    computed,
    identity,
    kept,
    keyed,
    made,
    only,
    roots,
    union,
)
from roofsmith.analysis.overfitting.triton_stores import written_parameters

MOST_EXPRESSIONS = 100_000
"""That are read, callees once per call: a few thousand in a kernel, about a second."""

Env = dict[str, Tokens]


@dataclass(slots=True)
class Frame:
    """A call that is being read."""

    scope: Scope
    env: Env
    guards: list[Guard] = field(default_factory=list)
    """Tests around the statement of something that outlives the call."""
    returned: Tokens = NOTHING
    line: int = 0

    def guard(self, guard: Guard) -> None:
        """What follows runs only if something is so; no matter, unless that outlives the call."""
        if only(guard.test, "kept", "read"):
            self.guards.append(guard)

    @contextmanager
    def guarded(self, guard: Guard) -> Iterator[None]:
        """The same, for as long as the block lasts."""
        before = len(self.guards)
        self.guard(guard)
        yield
        if only(guard.test, "kept", "read"):
            del self.guards[before]


class Values(ABC):
    """Reads expressions; remembers what is looked up and stored where it outlives the call."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.stores: list[Store] = []
        self.lookups: dict[str, set[int]] = {}
        self.weak: list[tuple[int, str, Tokens]] = []
        """Weak references: line, as it is written, and to what."""
        self._left = MOST_EXPRESSIONS

    @abstractmethod
    def bind(self, target: ast.expr, value: Tokens, frame: Frame, source: ast.expr) -> None:
        """What an assignment does to a target."""

    @abstractmethod
    def inlined(
        self, function: Function, owner: str | None, node: ast.Call, frame: Frame
    ) -> Tokens:
        """What a function of this module returns for these arguments."""

    # -- stores -----------------------------------------------------------------------------

    def store_item(self, base: ast.expr, key: ast.expr, value: Tokens, frame: Frame) -> None:
        """`base[key] = value`."""
        found = self.of(base, frame, looks=False)
        for place in roots(found, "kept"):
            by = keyed(self.of(key, frame)) | only(found, "identity", "version")
            self.store(place, by, value, frame, ast.unparse(key))
        if isinstance(base, ast.Name) and base.id in frame.scope.own and not only(found, "kept"):
            put = made(value) if only(found, "tensor") else value  # a tensor takes a copy
            frame.env[base.id] = found | put | keyed(self.of(key, frame))

    def store_attribute(self, target: ast.Attribute, value: Tokens, frame: Frame) -> None:
        """`owner.name = value`."""
        place = self._module.place(target, frame.scope)
        if place is not None:
            self.store(place, NOTHING, value, frame)
            return
        owner = self.of(target.value, frame)
        if holders := roots(owner, "kept"):
            for holder in holders:
                self.store(holder, only(owner, "identity", "version"), value, frame)
        elif (
            only(owner, "tensor")
            and target.attr not in calls.TENSOR_ATTRIBUTES
            and (only(computed(value), "data") or frame.guards)
        ):
            name = f"{ast.unparse(target.value)}.{target.attr}"
            self.store(f".{target.attr}", identity(owner), value, frame, name)

    def store(
        self, place: str, key: Tokens, value: Tokens, frame: Frame, found_by: str = "",
        *, in_place: bool = False, is_guarded: bool = False,
    ) -> None:  # fmt: skip
        """Something that outlives the call."""
        tests = union(only(guard.test, "identity", "version") for guard in frame.guards)
        goes_on = place in roots(value, "kept") | roots(value, "read")
        is_guarded = is_guarded or bool(frame.guards) or goes_on
        text = found_by or (frame.guards[-1].text if frame.guards else "")
        by = key | tests | only(value, "version")
        self.stores.append(
            Store(place, frame.line, by, computed(value), text, is_guarded, in_place)
        )

    def effects(self, call: ast.Call, frame: Frame) -> None:
        """What a call writes to beside its result: the arguments of a kernel, or the receiver."""
        given = [*call.args, *(k.value for k in call.keywords)]
        if calls.writes_receiver(call) and isinstance(call.func, ast.Attribute):
            written: list[ast.expr] = [call.func.value]
        elif calls.is_launch(call):
            written = self._written_by(call)
        else:
            written = [k.value for k in call.keywords if k.arg == "out"]
        read = union(self.of(a, frame) for a in given)
        result = only(computed(read), "data")
        for target in written:
            found = self.of(target, frame, looks=False)
            places = roots(found, "kept")
            for place in places:
                by = only(found, "identity", "version")
                self.store(place, by, result, frame, in_place=True)
            if isinstance(target, ast.Name) and not places and not only(found, "tensor"):
                frame.env[target.id] = found | result

    def _written_by(self, call: ast.Call) -> list[ast.expr]:
        """Arguments that a launched kernel stores to; all of them where that isn't known."""
        assert isinstance(call.func, ast.Subscript)  # a launch
        kernel = self._module.functions.get(self._module.dotted(call.func.value))
        if kernel is None:
            return [*call.args, *(k.value for k in call.keywords)]
        names = parameters(kernel)
        written = written_parameters(kernel)
        by_place = [a for name, a in zip(names, call.args, strict=False) if name in written]
        return [*by_place, *(k.value for k in call.keywords if k.arg in written)]

    # -- expressions ------------------------------------------------------------------------

    def of(self, node: ast.expr, frame: Frame, *, looks: bool = True) -> Tokens:
        """What an expression depends on.

        Args:
            node: the expression.
            frame: where it stands.
            looks: whether a place that is read here counts as looked up.
        """
        self._left -= 1
        if self._left < 0:
            raise TooMuchError
        place = self._module.place(node, frame.scope)
        if place is not None:
            if looks:
                self.lookups.setdefault(place, set()).add(frame.line)
            return kept(place)
        match node:
            case ast.Name(id=name):
                return frame.env.get(name, NOTHING)
            case ast.Constant() | ast.Lambda():
                return NOTHING
            case ast.Attribute():
                return self._attribute(node, frame, looks=looks)
            case ast.Subscript(value=base, slice=key):
                found = self.of(base, frame)
                if only(found, "kept"):
                    return found | only(keyed(self.of(key, frame)), "identity", "version")
                return found
            case ast.Call():
                return self._call(node, frame)
            case ast.Compare():
                return self._compare(node, frame)
            case ast.NamedExpr(target=target, value=value):
                found = self.of(value, frame)
                self.bind(target, found, frame, value)
                return found
            case ast.BinOp(left=left) if self._module.is_alignment(node):
                return aligned(self.of(left, frame))
            case ast.BinOp() | ast.UnaryOp():
                return made(self._children(node, frame))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._only_if(test, (body, orelse), frame)
            case ast.BoolOp(values=[first, *rest]):
                return self._only_if(first, rest, frame)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, frame)
            case _:
                return self._children(node, frame)

    def _children(self, node: ast.AST, frame: Frame) -> Tokens:
        parts = (c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
        return union(self.of(part, frame) for part in parts)

    def _only_if(self, test: ast.expr, parts: Sequence[ast.expr], frame: Frame) -> Tokens:
        """What is read only if something is so, and the test with it."""
        found = self.of(test, frame)
        with frame.guarded(Guard(found, ast.unparse(test))):
            found |= union(self.of(part, frame) for part in parts)
            for part in parts:
                if isinstance(part, ast.Call):
                    self.effects(part, frame)
        return found

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame
    ) -> Tokens:
        for generator in node.generators:
            source = self.of(generator.iter, frame)
            for name in ast.walk(generator.target):
                if isinstance(name, ast.Name):
                    frame.env[name.id] = source
            for test in generator.ifs:
                self.of(test, frame)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return union(self.of(part, frame) for part in parts)

    def _compare(self, node: ast.Compare, frame: Frame) -> Tokens:
        sides = [self.of(side, frame) for side in (node.left, *node.comparators)]
        found = union(sides)
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            is_none = isinstance(node.comparators[-1], ast.Constant)
            return only(found, "kept", "read", "identity", "version", "data") | (
                NOTHING if is_none else only(keyed(found), "identity")
            )
        return computed(found)

    def _attribute(self, node: ast.Attribute, frame: Frame, *, looks: bool) -> Tokens:
        base = self.of(node.value, frame, looks=looks)
        if node.attr in calls.FACTS:
            return only(base, "kept")
        if node.attr == "_version":
            return frozenset(("version", root) for kind, root in base if kind == "tensor") | only(
                base, "kept"
            )
        if node.attr in calls.ADDRESSES:
            return identity(base)
        if node.attr == "__dict__" and only(base, "tensor"):
            return kept(f"{ast.unparse(node.value)}.__dict__") | identity(base)
        stash = f".{node.attr}"
        if only(base, "tensor") and self._is_stash(node.attr):
            if looks:
                self.lookups.setdefault(stash, set()).add(frame.line)
            return kept(stash) | identity(base)
        return base

    def _is_stash(self, attribute: str) -> bool:
        return attribute not in calls.VIEWS and attribute in self._module.stashes

    def _call(self, node: ast.Call, frame: Frame) -> Tokens:
        name = self._module.dotted(node.func)
        given = [*node.args, *(k.value for k in node.keywords)]
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if name in calls.WEAK:
            target = union(self.of(a, frame) for a in node.args[:1])
            if only(target, "tensor"):
                self.weak.append((frame.line, ast.unparse(node), identity(target)))
        if name in calls.IDENTITY:
            return identity(union(self.of(a, frame) for a in given))
        if name in ("getattr", "hasattr", "setattr") and len(node.args) > 1:
            return self._by_name(node, name, frame)
        if callee := callee_of(self._module, node.func):
            return self.inlined(*callee, node, frame)
        if calls.FILLED.fullmatch(name):
            filling = node.args[:1] if last == "new_tensor" else node.args[1:]
            return computed(
                union(self.of(a, frame) for a in (*filling, *_given_as(node, "fill_value")))
            )
        if name == "len":  # how full it is may say whether something was found
            return only(made(union(self.of(a, frame) for a in given)), "read")
        if calls.NEW.fullmatch(name) or last in calls.NEW_METHODS:
            for argument in given:  # for what it stores on the way
                self.of(argument, frame)
            return NOTHING
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, frame)
        arguments = union(self.of(a, frame) for a in given)
        return made(self.of(node.func, frame)) | computed(arguments)

    def _method(self, node: ast.Call, method: ast.Attribute, frame: Frame) -> Tokens:
        name = method.attr
        if name in REGISTERS and len(node.args) > 1 and isinstance(node.args[0], ast.Constant):
            written = ast.Attribute(method.value, str(node.args[0].value), ast.Store())
            self.store_attribute(written, self.of(node.args[1], frame), frame)
            return NOTHING
        base = self.of(method.value, frame, looks=name not in calls.ADDS)
        given = [self.of(a, frame) for a in (*node.args, *(k.value for k in node.keywords))]
        if places := roots(base, "kept"):
            return self._container(node, name, places, base, given, frame)
        if name in calls.FACTS:
            return NOTHING
        if name in calls.ADDRESSES:
            return identity(base)
        if self._module.dotted(method).partition(".")[0] in calls.TENSOR_LIBRARIES and given:
            return given[0] if name in calls.SAME else made(union(given))
        if name in calls.LIKE:
            return computed(base) if name == "to" else base
        if name in calls.VIEWS:
            return base
        results = union(given)
        return computed(base) | (made(results) if only(base, "tensor") else computed(results))

    def _container(
        self, node: ast.Call, name: str, places: frozenset[str], base: Tokens,
        given: list[Tokens], frame: Frame,
    ) -> Tokens:  # fmt: skip
        """A method of something that outlives the call."""
        key = keyed(given[0]) if given else NOTHING
        found_by = ast.unparse(node.args[0]) if node.args else ""
        for place in places:
            if name in calls.WRITES and len(given) > calls.WRITES[name]:
                value = given[1] | (kept(place) if name == "setdefault" else NOTHING)
                self.store(place, key, value, frame, found_by)
            elif name in calls.ADDS or (name == "update" and given):
                goes_on = name in calls.GENERATORS
                self.store(place, key, union(given), frame, is_guarded=goes_on)
        if name in calls.READS:
            return base | only(key, "identity", "version") | union(given[1:])
        found = base | union(map(computed, given))
        return made(found) if name in calls.ARITHMETIC else found

    def _by_name(self, node: ast.Call, name: str, frame: Frame) -> Tokens:
        """`getattr`, `hasattr` and `setattr` with a name that is written out."""
        target, attribute = node.args[0], node.args[1]
        base = self.of(target, frame)
        if not isinstance(attribute, ast.Constant) or not isinstance(attribute.value, str):
            return computed(base | union(self.of(a, frame) for a in node.args[2:]))
        written = ast.Attribute(target, attribute.value, ast.Load(), lineno=node.lineno)
        if name == "setattr":
            self.store_attribute(written, union(self.of(a, frame) for a in node.args[2:]), frame)
            return NOTHING
        return self.of(written, frame) | union(self.of(a, frame) for a in node.args[2:])


def _given_as(call: ast.Call, name: str) -> list[ast.expr]:
    """A call's argument of a name, if it has it."""
    return [k.value for k in call.keywords if k.arg == name]
