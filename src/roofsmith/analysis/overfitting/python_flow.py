"""Follows what a Python module's calls keep: what is stored, found by what, and made of what.

Functions are read from their entries, callees in place, so that a helper's parameters are known by
the arguments of `run_kernel` that they stand for. Branches are joined; loops are read once.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from roofsmith.analysis.overfitting.places import (
    Function,
    Module,
    Scope,
    is_compiled,
    is_memoised,
    mutable_defaults,
    parameters,
)
from roofsmith.analysis.overfitting.python_tensors import (
    MOST_CALLS,
    arguments_of,
    tensor_parameters,
    tensors_by_use,
)
from roofsmith.analysis.overfitting.python_values import Env, Frame, Values
from roofsmith.analysis.overfitting.stores import Guard, Store
from roofsmith.analysis.overfitting.tokens import (
    ALL_ARGUMENTS,
    NOTHING,
    Tokens,
    computed,
    identity,
    kept,
    only,
    union,
)

_RETURNS = (ast.Return, ast.Raise)
_ENDS = (*_RETURNS, ast.Continue, ast.Break)


class Flow(Values):
    """Everything that a module keeps between calls, and where it looks it up."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._reading: list[Function] = []
        self._read: set[Function] = set()
        self._tensors = tensor_parameters(module)

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
        tensors = self._tensors.get(function) or tensors_by_use(function, self._module)
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

    def _run(self, frame: Frame, given: Env) -> Tokens:
        """Read a body; what it returns. Its names are in the frame."""
        function = frame.scope.function
        frame.env.update(dict.fromkeys(frame.scope.own, NOTHING))
        frame.env.update(given)
        for name in mutable_defaults(function) & self._module.changed - given.keys():
            frame.env[name] = kept(name)
        if function.name == "__missing__":
            frame.guard(Guard(kept("self"), "a key that is missing"))
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
        frame.guards[depth:] = [guard for guard in frame.guards[depth:] if guard.ends]

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
                    self.bind(target, found, frame, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, self.of(value, frame), frame, value)
            case ast.AugAssign(target=target, value=value):
                found = computed(self.of(value, frame)) | self.of(_loaded(target), frame)
                self.bind(target, found, frame, value)
            case ast.Expr(value=value):
                self.of(value, frame)
                if isinstance(value, ast.Call):
                    self.effects(value, frame)
            case ast.If(test=test):
                self._branch(node, self.of(test, frame), ast.unparse(test), frame)
            case ast.While(test=test):
                found = self.of(test, frame)
                counts = _counters(node) & frame.scope.own
                with frame.guarded(Guard(NOTHING if counts else found, ast.unparse(test))):
                    self._block(node.body, frame)
            case ast.For() | ast.AsyncFor():
                self.bind(node.target, self.of(node.iter, frame), frame, node.iter)
                self._block([*node.body, *node.orelse], frame)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    found = self.of(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, found, frame, item.context_expr)
                if any(_suppresses(item.context_expr) for item in node.items):
                    self._attempt(node.body, (), frame)
                else:
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
        guard = Guard(test, text)
        before = dict(frame.env)
        with frame.guarded(guard):
            self._block(node.body, frame)
            after = frame.env
            frame.env = before
            self._block(node.orelse, frame)
        frame.env = {n: after.get(n, NOTHING) | frame.env.get(n, NOTHING) for n in after}
        if isinstance(node.body[-1], _ENDS):  # what follows runs only where nothing was found
            frame.guard(replace(guard, ends=isinstance(node.body[-1], _RETURNS)))

    def _match(self, node: ast.Match, subject: Tokens, frame: Frame) -> None:
        for case in node.cases:
            for name in ast.walk(case.pattern):
                if isinstance(name, ast.MatchAs) and name.name is not None:
                    frame.env[name.name] = subject
            with frame.guarded(Guard(subject, ast.unparse(node.subject))):
                self._block(case.body, frame)

    def _try(self, node: ast.Try, frame: Frame) -> None:
        handlers = [statement for handler in node.handlers for statement in handler.body]
        self._attempt(node.body, handlers, frame)
        self._block([*node.orelse, *node.finalbody], frame)

    def _attempt(
        self, body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt], frame: Frame
    ) -> None:
        """Look something up, and do something else where it isn't there."""
        looked = union(
            self.of(part, frame)
            for statement in body
            for part in ast.walk(statement)
            if isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Load)
        )
        self._block(body, frame)
        guard = Guard(looked, ast.unparse(body[0]))
        with frame.guarded(guard):
            self._block(otherwise, frame)
        if any(isinstance(s, _ENDS) for s in body):
            frame.guard(guard)  # what follows runs only where nothing was found

    # -- stores -----------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Tokens, frame: Frame, source: ast.expr) -> None:
        """What an assignment does to a target: a name of this call, or a place."""
        match target:
            case ast.Name(id=name):
                place = self._module.place(target, frame.scope)
                if name in frame.scope.own or place is None:
                    frame.env[name] = value
                else:
                    self.store(place, NOTHING, value, frame)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                sources = source.elts if isinstance(source, (ast.Tuple, ast.List)) else ()
                if len(sources) == len(targets):
                    for one, part in zip(targets, sources, strict=True):
                        self.bind(one, self.of(part, frame), frame, part)
                else:
                    for one in targets:
                        self.bind(one, value, frame, source)
            case ast.Starred(value=inner):
                self.bind(inner, value, frame, source)
            case ast.Subscript(value=base, slice=key):
                self.store_item(base, key, value, frame)
            case ast.Attribute():
                self.store_attribute(target, value, frame)
            case _:
                pass

    # -- expressions ------------------------------------------------------------------------

    def inlined(
        self, function: Function, owner: str | None, node: ast.Call, frame: Frame
    ) -> Tokens:
        """What a function of this module returns for these arguments."""
        everything = union(
            self.of(a, frame) for a in (*node.args, *(k.value for k in node.keywords))
        )
        if function in self._reading or len(self._reading) > MOST_CALLS:
            return computed(everything)
        given: Env = {}
        arguments = arguments_of(node, function, owner)
        for name, argument in arguments.items():
            given[name] = self.of(argument, frame)
        for rest in (function.args.vararg, function.args.kwarg):
            if rest is not None:
                given[rest.arg] = everything
        inner = Frame(Scope(function, owner), {}, list(frame.guards))
        result = self._run(inner, given)
        for name, argument in arguments.items():
            written = only(inner.env.get(name, NOTHING), "data") - only(given[name], "data")
            known = only(given[name], "tensor", "kept")
            if written and not known and isinstance(argument, ast.Name):
                frame.env[argument.id] = frame.env.get(argument.id, NOTHING) | written
        if is_memoised(function):
            self._memoised(function, everything, result)
        return result


def _counters(loop: ast.While) -> set[str]:
    """Names that a loop's test asks and its body changes."""
    asked = {n.id for n in ast.walk(loop.test) if isinstance(n, ast.Name)}
    stored = (n for statement in loop.body for n in ast.walk(statement))
    return asked & {
        n.id for n in stored if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _suppresses(context: ast.expr) -> bool:
    """`contextlib.suppress(...)`."""
    return isinstance(context, ast.Call) and ast.unparse(context.func).endswith("suppress")


def _loaded(target: ast.expr) -> ast.expr:
    """An assignment's target, as an expression that is read."""
    loaded = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(loaded, target)
