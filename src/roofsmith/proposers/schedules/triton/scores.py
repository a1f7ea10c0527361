"""What the scores of attention are: which keys a query sees, and whether they are finite."""

from __future__ import annotations

import math

from roofsmith.proposers.schedules import expressions as e

_SMOOTH = frozenset(("add", "sub", "mul", "neg", "tanh"))


def is_finite(score: e.Expression) -> bool:
    """Whether finite products can't become scores of minus infinity."""
    return all(
        isinstance(one, e.Held | e.Converted | e.Position)
        or (isinstance(one, e.Number) and math.isfinite(one.value))
        or (isinstance(one, e.Operation) and one.op in (*_SMOOTH, "div", "sqrt", "rsqrt"))
        for one in e.walk(score)
    )


def is_positive(value: e.Expression, variables: frozenset[str]) -> bool:
    """Whether it is the same for every score, and above zero."""
    match value:
        case e.Number():
            return value.value > 0
        case e.Position(index=size):
            return not size.dims & variables and all(count > 0 for _, count in size.terms)
        case e.Converted():
            return is_positive(value.arg, variables)
        case e.Operation(op="mul" | "div" | "sqrt" | "rsqrt" | "add"):
            return all(is_positive(arg, variables) for arg in value.args)
        case _:
            return False
