"""Follows the host's code of a module for calls whose shapes are known, without running it.

What can't be computed may be anything: both sides of an `if` are walked then, and a function that
goes where it can't be followed counts as called.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

UNKNOWN = object()
"""A value that isn't computed here."""
LARGEST = 1 << 62
"""Larger numbers are no sizes."""
MOST_STATEMENTS = 100_000
"""Of all walks through a module: they take a second or two at most."""
_EXPRESSION = 0.05
"""Part of a statement that one takes."""
MOST_PARTS = 1000
"""Of a tuple or a table, with all that is in it."""
MOST_TURNS = 16
"""Of a loop that is followed turn by turn; longer ones are walked once, with anything in them."""

Names = dict[str, object]

_OPERATIONS: Mapping[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.USub: operator.neg,
    ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_IDENTITIES = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Not)
"""Operations on more than numbers."""
_CALLS: Mapping[str, Callable[..., object]] = {
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
    "min": min, "max": max, "len": len, "int": int, "bool": bool, "tuple": tuple, "abs": abs,
    "prod": lambda of: math.prod(of) if all(isinstance(n, int | float) for n in of) else UNKNOWN,
}  # fmt: skip


_OF_ARRAYS = ("numel", "size", "dim", "contiguous")
_REBINDING = (ast.NamedExpr, ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Nonlocal)


@dataclass(frozen=True, slots=True)
class Array:
    """All that the host can compute with of a tensor."""

    shape: tuple[int, ...]


class AstrayError(Exception):
    """The code runs long, or changes what was thought to be known."""


@dataclass(slots=True)
class WalkLimit:
    """What is left of the statements that walks through a module may take."""

    statements: float = MOST_STATEMENTS

    def take(self, statements: float) -> None:
        """Some of it.

        Raises:
            AstrayError: nothing is left.
        """
        self.statements -= statements
        if self.statements < 0:
            raise AstrayError


