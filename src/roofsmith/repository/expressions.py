"""Expressions over a benchmark's columns: `6*M*N*K / ((fwd_ms + bwd_ms) * 1e-3)`.

    formula:    numbers, names and (formulas) with + - * / between them, and a leading -
    condition:  formula == formula, with != < <= > >=, joined by `and`, `or`

A name is an identifier, or any column between brackets or backticks: `[Forward TFLOPS]`. In a
condition, a name that is no column is a text, as in `Check == PASS`, and so is what stands between
quotes.

Python parses them, of what `_TOKEN` lets through and with every number, name and text replaced by
`_0`, `_1`, and so on; nothing is ever given to it to evaluate.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

MAX_CHARS: Final = 1000
MAX_DEPTH: Final = 50
"""Signs and right-hand sides within one another; more is no formula that anybody wrote."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<column>\[[^\[\]]+\]|`[^`]+`)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<mark>==|!=|<=|>=|[-+*/()<>]))"
)
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: lambda left, right: left < right or left > right,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

Row = Mapping[str, str]
"""Column to what stands there."""

DECIMAL_COMMAS: Final = (
    "are these decimal commas? `environment: {LC_NUMERIC: C}` (LC_ALL, where that is set) prints"
    " points; for init, --benchmark 'LC_NUMERIC=C COMMAND'"
)


class ExpressionError(ValueError):
    """An expression that can't be read, or has no value for a row; the message is for people."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or another metric."""

    name: str
    plain: bool = True
    """Whether it could also be a text: an identifier without brackets."""


Leaf = float | Name | str
"""A number, a name, or what stood between quotes."""


@dataclass(frozen=True, slots=True)
class RowExpression:
    """A formula or a condition, or a part of one."""

    tree: ast.expr
    """Of nothing but what the module's docstring lists."""
    leaves: Sequence[Leaf]
    """What the tree's names stand for."""

    def leaf(self, node: ast.Name) -> Leaf:
        return self.leaves[int(node.id[1:])]


def formula(text: str) -> RowExpression:
    """Read a formula.

    Raises:
        ExpressionError: says at which place it can't be read.
    """
    return _read(text, _require_formula)


def condition(text: str) -> RowExpression:
    """Read a condition.

    Raises:
        ExpressionError: says at which place it can't be read.
    """
    return _read(text, _require_condition)


def names(of: RowExpression) -> Iterator[Name]:
    found = (node for node in ast.walk(of.tree) if isinstance(node, ast.Name))
    for node in sorted(found, key=lambda node: node.col_offset):
        if isinstance(leaf := of.leaf(node), Name):
            yield leaf


def tests(of: RowExpression) -> Iterator[RowExpression]:
    for node in ast.walk(of.tree):
        if isinstance(node, ast.Compare):
            yield replace(of, tree=node)


def evaluate(of: RowExpression, value: Callable[[str], float]) -> float:
    """The number that a formula comes to; `value` knows its names.

    Raises:
        ExpressionError: a division by zero, or a text among numbers.
    """
    try:
        return _number(of.tree, of, value)
    except ZeroDivisionError:
        raise ExpressionError("it divides by zero") from None


def holds(of: RowExpression, row: Row) -> bool:
    """Whether a row meets a condition; NaN equals nothing.

    Raises:
        ExpressionError: a column that isn't there, or a text that is compared by size.
    """
    match of.tree:
        case ast.BoolOp(op=word, values=parts):
            met = (holds(replace(of, tree=part), row) for part in parts)
            return all(met) if isinstance(word, ast.And) else any(met)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            sides = (_side(replace(of, tree=side), row) for side in (left, right))
            return _compared(sign, *sides)
        case _:
            raise AssertionError("nothing else is read")


def number_in(row: Row, name: str) -> float:
    """The number in a column.

    Raises:
        ExpressionError: there is no such column, or no number in it.
    """
    if name not in row:
        raise ExpressionError(f"there is no column {name!r} (columns: {', '.join(row)})")
    found = as_number(row[name])
    if found is None:
        why = f"; {DECIMAL_COMMAS}" if has_comma(row[name]) else ""
        raise ExpressionError(f"{row[name]!r} in column {name!r} is not a number{why}")
    return found


def has_comma(text: str) -> bool:
    """Whether it would be a number with a point in place of a comma."""
    return re.fullmatch(r"[-+]?[\d.]*\d,\d+(?:[eE][-+]?\d+)?", text) is not None


def as_number(text: str) -> float | None:
    """The number that a text spells; None if it doesn't. `1e3`, `inf` and `nan` are numbers."""
    try:
        return float(text)
    except ValueError:
        return None


