"""Operations and numbers as Triton writes them, and the helpers that some of them need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.lowering import NoSchedule

HALVES = frozenset(("float16", "bfloat16"))
FLOATS = HALVES | {"float32", "float64"}
STORAGE: Mapping[str, str] = {
    **{name: f"tl.{name}" for name in (
        "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    )},
    "bool": "tl.int1",
}  # fmt: skip
_INFIX: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<",
    "shift_right": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_OF_TL = frozenset(
    ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "abs")
)
HELPERS: Mapping[str, str] = {
    "larger": '"""The larger; NaN where one is."""\n'
    "    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "smaller": '"""The smaller; NaN where one is."""\n'
    "    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "multiplied": "return a * b",
    "tanh": '"""By one exponential, which can\'t overflow; a series where that would lose digits."""\n'
    "    faded = tl.exp(-2.0 * tl.abs(a))\n"
    "    size = (1.0 - faded) / (1.0 + faded)\n"
    "    square = a * a\n"
    "    near = a * (1.0 - square * (0.33333333 - square * 0.13333333))\n"
    "    return tl.where(tl.abs(a) < 0.06, near, tl.where(a < 0.0, -size, size))",
    "log1p": '"""Of a + 1, and what rounding that lost."""\n'
    "    one = 1.0 + a\n"
    "    return tl.where(one == 1.0, a, tl.where(one - one == 0.0, "
    "tl.log(one) * (a / (one - 1.0)), tl.log(one)))",
    "expm1": '"""Kahan\'s: the rounding of the exponential cancels."""\n'
    "    power = tl.exp(a)\n"
    "    less = power - 1.0\n"
    "    exact = less * a / tl.log(power)\n"
    "    return tl.where(power == 1.0, a, tl.where(tl.abs(a) < 0.5, exact, less))",
    "rounded": '"""To the even neighbour: a float32 of this size has no bits behind the point."""\n'
    "    return tl.where(tl.abs(a) < 4194304.0, (a + 12582912.0) - 12582912.0, a)",
    "whole_quotient": '"""Rounded down."""\n'
    "    return a // b - ((a % b != 0) & ((a < 0) != (b < 0))).to(a.dtype)",
    "whole_remainder": '"""Of the divisor\'s sign."""\n'
    "    left = a % b\n"
    "    return tl.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)",
    "floor_remainder": '"""Of the divisor\'s sign."""\n    return a - b * tl.floor(a / b)',
}
_OF_TWO = frozenset(
    ("larger", "smaller", "multiplied", "whole_quotient", "whole_remainder", "floor_remainder")
)


def helper(name: str) -> str:
    """Its definition."""
    given = "a, b" if name in _OF_TWO else "a"
    return f"@triton.jit\ndef {name}({given}):\n    {HELPERS[name]}"


def computed(dtype: str) -> str:
    """What values of that dtype are in registers: 16-bit floats are computed in float32."""
    if dtype not in STORAGE:
        raise NoSchedule(f"{dtype} is no type of Triton")
    return "float32" if dtype in HALVES else dtype


def number(value: float | int | bool, dtype: str) -> str:
    """A literal."""
    if dtype == "bool":
        return "True" if value else "False"
    if dtype in FLOATS:
        if math.isnan(value):
            return 'float("nan")'
        if math.isinf(value):
            return '-float("inf")' if value < 0 else 'float("inf")'
        text = repr(float(value))
        return f"tl.full((), {text}, tl.float64)" if dtype == "float64" else text
    return str(int(value))


def converted(text: str, source: str, dtype: str, *, is_scalar: bool) -> str:
    """The same number in another type."""
    if computed(source) == computed(dtype):
        return text
    if dtype == "bool":
        return f"({text} != 0)"
    wanted = f"tl.{computed(dtype)}"
    return f"tl.cast({stripped(text)}, {wanted})" if is_scalar else f"{text}.to({wanted})"


def operation(one: e.Operation, args: list[str], used: set[str]) -> str:
    """An operation on operands that are written already; helpers that it calls come into `used`."""
    dtype = one.args[-1].dtype
    if dtype == "float64" and one.op in ("tanh", "round", "log1p", "expm1"):
        raise NoSchedule(f"{one.op} of float64 isn't written in Triton here")
    is_float = dtype in FLOATS
    if one.op in _SPECIAL:
        return _SPECIAL[one.op](one, args, used, is_float)
    if one.op in _INFIX:
        return f"({args[0]} {_INFIX[one.op]} {args[1]})"
    if one.op in _OF_TL and (is_float or one.op == "abs"):
        return f"tl.{one.op}({', '.join(map(stripped, args))})"
    if one.op in HELPERS and is_float:
        return _called(one.op, args, used)
    raise NoSchedule(f"{one.op} of {dtype} isn't written in Triton here")


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


