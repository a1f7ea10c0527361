"""What groups compute, in a line for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced, Scanned, Scattered, Sorted

DEEPEST = 4
"""Operations within one another that are written out. Chosen."""
SIGNS: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<",
    "shift_right": ">>",
}  # fmt: skip
"""Of operations, in every language that is written."""


def said(group: Group, size_text: Callable[[Size], str]) -> str:
    """A group in a sentence; `size_text` writes sizes as the language does."""

    def short(value: e.Expression) -> str:
        text = formula(value, size_text)
        return text[1:-1] if isinstance(value, e.Operation) and value.op in SIGNS else text

    along = ", ".join(axis.name for axis in group.inner)
    parts: list[str] = []
    if (one := group.product) is not None:
        m, n, k = (size_text(axis.size) for axis in (one.rows, one.columns, one.depth))
        parts.append(
            f"{one.buffer} = {one.left.buffer} times {one.right.buffer}, {m} x {n} sums of {k}"
        )
    for step in group.steps:
        value = short(step.value)
        match step:
            case Reduced():
                parts.append(f"{step.name} = {step.op} of {value} over {along}")
            case Scanned():
                parts.append(f"{step.name} = running {step.op} of {value} along {along}")
            case Scattered():
                parts.append(f"{step.buffer}[...] {step.op} {value}, in order")
            case Sorted():
                parts.append(f"{step.buffer} = {value} sorted along {along}")
            case _:
                parts.append(f"{step.buffer} = {value}")
    where = ", ".join(f"{axis.name} < {size_text(axis.size)}" for axis in group.outer)
    return f"For {where}: {'; '.join(parts)}." if where else f"{'; '.join(parts)}."


def formula(value: e.Expression, size_text: Callable[[Size], str], depth: int = DEEPEST) -> str:
    match value:
        case e.Read():
            return value.buffer
        case e.Held() | e.Argument():
            return value.name
        case e.Number():
            return f"{value.value:g}"
        case e.Position():
            return size_text(value.index)
        case e.Converted():
            return formula(value.arg, size_text, depth)
        case _ if depth == 0:
            return "..."
        case e.Within():
            return formula(value.inside, size_text, depth - 1)
        case e.Operation():
            args = [formula(arg, size_text, depth - 1) for arg in value.args]
            if value.op in SIGNS:
                return f"({args[0]} {SIGNS[value.op]} {args[1]})"
            return f"{value.op}({', '.join(args)})"
        case _:
            return "..."


def stripped(text: str) -> str:
    """Without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
