"""Whole numbers that source text computes from constants: `BM * BK / 4`, in C as in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

_LARGEST = 1 << 62
"""Larger numbers are no sizes, and text that squares them again and again fills memory."""
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]+\b")
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << min(b, 64),
    ast.RShift: lambda a, b: a >> b,
}


def computed(text: str, names: Mapping[str, int]) -> int | None:
    """The value of an expression; None where a name in it is not known, or it isn't arithmetic."""
    try:
        tree = ast.parse(_SUFFIX.sub(r"\1", text).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return value_of(tree.body, names)


def value_of(node: ast.expr, names: Mapping[str, int]) -> int | None:
    """The same of an expression that is parsed."""
    try:
        value = _value(node, names)
    except RecursionError:
        return None
    return None if value is None or abs(value) > _LARGEST else value


def _value(node: ast.expr, names: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return int(value)
        case ast.Name(id=name):
            return names.get(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            one, other = _value(left, names), _value(right, names)
            if one is None or other is None or max(abs(one), abs(other)) > _LARGEST:
                return None
            try:
                return _OPERATIONS[type(op)](one, other)
            except (ArithmeticError, ValueError):
                return None
    return None