class HostWalk:
    """The statements that calls of a module's functions may reach, added to by every call.

    Args:
        tree: of the module.
        functions: those of its top level that run on the host.
        constants: what names are taken for, whatever is assigned to them.
        reached: added to.
        limit: of this walk and of others.
    """

    def __init__(
        self,
        tree: ast.Module,
        functions: Mapping[str, ast.FunctionDef],
        constants: Mapping[str, int],
        reached: set[ast.stmt],
        limit: WalkLimit,
    ) -> None:
        self._functions = functions
        self._reached = reached
        self._escaped: set[ast.FunctionDef] = set()
        self._limit = limit
        self._constants = constants
        self._globals: Names = {"__name__": "kernel", **constants}
        self._block([n for n in tree.body if not isinstance(n, ast.FunctionDef)], self._globals)
        written = (n for one in ast.walk(tree) if isinstance(one, ast.Global) for n in one.names)
        self._globals |= {**constants, **dict.fromkeys(written, UNKNOWN)}
        for one in (one for one in tree.body if isinstance(one, ast.FunctionDef)):
            for decorator in one.decorator_list:
                self._anything(decorator, self._globals)
                if functions.get(one.name) is one:
                    self._lost(one)

    def enter(self, function: ast.FunctionDef, given: Mapping[str, object]) -> None:
        """Walk a function with arguments by name.

        Raises:
            AstrayError: nothing is sure any more.
        """
        self._entered(function, [], dict(given))

    def _result(self, function: ast.FunctionDef, given: Mapping[str, object]) -> object:
        """Where it is sure."""
        names: Names = {**self._defaults(function.args), **given}
        self._reached.add(function)
        self._block(function.body, names)
        sure = "return?" not in names
        return names.get("return") if sure else self._lost(names.get("return"))

    def _defaults(self, arguments: ast.arguments) -> Names:
        ordered = [*arguments.posonlyargs, *arguments.args]
        names: Names = dict.fromkeys((a.arg for a in (*ordered, *arguments.kwonlyargs)), UNKNOWN)
        names |= {a.arg: UNKNOWN for a in (arguments.vararg, arguments.kwarg) if a is not None}
        with_default = ordered[len(ordered) - len(arguments.defaults) :]
        pairs = [*zip(with_default, arguments.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                  if d is not None]  # fmt: skip
        return names | {one.arg: self._value(default, {}) for one, default in pairs}

    # -- statements ---------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], names: Names) -> bool:
        """Whether nothing behind it is reached."""
        for node in body:
            self._limit.take(1)
            self._reached.add(node)
            if self._ends(node, names):
                return True
        return False

    def _ends(self, node: ast.stmt, names: Names) -> bool:
        match node:
            case ast.Return(value=value):
                names["return"] = None if value is None else self._value(value, names)
                return True
            case ast.Raise():
                self._anything(node, names)
                return True
            case ast.If():
                return self._chosen(node, names)
            case ast.For(target=target, body=body, orelse=[]) if not _jumps(body):
                turns = self._value(node.iter, names)
                if isinstance(turns, tuple) and len(turns) <= MOST_TURNS:
                    return any(self._turn(target, one, body, names) for one in turns)
                self._lost(turns)
                self._vaguely(node, names)
            case ast.Assign(targets=targets, value=value):
                found = self._value(value, names)
                for target in targets:
                    self._bind(target, found, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._value(value, names), names)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                names[name] = self._applied(op, [ast.Name(id=name, ctx=ast.Load()), value], names)
            case ast.Expr(value=value):
                self._value(value, names)
            case ast.With(items=items, body=body) if not any(one.optional_vars for one in items):
                for one in items:
                    self._value(one.context_expr, names)
                return self._block(body, names)
            case _:
                self._vaguely(node, names)
        return False

    def _chosen(self, node: ast.If, names: Names) -> bool:
        test = self._value(node.test, names)
        if not _is_vague(test):
            return self._block(node.body if test else node.orelse, names)
        sides = [dict(names), dict(names)]
        ended = [self._block(*one) for one in zip((node.body, node.orelse), sides, strict=True)]
        on = [side for side, end in zip(sides, ended, strict=True) if not end]
        if any(ended):
            self._lost(*(side.get("return") for side in sides))
            names["return?"] = True
        for name in {name for side in on for name in side}:
            values = [side.get(name, UNKNOWN) for side in on]
            same = all(value is values[0] or value == values[0] for value in values)
            names[name] = values[0] if same else self._lost(*values)
        return all(ended)

    def _turn(self, target: ast.expr, value: object, body: list[ast.stmt], names: Names) -> bool:
        self._bind(target, value, names)
        return self._block(body, names)

    def _vaguely(self, node: ast.stmt, names: Names) -> None:
        """A statement that isn't followed: all that it holds may run, and set its names."""
        inner: Names = dict(names)
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)
                  and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        for one in ast.walk(node):
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                stored.add(one.name)
            elif isinstance(one, ast.arg):
                stored.add(one.arg)
            elif isinstance(one, ast.alias):
                stored.add((one.asname or one.name).partition(".")[0])
        for name in stored:
            inner[name] = self._lost(names.get(name))
        self._reached.update(one for one in ast.walk(node) if isinstance(one, ast.stmt))
        self._anything(node, inner)
        names |= dict.fromkeys(stored, UNKNOWN)
        if any(isinstance(one, ast.Return) for one in ast.walk(node)):
            names["return?"] = True

    def _bind(self, target: ast.expr, value: object, names: Names) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = self._constants.get(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                known = isinstance(value, tuple) and len(value) == len(targets)
                known = known and not any(isinstance(one, ast.Starred) for one in targets)
                parts = value if known and isinstance(value, tuple) else [UNKNOWN] * len(targets)
                if not known:
                    self._lost(value)
                for one, part in zip(targets, parts, strict=True):
                    self._bind(one, part, names)
            case ast.Starred(value=inner):
                self._bind(inner, UNKNOWN, names)
            case ast.Subscript(value=base) if isinstance(self._value(base, names), dict):
                raise AstrayError
            case _:
                self._lost(value)

    # -- values -------------------------------------------------------------------------------

    def _value(self, node: ast.expr, names: Names) -> object:
        self._limit.take(_EXPRESSION)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return names.get(name, self._globals.get(name, self._functions.get(name, UNKNOWN)))
            case ast.Tuple(elts=parts):
                values = [self._value(part, names) for part in parts]
                starred = any(isinstance(part, ast.Starred) for part in parts)
                return self._lost(*values) if starred else _of_few(tuple(values))
            case ast.Dict(keys=keys, values=parts):
                named = [UNKNOWN if key is None else self._value(key, names) for key in keys]
                values = [self._value(part, names) for part in parts]
                if any(map(_is_vague, named)):
                    return self._lost(*values)
                try:
                    return _of_few(dict(zip(named, values, strict=True)))
                except TypeError:
                    return self._lost(*named, *values)
            case ast.Attribute(value=base, attr=name):
                value = self._value(base, names)
                known = isinstance(value, Array) and name in ("shape", "ndim")
                if isinstance(value, Array) and known:
                    return value.shape if name == "shape" else len(value.shape)
                return self._lost(value)
            case ast.Subscript(value=base, slice=at):
                return self._item(self._value(base, names), self._index(at, names))
            case ast.BinOp(left=left, op=op, right=right):
                return self._applied(op, [left, right], names)
            case ast.UnaryOp(op=op, operand=operand):
                return self._applied(op, [operand], names)
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op],
                             comparators=[ast.Constant(value=None)]):  # fmt: skip
                found = self._value(left, names)
                return UNKNOWN if found is UNKNOWN else (found is None) == isinstance(op, ast.Is)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._applied(op, [left, right], names)
            case ast.BoolOp(op=op, values=parts):
                return self._joined([self._value(part, names) for part in parts], op)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self._value(test, names)
                if not _is_vague(holds):
                    return self._value(body if holds else orelse, names)
                return self._lost(self._value(body, names), self._value(orelse, names))
            case ast.Call():
                return self._called(node, names)
        return self._anything(node, names)

    def _applied(self, op: ast.AST, operands: list[ast.expr], names: Names) -> object:
        values = [self._value(operand, names) for operand in operands]
        numbers = all(isinstance(value, int | float) for value in values)
        fits = numbers or isinstance(op, _IDENTITIES)
        return self._computed(_OPERATIONS.get(type(op)) if fits else None, *values)

    def _computed(self, compute: Callable[..., object] | None, *values: object) -> object:
        """What a pure function makes of values, if all of them are known and it makes a size."""
        if compute is None or any(map(_is_vague, values)):
            return self._lost(*values)
        try:
            result = compute(*values)
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            return self._lost(*values)
        is_large = isinstance(result, int | float) and not abs(result) <= LARGEST
        return UNKNOWN if is_large else result

    def _joined(self, values: list[object], op: ast.boolop) -> object:
        ending = isinstance(op, ast.Or)
        for value in values[:-1]:
            if _is_vague(value):
                return self._lost(*values)
            if bool(value) == ending:
                return value
        return values[-1]

    def _index(self, node: ast.expr, names: Names) -> object:
        if not isinstance(node, ast.Slice):
            return self._value(node, names)
        ends = (None if e is None else self._value(e, names)
                for e in (node.lower, node.upper, node.step))  # fmt: skip
        found = tuple(ends)
        return UNKNOWN if any(map(_is_vague, found)) else slice(*found)

    def _item(self, base: object, at: object, *default: object) -> object:
        try:
            if isinstance(base, tuple) and isinstance(at, int | slice):
                return base[at]
            if isinstance(base, dict) and not _is_vague(at):
                return base[at]
        except (LookupError, TypeError, ValueError):
            return default[0] if default else UNKNOWN
        return self._lost(base, *default)

    def _called(self, node: ast.Call, names: Names) -> object:
        values = [self._value(one, names) for one in node.args]
        named = {one.arg or "**": self._value(one.value, names) for one in node.keywords}
        clear = "**" not in named and not any(isinstance(a, ast.Starred) for a in node.args)
        match node.func:
            case ast.Attribute(value=base, attr=method) if clear:
                owner = self._value(base, names)
                if isinstance(owner, dict) and method == "get" and values:
                    return self._item(owner, values[0], *(values[1:] or [None]))
                if isinstance(owner, dict):
                    raise AstrayError
                if isinstance(owner, str) and method in ("startswith", "endswith"):
                    return self._computed(getattr(str, method), owner, *values)
                if isinstance(owner, Array) and not named and method in _OF_ARRAYS:
                    return self._of_array(owner, method, values)
                self._lost(owner)
                called: object = method
            case _:
                called = self._value(node.func, names)
                if isinstance(node.func, ast.Name) and called is UNKNOWN:
                    called = node.func.id if node.func.id not in names else UNKNOWN
        if isinstance(called, ast.FunctionDef):
            return self._entered(called, values, named if clear else None)
        if clear and not named and isinstance(called, str) and called in _CALLS:
            return self._computed(_CALLS[called], *values)
        if any(isinstance(v, dict) for v in (*values, *(v for k, v in named.items() if k != "**"))):
            raise AstrayError  # who has a table may change it
        return self._lost(called, *values, *named.values())

    def _entered(
        self, function: ast.FunctionDef, values: list[object], named: Mapping[str, object] | None
    ) -> object:  # fmt: skip
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if named is None or len(values) > len(parameters):
            return self._lost(function, *values, *(named or {}).values())
        given = dict(zip(parameters, values, strict=False))
        own = {a.arg for a in function.args.kwonlyargs} | set(parameters)
        given |= {name: value for name, value in named.items() if name in own}
        if function.args.kwarg is not None:
            rest: dict[object, object] = {n: v for n, v in named.items() if n not in own}
            given[function.args.kwarg.arg] = _of_few(rest)
        return self._result(function, given)

    def _of_array(self, array: Array, method: str, values: list[object]) -> object:
        match method:
            case "contiguous":
                return array
            case "size":
                return self._item(array.shape, values[0]) if values else array.shape
            case "dim":
                return len(array.shape)
        return math.prod(array.shape)

    # -- what is lost sight of ----------------------------------------------------------------

    def _anything(self, node: ast.AST, names: Names) -> object:
        """An expression or a statement that isn't followed."""
        for inner in ast.walk(node):
            if isinstance(inner, _REBINDING):
                raise AstrayError
            if isinstance(inner, ast.Name):
                self._lost(found := self._value(inner, names))
                if isinstance(found, dict):
                    raise AstrayError
        return UNKNOWN

    def _lost(self, *values: object) -> object:
        """Functions that go where nobody follows them may be called with anything."""
        for function in _functions(values):
            if function not in self._escaped:
                self._escaped.add(function)
                self._result(function, dict.fromkeys(_parameters(function), UNKNOWN))
        return UNKNOWN


def _functions(values: Sequence[object]) -> Iterator[ast.FunctionDef]:
    for value in values:
        if isinstance(value, ast.FunctionDef):
            yield value
        elif isinstance(value, tuple):
            yield from _functions(value)
        elif isinstance(value, dict):
            yield from _functions(tuple(value.values()))


def _of_few(value: tuple[object, ...] | dict[object, object]) -> object:
    if _parts(value) > MOST_PARTS:
        raise AstrayError
    return value


def _parts(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return 1 + sum(map(_parts, inner))


def _is_vague(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_vague, value))
    return value is UNKNOWN or isinstance(value, Array | ast.AST)


def _jumps(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Break | ast.Continue) for one in body for n in ast.walk(one))


def _parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
