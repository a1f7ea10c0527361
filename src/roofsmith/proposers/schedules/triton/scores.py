"""What the scores of attention are: which keys a query sees, and whether they are finite."""

from __future__ import annotations

import math
from dataclasses import replace

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.strides import coefficient

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


def unmasked(score: e.Expression, m: str, n: str) -> tuple[e.Expression, Size | None]:
    """Scores where no key comes after its query, and by how much the last key may come after it.

    None: nothing forbids keys by where they are.
    """
    found: list[Size] = []

    def visit(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Operation):
            return value
        if value.op == "where":
            test, one, other = value.args
            for chosen, masked, is_met in ((one, other, True), (other, one, False)):
                if _is_forbidden(masked):
                    last = _last(test, is_met, m, n)
                    if last is not None:
                        found.append(last)
                        return visit(chosen)
                    return replace(value, args=(test, visit(one), visit(other)))
        if value.op in ("add", "sub"):
            return replace(value, args=tuple(map(visit, value.args)))
        return value

    plain = visit(score)
    return (plain, found[0]) if len(found) == 1 else (score, None)


def _is_forbidden(value: e.Expression) -> bool:
    while isinstance(value, e.Converted):
        value = value.arg
    return isinstance(value, e.Number) and value.value == float("-inf")


def _last(test: e.Expression, is_met: bool, m: str, n: str) -> Size | None:
    """`c` if the test says that n <= m + c, which has to be as `is_met` says."""
    while isinstance(test, e.Operation) and test.op == "not":
        (test,), is_met = test.args, not is_met
    if not isinstance(test, e.Operation) or test.op not in ("ge", "le", "gt", "lt"):
        return None
    places = []
    for one in test.args:
        while isinstance(one, e.Converted):
            one = one.arg
        if isinstance(one, e.Number) and one.dtype.startswith("int"):
            places.append(Size.of(int(one.value)))
        elif isinstance(one, e.Position):
            places.append(one.index)
        elif isinstance(one, e.Operation) and one.op in ("add", "sub"):
            parts = []
            for arg in one.args:
                while isinstance(arg, e.Converted):
                    arg = arg.arg
                if isinstance(arg, e.Position):
                    parts.append(arg.index)
                elif isinstance(arg, e.Number) and arg.dtype.startswith("int"):
                    parts.append(Size.of(int(arg.value)))
                else:
                    return None
            places.append(parts[0] + parts[1] if one.op == "add" else parts[0] - parts[1])
        else:
            return None
    left, right = places
    op = test.op
    if not is_met:
        op = {"ge": "lt", "le": "gt", "gt": "le", "lt": "ge"}[op]
    if op in ("le", "lt"):
        left, right, op = right, left, {"le": "ge", "lt": "gt"}[op]
    room = left - right - (1 if op == "gt" else 0)  # not negative
    if coefficient(room, m) != ONE or coefficient(room, n) != Size.of(-1):
        return None
    return room - Size.of(m) + Size.of(n)