def _number(node: ast.expr, of: RowExpression, value: Callable[[str], float]) -> float:
    match node:
        case ast.BinOp(left=left, op=sign, right=right):
            return _ARITHMETIC[type(sign)](_number(left, of, value), _number(right, of, value))
        case ast.UnaryOp(operand=inner):
            return -_number(inner, of, value)
        case _:
            assert isinstance(node, ast.Name), "nothing else is read"
    leaf = of.leaf(node)
    if isinstance(leaf, str):
        raise ExpressionError(f"{leaf!r} is a text, not a number")
    return value(leaf.name) if isinstance(leaf, Name) else leaf


def _side(of: RowExpression, row: Row) -> float | str:
    """A side of a comparison: a text where it is one, else a number."""
    leaf = of.leaf(of.tree) if isinstance(of.tree, ast.Name) else None
    if isinstance(leaf, str):
        return leaf
    if isinstance(leaf, Name) and leaf.name in row:
        number = as_number(row[leaf.name])
        return row[leaf.name] if number is None else number
    if isinstance(leaf, Name) and leaf.plain:
        return leaf.name
    return evaluate(of, lambda name: number_in(row, name))


def _compared(sign: ast.cmpop, left: float | str, right: float | str) -> bool:
    if not (isinstance(left, str) or isinstance(right, str)):
        return _COMPARISONS[type(sign)](left, right)
    left, right = (side if isinstance(side, str) else f"{side:g}" for side in (left, right))
    if not isinstance(sign, ast.Eq | ast.NotEq):
        raise ExpressionError(f"{left!r} against {right!r}: texts are only equal or not")
    return (left == right) is isinstance(sign, ast.Eq)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    source: str
    leaves: Sequence[Leaf]
    places: Sequence[tuple[int, int]]
    """Where each token begins in the source, and in the text."""

    def wrong(self, what: str, column: int) -> ExpressionError:
        """That something can't be read which begins at a column of the source."""
        at = max((place for start, place in self.places if start <= column), default=0)
        after = repr(self.text[at:]) if column < len(self.source) else "its end"
        return ExpressionError(f"{self.text!r}: {what} at {after}")


def _read(text: str, require: Callable[[ast.expr, _Text], None]) -> RowExpression:
    said = _tokens(text)
    try:
        tree = ast.parse(said.source, mode="eval").body
    except SyntaxError as error:
        column = error.offset - 1 if error.offset else len(said.source)  # 0 means the end
        ticks = ", in backticks if it is a column's name: `time [ms]`" if "[" in text else ""
        raise said.wrong(f"it can't be read{ticks},", column) from None
    require(tree, said)
    return RowExpression(tree, said.leaves)


def _tokens(text: str) -> _Text:
    if len(text) > MAX_CHARS:
        raise ExpressionError(f"an expression of more than {MAX_CHARS} characters")
    if not text.strip():
        raise ExpressionError("it is empty")
    at, source, leaves, places = 0, "", list[Leaf](), list[tuple[int, int]]()
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            strange = text[at:].strip()[0]
            ticks = "; a column with brackets in its name stands in backticks: `time [ms]`"
            why = ticks if strange in "[]" else ""
            raise ExpressionError(f"{text!r}: {strange!r} can't stand in an expression{why}")
        kind = found.lastgroup or ""
        token, leaf = found[kind], _leaf(kind, found[kind])
        places.append((len(source), found.start(kind)))
        source += f"{token if leaf is None else f'_{len(leaves)}'} "
        leaves += [] if leaf is None else [leaf]
        at = found.end()
    return _Text(text, source.rstrip(), leaves, places)


def _leaf(kind: str, token: str) -> Leaf | None:
    """What a token stands for; None: for itself."""
    match kind:
        case "number":
            return float(token)
        case "column":
            return Name(token[1:-1].strip(), plain=False)
        case "text":
            return token[1:-1]
        case "name" if token not in ("and", "or"):
            return Name(token)
        case _:
            return None


def _require_formula(tree: ast.expr, said: _Text, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise said.wrong(f"more than {MAX_DEPTH} deep", tree.col_offset)
    match tree:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            _require_formula(left, said, depth)
            _require_formula(right, said, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _require_formula(inner, said, depth + 1)
        case ast.Name():
            return
        case _:
            raise said.wrong("a number or a column is expected", tree.col_offset)


def _require_condition(tree: ast.expr, said: _Text) -> None:
    match tree:
        case ast.BoolOp(values=parts):
            for part in parts:
                _require_condition(part, said)
        case ast.Compare(left=left, ops=[_], comparators=[right]):
            _require_formula(left, said)
            _require_formula(right, said)
        case _:
            raise said.wrong("a comparison such as `err == 0` is expected", tree.col_offset)
