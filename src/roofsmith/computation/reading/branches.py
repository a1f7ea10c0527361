"""Conditions on computed numbers: both branches are done, and the condition picks what they leave.

A copy of the reference is read in which `if`, `and` and their like ask here; branches that end a
loop or a function stay as they are, and are refused where computed values decide.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from roofsmith.computation.building import Builder
from roofsmith.computation.evaluate import BINARY, UNARY
from roofsmith.computation.graph import Elementwise, Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import Traced, converted, fresh, lifted
from roofsmith.computation.reading.tape import ROOTS, Tape, traced_math

PLAIN = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Pass, ast.For, ast.If, ast.expr, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword,
)  # fmt: skip
"""Of what branches are made that may both be done: they end no loop and no function."""
NOT_TWICE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
ASKED = "_traced_branches"
NUMBERS = frozenset(("max", "min", "float", "int"))
SIDES = {"gt": "max", "ge": "max", "lt": "min", "le": "min"}
NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}
MATH = {"fabs": "abs"} | {
    name: name for name in (*UNARY, *BINARY, "erf", "erfc") if hasattr(math, name)
}  # fmt: skip
ROUNDED = frozenset(("floor", "ceil", "trunc"))
ROOTED = {name: traced_math(name) for name in ROOTS}


def branched(path: Path) -> ModuleType:
    """The reference's module, whose branches are asked for."""
    tree = _Asking().visit(ast.parse(path.read_text(encoding="utf-8")))
    made = ModuleType(path.stem)
    made.__file__ = str(path)
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), vars(made))
    return made


