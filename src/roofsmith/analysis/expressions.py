"""Expressions over a benchmark's columns, read into a tree: `6*M*N*K / ((fwd_ms + bwd_ms) * 1e-3)`.

    formula:    sum | sum of products of numbers, names and (formulas); + - * / and a leading -
    condition:  formula == formula, with != < <= > >=, joined by `and`, `or`

A name is an identifier, or any column between brackets or backticks: `[Forward TFLOPS]`. In a
condition, a name that is no column is a text, as in `Check == PASS`, and so is what stands between
quotes.
Nothing is ever given to Python to evaluate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, assert_never

MAX_CHARS: Final = 1000
MAX_DEPTH: Final = 50
"""Brackets within brackets; more is no formula that anybody wrote."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*|\[[^\[\]]+\]|`[^`]+`)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<mark>==|!=|<=|>=|[-+*/()<>]))"
)

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Row = Mapping[str, str]
"""Column to what stands there."""


class ExpressionError(ValueError):
    """An expression that can't be read, or has no value for a row; the message is for people."""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or another metric."""

    name: str
    plain: bool = True
    """Whether it could also be a text: an identifier without brackets."""


@dataclass(frozen=True, slots=True)
class Text:
    """What stood between quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus a formula."""

    of: Formula


@dataclass(frozen=True, slots=True)
class Operation:
    """Two formulas, and what is done to them."""

    sign: Literal["+", "-", "*", "/"]
    left: Formula
    right: Formula


Formula = Number | Name | Text | Negative | Operation


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of two formulas."""

    sign: Comparison
    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions of which all must hold, or any."""

    word: Literal["and", "or"]
    parts: tuple[Condition, ...]


Condition = Test | Joined


def formula(text: str) -> Formula:
    """Read a formula.

    Raises:
        ExpressionError: says at which place it can't be read.
    """
    reader = _Reader(text)
    found = reader.sum()
    reader.end()
    return found


def condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        ExpressionError: says at which place it can't be read.
    """
    reader = _Reader(text)
    found = reader.alternatives()
    reader.end()
    return found


def names(tree: Formula | Condition) -> Iterator[Name]:
    """Every name in an expression, in order."""
    match tree:
        case Name():
            yield tree
        case Negative(of=inner):
            yield from names(inner)
        case Operation(left=left, right=right) | Test(left=left, right=right):
            yield from names(left)
            yield from names(right)
        case Joined(parts=parts):
            for part in parts:
                yield from names(part)
        case Number() | Text():
            return
        case _:
            assert_never(tree)


def tests(tree: Condition) -> Iterator[Test]:
    """Every comparison in a condition, in order."""
    match tree:
        case Test():
            yield tree
        case Joined(parts=parts):
            for part in parts:
                yield from tests(part)
        case _:
            assert_never(tree)


def evaluate(tree: Formula, value: Callable[[str], float]) -> float:
    """The number that a formula comes to; `value` knows its names.

    Raises:
        ExpressionError: a division by zero, or a text among numbers.
    """
    match tree:
        case Number(value=number):
            return number
        case Name(name=name):
            return value(name)
        case Negative(of=inner):
            return -evaluate(inner, value)
        case Text(text=text):
            raise ExpressionError(f"{text!r} is a text, not a number")
        case Operation(sign=sign, left=left, right=right):
            return _done(sign, evaluate(left, value), evaluate(right, value))
        case _:
            assert_never(tree)


def holds(tree: Condition, row: Row) -> bool:
    """Whether a row meets a condition; NaN equals nothing.

    Raises:
        ExpressionError: a column that isn't there, or a text that is compared by size.
    """
    match tree:
        case Joined(word="and", parts=parts):
            return all(holds(part, row) for part in parts)
        case Joined(parts=parts):
            return any(holds(part, row) for part in parts)
        case Test(sign=sign, left=left, right=right):
            return _compared(sign, _side(left, row), _side(right, row))
        case _:
            assert_never(tree)


def number_in(row: Row, name: str) -> float:
    """The number in a column.

    Raises:
        ExpressionError: there is no such column, or no number in it.
    """
    if name not in row:
        raise ExpressionError(f"there is no column {name!r} (columns: {', '.join(row)})")
    found = as_number(row[name])
    if found is None:
        raise ExpressionError(f"{row[name]!r} in column {name!r} is not a number")
    return found


