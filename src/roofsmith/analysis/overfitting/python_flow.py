"""Follows what a Python module's calls keep: what is stored, found by what, and made of what.

Functions are read from their entries, callees in place, so that a helper's parameters are known by
the arguments of `run_kernel` that they stand for. Branches are joined; loops are read once.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from roofsmith.analysis.overfitting import python_calls as calls
from roofsmith.analysis.overfitting.places import (
    INSTANCES,
    REGISTERS,
    Function,
    Module,
    Scope,
    is_compiled,
    is_memoised,
    mutable_defaults,
    parameters,
)
from roofsmith.analysis.overfitting.stores import Store
from roofsmith.analysis.overfitting.tokens import (
    ALL_ARGUMENTS,
    NOTHING,
    Tokens,
    computed,
    identity,
    kept,
    keyed,
    only,
    roots,
    union,
)
from roofsmith.analysis.overfitting.triton_stores import written_parameters

MOST_CALLS = 8
"""Calls within calls that are followed."""

Env = dict[str, Tokens]
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(slots=True)
class Frame:
    """A call that is being read."""

    scope: Scope
    env: Env
    guards: list[Tokens] = field(default_factory=list)
    """What the tests around the statement depend on, where that outlives the call."""
    tests: list[str] = field(default_factory=list)
    returned: Tokens = NOTHING
    line: int = 0


class Flow:
    """Everything that a module keeps between calls, and where it looks it up."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.stores: list[Store] = []
        self.lookups: dict[str, set[int]] = {}
        self.weak: list[tuple[int, str, Tokens]] = []
        """Weak references: line, as it is written, and to what."""
        self._reading: list[Function] = []
        self._read: set[Function] = set()
        self._tensors = self._all_tensors()

    def read(self) -> None:
        """Every function, from those that nobody here calls."""
        called = {
            self._module.dotted(node.func).rpartition(".")[2]
            for node in ast.walk(self._module.tree)
            if isinstance(node, ast.Call)
        }
        everything = [
            *((None, f) for f in self._module.functions.values()),
            *(pair for methods in self._module.methods.values() for pair in methods),
        ]
        everything = [(owner, f) for owner, f in everything if not is_compiled(f)]
        for owner, function in everything:
            if function.name not in called:
                self._enter(function, owner)
        for owner, function in everything:
            takes_any = is_memoised(function) and function.args.vararg is not None
            if function not in self._read or takes_any:
                self._enter(function, owner)

    # -- functions --------------------------------------------------------------------------

    def _enter(self, function: Function, owner: str | None, outer: Frame | None = None) -> None:
        """Read a function as somebody outside calls it: its tensors are what they are called."""
        tensors = self._tensors.get(function) or calls.tensors_by_use(function, self._module)
        given: Env = {
            name: frozenset({("tensor", name)}) for name in parameters(function) if name in tensors
        }
        for rest in (function.args.vararg, function.args.kwarg):
            if rest is not None:
                given[rest.arg] = frozenset({("tensor", f"{ALL_ARGUMENTS}{rest.arg}")})
        frame = Frame(Scope(function, owner, outer.scope if outer else None), {})
        frame.env.update(outer.env if outer else {})
        result = self._run(frame, given)
        if is_memoised(function):
            self._memoised(function, union(given.values()), result)

    def _all_tensors(self) -> dict[Function, frozenset[str]]:
        """Parameters that are tensors, also because of what they are passed on to."""
        module = self._module
        functions = [*module.functions.values()]
        functions += [f for methods in module.methods.values() for _, f in methods]
        known = {f: calls.tensors_by_use(f, module) for f in functions}
        for _ in range(MOST_CALLS):
            before = dict(known)
            for function in functions:
                known[function] |= self._passed_on(function, known) & frozenset(
                    parameters(function)
                )
            if known == before:
                break
        return known

    def _passed_on(
        self, function: Function, known: dict[Function, frozenset[str]]
    ) -> frozenset[str]:
        """Names that a function gives to tensor parameters of others."""
        found: set[str] = set()
        for node in ast.walk(function):
            callee = self._callee(node.func) if isinstance(node, ast.Call) else None
            if callee is None or not isinstance(node, ast.Call):
                continue
            for name, argument in _arguments(node, *callee).items():
                if isinstance(argument, ast.Name) and name in known[callee[0]]:
                    found.add(argument.id)
        return frozenset(found)

    def _run(self, frame: Frame, given: Env) -> Tokens:
        """Read a body; what it returns. Its names are in the frame."""
        function = frame.scope.function
        frame.env.update(dict.fromkeys(frame.scope.own, NOTHING))
        frame.env.update(given)
        for name in mutable_defaults(function) - given.keys():
            frame.env[name] = kept(name)
        self._reading.append(function)
        self._read.add(function)
        self._block(function.body, frame)
        self._reading.pop()
        return frame.returned

    def _memoised(self, function: Function, given: Tokens, result: Tokens) -> None:
        line = function.lineno
        self.lookups.setdefault(function.name, set()).add(line)
        self.stores.append(
            Store(function.name, line, identity(given), result, "its arguments", is_guarded=True)
        )

    # -- statements -------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> None:
        depth = len(frame.guards)
        for statement in body:
            frame.line = statement.lineno
            self._statement(statement, frame)
        del frame.guards[depth:], frame.tests[depth:]

    def _statement(self, node: ast.stmt, frame: Frame) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not is_compiled(node):
                    self._nested(node, frame)
            case ast.Return(value=value):
                if value is not None:
                    frame.returned |= self.of(value, frame)
            case ast.Assign(targets=targets, value=value):
                found = self.of(value, frame)
                for target in targets:
                    self._bind(target, found, frame, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.of(value, frame), frame, value)
            case ast.AugAssign(target=target, value=value):
                found = computed(self.of(value, frame)) | self.of(_loaded(target), frame)
                self._bind(target, found, frame, value)
            case ast.Expr(value=value):
                self.of(value, frame)
                if isinstance(value, ast.Call):
                    self._effects(value, frame)
            case ast.If(test=test):
                self._branch(node, self.of(test, frame), ast.unparse(test), frame)
            case ast.While(test=test):
                self.of(test, frame)
                self._block(node.body, frame)
            case ast.For() | ast.AsyncFor():
                self._bind(node.target, self.of(node.iter, frame), frame, node.iter)
                self._block([*node.body, *node.orelse], frame)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    found = self.of(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, found, frame, item.context_expr)
                self._block(node.body, frame)
            case ast.Try():
                self._try(node, frame)
            case ast.Match(subject=subject):
                self._match(node, self.of(subject, frame), frame)
            case ast.Assert(test=test):
                self.of(test, frame)
            case _:
                pass

    def _nested(self, function: Function, frame: Frame) -> None:
        """A function inside another: read as somebody calls it, with what it closes over."""
        if len(self._reading) <= MOST_CALLS:
            self._enter(function, None, frame)

    def _branch(self, node: ast.If, test: Tokens, text: str, frame: Frame) -> None:
        is_guard = bool(only(test, "kept"))
        before = dict(frame.env)
        if is_guard:
            frame.guards.append(test)
            frame.tests.append(text)
        self._block(node.body, frame)
        after = frame.env
        frame.env = before
        self._block(node.orelse, frame)
        frame.env = {n: after.get(n, NOTHING) | frame.env.get(n, NOTHING) for n in after}
        leaves = isinstance(node.body[-1], _ENDS)
        if is_guard and not leaves:
            frame.guards.pop()
            frame.tests.pop()  # else: what follows runs only where nothing was found

    def _match(self, node: ast.Match, subject: Tokens, frame: Frame) -> None:
        is_guard = bool(only(subject, "kept"))
        for case in node.cases:
            for name in ast.walk(case.pattern):
                if isinstance(name, ast.MatchAs) and name.name is not None:
                    frame.env[name.name] = subject
            if is_guard:
                frame.guards.append(subject)
                frame.tests.append(ast.unparse(node.subject))
            self._block(case.body, frame)
            if is_guard:
                frame.guards.pop()
                frame.tests.pop()

    def _try(self, node: ast.Try, frame: Frame) -> None:
        looked = union(
            self.of(part, frame)
            for statement in node.body
            for part in ast.walk(statement)
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load)
        )
        self._block(node.body, frame)
        is_guard = bool(only(looked, "kept"))
        if is_guard:
            frame.guards.append(looked)
            frame.tests.append(ast.unparse(node.body[0]))
        for handler in node.handlers:
            self._block(handler.body, frame)
        if is_guard and not any(isinstance(s, _ENDS) for s in node.body):
            frame.guards.pop()
            frame.tests.pop()
        self._block([*node.orelse, *node.finalbody], frame)

    # -- stores -----------------------------------------------------------------------------

    def _bind(self, target: ast.expr, value: Tokens, frame: Frame, source: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                place = self._module.place(target, frame.scope)
                if name in frame.scope.own or place is None:
                    frame.env[name] = value
                else:
                    self._store(place, NOTHING, value, frame)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                sources = source.elts if isinstance(source, (ast.Tuple, ast.List)) else ()
                if len(sources) == len(targets):
                    for one, part in zip(targets, sources, strict=True):
                        self._bind(one, self.of(part, frame), frame, part)
                else:
                    for one in targets:
                        self._bind(one, value, frame, source)
            case ast.Starred(value=inner):
                self._bind(inner, value, frame, source)
            case ast.Subscript(value=base, slice=key):
                self._store_item(base, key, value, frame)
            case ast.Attribute():
                self._store_attribute(target, value, frame)
            case _:
                pass

    def _store_item(self, base: ast.expr, key: ast.expr, value: Tokens, frame: Frame) -> None:
        found = self.of(base, frame, looks=False)
        for place in roots(found, "kept"):
            by = keyed(self.of(key, frame)) | only(found, "identity", "version")
            self._store(place, by, value, frame, ast.unparse(key))
        if isinstance(base, ast.Name) and base.id in frame.scope.own and not only(found, "kept"):
            frame.env[base.id] = found | value | keyed(self.of(key, frame))

    def _store_attribute(self, target: ast.Attribute, value: Tokens, frame: Frame) -> None:
        place = self._module.place(target, frame.scope)
        if place is not None:
            self._store(place, NOTHING, value, frame)
            return
        owner = self.of(target.value, frame)
        if holders := roots(owner, "kept"):
            for holder in holders:
                self._store(holder, only(owner, "identity", "version"), value, frame)
        elif (
            only(owner, "tensor")
            and target.attr not in calls.TENSOR_ATTRIBUTES
            and (only(computed(value), "data") or frame.guards)
        ):
            name = f"{ast.unparse(target.value)}.{target.attr}"
            self._store(f".{target.attr}", identity(owner), value, frame, name)

    def _store(
        self, place: str, key: Tokens, value: Tokens, frame: Frame, found_by: str = "",
        *, in_place: bool = False,
    ) -> None:  # fmt: skip
        tests = union(only(g, "identity", "version") for g in frame.guards)
        is_guarded = bool(frame.guards) or place in roots(value, "kept")
        text = found_by or (frame.tests[-1] if frame.tests else "")
        by = key | tests | only(value, "version")
        self.stores.append(
            Store(place, frame.line, by, computed(value), text, is_guarded, in_place)
        )

    def _effects(self, call: ast.Call, frame: Frame) -> None:
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
                self._store(place, by, result, frame, in_place=True)
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
                self._bind(target, found, frame, value)
                return found
            case ast.BinOp() | ast.UnaryOp():
                return computed(self._children(node, frame))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, frame)
            case _:
                return self._children(node, frame)

    def _children(self, node: ast.AST, frame: Frame) -> Tokens:
        parts = (c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
        return union(self.of(part, frame) for part in parts)

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
            return only(found, "kept", "identity", "version", "data") | (
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
        stash = f".{node.attr}"
        if only(base, "tensor") and self._is_stash(node.attr):
            if looks:
                self.lookups.setdefault(stash, set()).add(frame.line)
            return kept(stash) | identity(base)
        return base

    def _is_stash(self, attribute: str) -> bool:
        return attribute not in calls.VIEWS and any(
            place.endswith(f".{attribute}") and place.partition(".")[0] not in INSTANCES
            for place in self._module.changed
        )

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
        if callee := self._callee(node.func):
            return self._inlined(*callee, node, frame)
        if calls.NEW.fullmatch(name) or last in calls.NEW_METHODS:
            union(self.of(a, frame) for a in given)
            return NOTHING
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, frame)
        arguments = union(self.of(a, frame) for a in given)
        return computed(self.of(node.func, frame) | arguments)

    def _method(self, node: ast.Call, method: ast.Attribute, frame: Frame) -> Tokens:
        name = method.attr
        if name in REGISTERS and len(node.args) > 1 and isinstance(node.args[0], ast.Constant):
            written = ast.Attribute(method.value, str(node.args[0].value), ast.Store())
            self._store_attribute(written, self.of(node.args[1], frame), frame)
            return NOTHING
        base = self.of(method.value, frame, looks=name not in calls.ADDS)
        given = [self.of(a, frame) for a in (*node.args, *(k.value for k in node.keywords))]
        if places := roots(base, "kept"):
            return self._container(node, name, places, base, given, frame)
        if name in calls.FACTS:
            return NOTHING
        if name in calls.ADDRESSES:
            return identity(base)
        return base if name in calls.VIEWS else computed(base | union(given))

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
                self._store(place, key, value, frame, found_by)
            elif name in calls.ADDS or (name == "update" and given):
                self._store(place, key, union(given), frame)
        if name in calls.READS:
            return base | only(key, "identity", "version") | union(given[1:])
        return base | union(map(computed, given))

    def _by_name(self, node: ast.Call, name: str, frame: Frame) -> Tokens:
        """`getattr`, `hasattr` and `setattr` with a name that is written out."""
        target, attribute = node.args[0], node.args[1]
        base = self.of(target, frame)
        if not isinstance(attribute, ast.Constant) or not isinstance(attribute.value, str):
            return computed(base | union(self.of(a, frame) for a in node.args[2:]))
        written = ast.Attribute(target, attribute.value, ast.Load(), lineno=node.lineno)
        if name == "setattr":
            self._store_attribute(written, union(self.of(a, frame) for a in node.args[2:]), frame)
            return NOTHING
        return self.of(written, frame) | union(self.of(a, frame) for a in node.args[2:])

    def _callee(self, function: ast.expr) -> tuple[Function, str | None] | None:
        """A function or method of this module, where it is clear which one is called."""
        if isinstance(function, ast.Name):
            found = self._module.functions.get(function.id)
            return (found, None) if found is not None and not is_compiled(found) else None
        if not isinstance(function, ast.Attribute):
            return None
        owner = self._module.dotted(function.value)
        if function.attr == "apply" and owner in self._module.classes:
            forward = self._module.methods.get("forward", [])
            return next(((f, owner) for name, f in forward if name == owner), None)
        methods = self._module.methods.get(function.attr, [])
        return (methods[0][1], methods[0][0]) if len(methods) == 1 else None

    def _inlined(
        self, function: Function, owner: str | None, node: ast.Call, frame: Frame
    ) -> Tokens:
        """What a function of this module returns for these arguments."""
        everything = union(
            self.of(a, frame) for a in (*node.args, *(k.value for k in node.keywords))
        )
        if function in self._reading or len(self._reading) > MOST_CALLS:
            return computed(everything)
        given: Env = {}
        arguments = _arguments(node, function, owner)
        for name, argument in arguments.items():
            given[name] = self.of(argument, frame)
        for rest in (function.args.vararg, function.args.kwarg):
            if rest is not None:
                given[rest.arg] = everything
        inner = Frame(Scope(function, owner), {}, list(frame.guards), list(frame.tests))
        result = self._run(inner, given)
        for name, argument in arguments.items():
            written = only(inner.env.get(name, NOTHING), "data") - only(given[name], "data")
            known = isinstance(argument, ast.Name) and not only(given[name], "tensor", "kept")
            if written and known and isinstance(argument, ast.Name):
                frame.env[argument.id] = frame.env.get(argument.id, NOTHING) | written
        if is_memoised(function):
            self._memoised(function, everything, result)
        return result


def _arguments(node: ast.Call, function: Function, owner: str | None) -> dict[str, ast.expr]:
    """What each parameter of a callee is given."""
    names = list(parameters(function))
    if owner is not None and names and names[0] in (*INSTANCES, "ctx"):
        names = names[1:]
    arguments: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    arguments.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    return arguments


def _loaded(target: ast.expr) -> ast.expr:
    """An assignment's target, as an expression that is read."""
    loaded = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(loaded, target)