class _Asking(ast.NodeTransformer):
    """Of functions' statements; all else is the same."""

    def __init__(self) -> None:
        self._depth = self._forks = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_If(self, node: ast.If) -> Any:
        inner = [one for part in (*node.body, *node.orelse) for one in ast.walk(part)]
        is_plain = self._depth and all(isinstance(one, PLAIN) for one in inner)
        stored = [one for one in inner if isinstance(getattr(one, "ctx", None), ast.Store)]
        names = sorted({one.id for one in stored if isinstance(one, ast.Name)})
        parts = [one.value for one in stored if isinstance(one, (ast.Subscript, ast.Attribute))]
        held = sorted({one.id for one in parts if isinstance(one, ast.Name)})
        test = self._test(node.test)
        node.test = ast.Constant(value=True)  # it is asked once
        self.generic_visit(node)
        if not is_plain:
            node.test = test
            return node
        self._forks += 1
        fork = f"_fork_{self._forks}"
        reads, changed = ("".join(f"lambda: {one}, " for one in some) for some in (names, held))
        targets = f"({', '.join(names)},) = " if names else ""
        made = ast.parse(
            f"{fork} = {ASKED}.fork(0, ({reads}), ({changed}))\n"
            f"while {fork}.goes():\n    {targets}{fork}.begun()\n    if {fork}.way: pass\n"
            f"    else: pass\n    {targets}{fork}.left(({reads}))"
        ).body
        for one in (one for part in made for one in ast.walk(part)):
            if isinstance(one, (ast.stmt, ast.expr)):
                ast.copy_location(one, node)
        vars(vars(made[0])["value"])["args"][0] = test
        way = vars(made[1])["body"][1]
        way.body, way.orelse = node.body, node.orelse or [ast.Pass()]
        return made

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if any(isinstance(one, NOT_TWICE) for one in ast.walk(node)):
            return node
        parts = [_later(self.visit(one)) for one in (node.body, node.orelse)]
        return ast.copy_location(_asked("either", self._test(node.test), *parts), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in NUMBERS:
            name = ast.copy_location(ast.Name(id=ASKED, ctx=ast.Load()), node)
            function = ast.Attribute(value=name, attr=f"{node.func.id}_of", ctx=ast.Load())
            node.args.insert(0, node.func)
            node.func = ast.copy_location(function, node)
        return node

    def _test(self, node: ast.expr) -> ast.expr:
        if any(isinstance(one, NOT_TWICE) for one in ast.walk(node)):
            return node
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            pairs: list[ast.expr] = [
                ast.copy_location(ast.Compare(left=left, ops=[op], comparators=[right]), node)
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return self._test(ast.copy_location(ast.BoolOp(op=ast.And(), values=pairs), node))
        if isinstance(node, ast.BoolOp):
            name = "all_of" if isinstance(node.op, ast.And) else "any_of"
            parts = [_later(self._test(one)) for one in node.values]
            return ast.copy_location(_asked(name, *parts), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(_asked("none_of", self._test(node.operand)), node)
        made: ast.expr = self.visit(node)
        return made


def _later(node: ast.expr) -> ast.expr:
    made = ast.parse("lambda: 0", mode="eval").body
    assert isinstance(made, ast.Lambda)
    made.body = node
    return ast.copy_location(made, node)


def _asked(name: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(value=ast.Name(id=ASKED, ctx=ast.Load()), attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=[*args], keywords=[])


class Unbound:
    """Of a name that only the other branch gives a value."""


def _read(names: Iterable[Callable[[], Any]]) -> list[Any]:
    found = []
    for one in names:
        try:
            found.append(one())
        except NameError:
            found.append(Unbound())
    return found


class Branches:
    """What a copy of a reference asks."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def fork(self, test: Any, names: Sequence[Any], held: Sequence[Any]) -> Fork:
        """One `if`: its condition, the names that its branches bind, and what they change."""
        return Fork(self._tape, test, names, held)

    def either(self, test: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`one if test else other`."""
        if not _is_open(test):
            return one() if test else other()
        with self._tape.under(test):
            first = one()
        with self._tape.under(self.none_of(test)):
            second = other()
        return picked(self._tape, test, first, second)

    def all_of(self, *parts: Callable[[], Any]) -> Any:
        """`and`."""
        return self._several(parts, np.logical_and, ends=False)

    def any_of(self, *parts: Callable[[], Any]) -> Any:
        """`or`."""
        return self._several(parts, np.logical_or, ends=True)

    def _several(self, parts: Sequence[Callable[[], Any]], function: Any, *, ends: bool) -> Any:
        found: Any = not ends
        for part in parts:
            value = part()
            if not _is_open(value):
                if bool(value) == ends:
                    return ends
                continue
            found = value if isinstance(found, bool) else function(found, value)
        return found

    def none_of(self, test: Any) -> Any:
        """`not`."""
        return np.logical_not(test) if _is_open(test) else not test

    def max_of(self, function: Any, *args: Any, **options: Any) -> Any:
        """`max`."""
        return self._most(function, np.greater, args, options)

    def min_of(self, function: Any, *args: Any, **options: Any) -> Any:
        """`min`."""
        return self._most(function, np.less, args, options)

    def _most(self, function: Any, compare: Any, args: Any, options: Any) -> Any:
        given = list(args[0]) if len(args) == 1 and not options else args
        if options or not any(map(_is_open, given)):
            return function(*args, **options)
        most = given[0]
        for one in given[1:]:
            most = picked(self._tape, compare(one, most), one, most)
        return most

    def float_of(self, function: Any, *args: Any) -> Any:
        """`float`."""
        return number(args[0], float) if args and _is_open(args[0]) else function(*args)

    def int_of(self, function: Any, *args: Any) -> Any:
        """`int`: towards zero."""
        return number(args[0], int) if args and _is_open(args[0]) else function(*args)


class Fork:
    """One `if`, whose branches are done one after the other where nobody knows which one is."""

    def __init__(self, tape: Tape, test: Any, names: Sequence[Any], held: Sequence[Any]) -> None:
        self._tape, self._test, self.way = tape, test, False
        self._open = _is_open(test)
        self._ways = [True, False] if self._open else [bool(test)]
        self._left: list[list[Any]] = []
        self._before = _read(names)
        if not self._open:
            return
        if test.size != 1:
            bool(np.empty(test.shape))  # what NumPy says of it
        if any(not isinstance(one, Traced) for one in _read(held)):
            raise tape.refuse("what isn't an array is changed where computed values decide")
        self._before = [
            number(lifted(tape, one), type(one)) if type(one) in (int, float) else one
            for one in self._before
        ]

    def goes(self) -> bool:
        """Whether there is another way to go."""
        if not self._ways:
            return False
        self.way = self._ways.pop(0)
        if self._open:
            test = self._test if self.way else np.logical_not(self._test)
            self._under = self._tape.under(test)
            self._under.__enter__()
        return True

    def begun(self) -> Any:
        """What names are at its begin."""
        return self._before

    def left(self, names: Sequence[Any]) -> list[Any]:
        found = _read(names)
        if not self._open:
            return found
        self._under.__exit__(None, None, None)
        self._left.append(found)
        if self._ways:
            return self._before
        return [picked(self._tape, self._test, *pair)
                for pair in zip(*self._left, strict=True)]  # fmt: skip


def _is_open(value: Any) -> bool:
    return isinstance(value, Traced) and value.given


def number(value: Traced, kind: type) -> Traced:
    """A number of Python's own kind: it takes the type of what it is combined with."""
    dtype = np.dtype(np.float64 if kind is float else np.int64)
    node = converted(value.tape, value.node, dtype.name)
    with np.errstate(all="ignore"):
        made = value.made(node, value.real.astype(dtype).reshape(()))
    made.weak = kind
    return made


def picked(tape: Tape, test: Traced, one: Any, other: Any) -> Any:
    """`one` where the condition holds."""
    if one is other:
        return one
    if isinstance(one, Unbound) or isinstance(other, Unbound):
        return other if isinstance(one, Unbound) else one
    if not (isinstance(one, Traced) or isinstance(other, Traced)) and type(one) is type(other):
        if one == other:
            return one
        if not isinstance(one, (int, float)):
            raise tape.refuse("a computed value decides between what are no numbers")
    values = [one, other]
    kinds = [kind_of(value) for value in values]
    if all(isinstance(kind, type) for kind in kinds):
        kind = float if any(kind is float for kind in kinds) else int
        sides = [number(lifted(tape, value), kind) for value in values]
    else:
        dtype = np.result_type(*(kind(0) if isinstance(kind, type) else kind for kind in kinds))
        sides = [lifted(tape, value).astype(dtype) for value in values]
    if sides[0].shape != sides[1].shape:
        raise tape.refuse("a computed value decides which shape an array has")
    b = tape.builder
    mask = converted(tape, test.node, "bool")
    for _ in range(len(test.shape)):
        mask = b.reshape(mask)
    node = _chosen(b, mask, *(side.node for side in sides))
    made = fresh(tape, node, sides[0].real, given=True)
    made.weak = sides[0].weak
    return made


def kind_of(value: Any) -> Any:
    """A dtype, or `int` or `float` of a number without one."""
    if isinstance(value, Traced):
        return value.weak or value.dtype
    is_weak = isinstance(value, (int, float)) and not isinstance(value, (bool, np.generic))
    return (float if isinstance(value, float) else int) if is_weak else lifted_dtype(value)


def lifted_dtype(value: Any) -> Any:
    """Of anything else."""
    return np.asarray(value).dtype


def _chosen(b: Builder, test: Id, one: Id, other: Id) -> Id:
    """`where`, or what says it in fewer words: the larger, or a sum to which nothing is added.

    Where a number is NaN, the larger is NaN, and isn't the one that was there.
    """
    compared = b[test]
    if isinstance(compared, Elementwise) and compared.op in SIDES:
        for pair, op in ((compared.args, SIDES[compared.op]), (compared.args[::-1], "")):
            if all(forms.is_same(b, *two) for two in zip(pair, (one, other), strict=True)):
                turned = {"max": "min", "min": "max"}[SIDES[compared.op]]
                return b.apply(op or turned, one, other)
    for way, changed, kept in ((True, one, other), (False, other, one)):
        node = b[changed]
        if isinstance(node, Elementwise) and node.op in NEUTRAL:
            at = [place for place in (0, 1) if forms.is_same(b, node.args[place], kept)]
            if at and (at[0] == 0 or node.op in ("add", "mul")):
                nothing = b.constant(NEUTRAL[node.op], node.dtype)
                added = node.args[1 - at[0]]
                sides = (added, nothing) if way else (nothing, added)
                return b.apply(node.op, kept, b.apply("where", test, *sides))
    return b.apply("where", test, one, other)


def of_math(tape: Tape) -> dict[str, Callable[..., Any]]:
    """`math`'s functions of computed numbers, in float64 as Python's."""

    def made(name: str) -> Callable[..., Any]:
        known = ROOTED.get(name, getattr(math, name))

        def applied(*args: Any) -> Any:
            if not any(isinstance(one, Traced) for one in args):
                return known(*args)
            b = tape.builder
            sides = [number(lifted(tape, one), float) for one in args]
            node = b.apply(MATH[name], *(side.node for side in sides))
            if b[node].dtype == "bool":
                return fresh(tape, node, np.bool_(False), given=True)
            value = fresh(tape, node, sides[0].real, given=True)
            return number(value, int if name in ROUNDED else float)

        return applied

    return {name: made(name) for name in MATH}