def as_number(text: str) -> float | None:
    """The number that a text spells; None if it doesn't. `1e3`, `inf` and `nan` are numbers."""
    try:
        return float(text)
    except ValueError:
        return None


def _done(sign: Literal["+", "-", "*", "/"], left: float, right: float) -> float:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if right == 0:
                raise ExpressionError("it divides by zero")
            return left / right
        case _:
            assert_never(sign)


def _side(tree: Formula, row: Row) -> float | str:
    """A side of a comparison: a text where it is one, else a number."""
    match tree:
        case Text(text=text):
            return text
        case Name(name=name, plain=plain):
            if name in row:
                number = as_number(row[name])
                return row[name] if number is None else number
            if plain:
                return name
            raise ExpressionError(f"there is no column {name!r} (columns: {', '.join(row)})")
        case _:
            return evaluate(tree, lambda name: number_in(row, name))


def _compared(sign: Comparison, left: float | str, right: float | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        left, right = _spelled(left), _spelled(right)
        match sign:
            case "==":
                return left == right
            case "!=":
                return left != right
            case _:
                raise ExpressionError(f"{left!r} {sign} {right!r}: texts are only equal or not")
    match sign:
        case "==":
            return left == right
        case "!=":
            return left != right and not math.isnan(left) and not math.isnan(right)
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            assert_never(sign)


def _spelled(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise ExpressionError(f"an expression of more than {MAX_CHARS} characters")
        self._text = text
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    def alternatives(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._test))

    def sum(self) -> Formula:
        found = self._product()
        while (sign := self._mark("+", "-")) is not None:
            found = Operation("+" if sign == "+" else "-", found, self._product())
        return found

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._tokens[self._at][1]!r} is not expected")

    def _joined(self, word: Literal["and", "or"], part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._peek() == ("name", word):
            self._at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _test(self) -> Condition:
        left = self.sum()
        for sign in _COMPARISONS:
            if self._mark(sign) is not None:
                return Test(sign, left, self.sum())
        raise self._wrong("a comparison such as `err == 0` is expected")

    def _product(self) -> Formula:
        found = self._factor()
        while (sign := self._mark("*", "/")) is not None:
            found = Operation("*" if sign == "*" else "/", found, self._factor())
        return found

    def _factor(self) -> Formula:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"brackets or signs more than {MAX_DEPTH} deep")
        found = self._inner()
        self._depth -= 1
        return found

    def _inner(self) -> Formula:
        if self._mark("-") is not None:
            return Negative(self._factor())
        if self._mark("(") is not None:
            found = self.sum()
            if self._mark(")") is None:
                raise self._wrong("a ) is missing")
            return found
        kind, text = self._peek()
        self._at += 1
        match kind:
            case "number":
                return Number(float(text))
            case "name" if text[0] in "[`":
                return Name(text[1:-1].strip(), plain=False)
            case "name" if text not in ("and", "or"):
                return Name(text)
            case "text":
                return Text(text[1:-1])
            case _:
                self._at -= 1
                raise self._wrong("a number or a column is expected")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _mark(self, *marks: str) -> str | None:
        kind, text = self._peek()
        if kind != "mark" or text not in marks:
            return None
        self._at += 1
        return text

    def _split(self) -> Iterator[tuple[str, str]]:
        at = 0
        text = self._text.rstrip()
        if not text:
            raise ExpressionError("it is empty")
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                rest = text[at:].strip()
                raise ExpressionError(f"{self._text!r}: {rest[0]!r} can't stand in an expression")
            assert found.lastgroup is not None, "one of the groups has matched"
            yield found.lastgroup, found[found.lastgroup]
            at = found.end()

    def _wrong(self, what: str) -> ExpressionError:
        before = " ".join(text for _, text in self._tokens[: self._at])
        where = f"after {before!r}" if before else "at the beginning"
        return ExpressionError(f"{self._text!r}: {what} {where}")


_COMPARISONS: Final[tuple[Comparison, ...]] = ("==", "!=", "<=", ">=", "<", ">")