def _called(name: str, args: list[str], used: set[str]) -> str:
    used.add(name)
    return f"{name}({', '.join(map(stripped, args))})"


def _extreme(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    if not is_float:
        return f"tl.{one.op}imum({stripped(args[0])}, {stripped(args[1])})"
    return _called("larger" if one.op == "max" else "smaller", args, used)


def _power(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    exponent = one.args[1]
    if not isinstance(exponent, e.Number):
        raise NoSchedule("a power by a number that isn't known")
    known = float(exponent.value)
    if known in (1, 2, 3, 4) and args[0].isidentifier():
        return f"({' * '.join([args[0]] * int(known))})"
    if known == 2:
        return f"({args[0]} * {args[0]})"
    if not is_float:
        raise NoSchedule(f"the power {known:g} of {one.dtype}")
    if known == 0.5:
        return f"tl.sqrt({stripped(args[0])})"
    if known == -0.5:
        return f"tl.rsqrt({stripped(args[0])})"
    if known == -1:
        return f"(1.0 / {args[0]})"
    if known.is_integer():
        raise NoSchedule(f"the power {known:g}")
    return f"tl.exp2({args[1]} * tl.log2({stripped(args[0])}))"


def _floor(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    if is_float:
        if one.op == "floordiv":
            return f"tl.floor({args[0]} / {args[1]})"
        return _called("floor_remainder", args, used)
    if one.dtype.startswith("u"):
        return f"({args[0]} {'//' if one.op == 'floordiv' else '%'} {args[1]})"
    return _called("whole_quotient" if one.op == "floordiv" else "whole_remainder", args, used)


def _tested(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    if not is_float:
        return f"({args[0]} != {args[0]})"
    if one.op == "isnan":
        return f"({args[0]} != {args[0]})"
    return f'(tl.abs({stripped(args[0])}) == float("inf"))'


def _trunc(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    inner = stripped(args[0])
    return f"tl.where({inner} < 0, tl.ceil({inner}), tl.floor({inner}))" if is_float else args[0]


def _sign(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    a = stripped(args[0])
    if is_float:
        return f"tl.where({a} > 0, 1.0, tl.where({a} < 0, -1.0, {a}))"
    return f"tl.where({a} > 0, 1, tl.where({a} < 0, -1, 0))"


def _rounded(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    if not is_float:
        return args[0]
    return _called("rounded", args, used) if one.op == "round" else f"tl.{one.op}({stripped(args[0])})"  # fmt: skip


def _remainder(one: e.Operation, args: list[str], used: set[str], is_float: bool) -> str:
    if is_float:
        raise NoSchedule("fmod of floats isn't written in Triton here")
    return f"({args[0]} % {args[1]})"


_Writer = Callable[[e.Operation, "list[str]", "set[str]", bool], str]
_SPECIAL: Mapping[str, _Writer] = {
    "neg": lambda one, args, used, is_float: f"(-{args[0]})",
    "not": lambda one, args, used, is_float: f"({args[0]} == 0)",
    "bit_not": lambda one, args, used, is_float: f"(~{args[0]})" if one.dtype != "bool" else f"({args[0]} == 0)",
    "where": lambda one, args, used, is_float: f"tl.where({', '.join(map(stripped, args))})",
    "tan": lambda one, args, used, is_float: f"(tl.sin({stripped(args[0])}) / tl.cos({stripped(args[0])}))",
    "erfc": lambda one, args, used, is_float: f"(1.0 - tl.erf({stripped(args[0])}))",
    "log10": lambda one, args, used, is_float: f"(tl.log2({stripped(args[0])}) * 0.3010299956639812)",
    "sinh": lambda one, args, used, is_float: f"(0.5 * (tl.exp({stripped(args[0])}) - tl.exp(-{args[0]})))",
    "cosh": lambda one, args, used, is_float: f"(0.5 * (tl.exp({stripped(args[0])}) + tl.exp(-{args[0]})))",
    "max": _extreme, "min": _extreme, "pow": _power, "floordiv": _floor, "mod": _floor,
    "isnan": _tested, "isinf": _tested, "trunc": _trunc, "sign": _sign, "floor": _rounded,
    "ceil": _rounded, "round": _rounded, "fmod": _remainder,
}  # fmt: skip
