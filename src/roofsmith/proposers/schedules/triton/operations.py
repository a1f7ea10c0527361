"""Operations and numbers as Triton writes them, and the helpers that some of them need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import SIGNS, stripped
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.matrix_products import HALVES

FLOATS = HALVES | {"float32", "float64"}
STORAGE: Mapping[str, str] = {
    **{name: f"tl.{name}" for name in (
        "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    )},
    "bool": "tl.int1",
}  # fmt: skip
_INFIX: Mapping[str, str] = {**SIGNS, "and": "&", "or": "|", "xor": "^"}
_OF_TL = frozenset(
    ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "abs")
)
HELPERS: Mapping[str, str] = {
    "larger": '"""The larger; NaN where one is."""\n'
    "    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "smaller": '"""The smaller; NaN where one is."""\n'
    "    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "multiplied": "return a * b",
    "tanh": '"""By one exponential, which can\'t overflow; a series where that would '
    'lose digits."""\n'
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
    given = "a, b" if name in _OF_TWO else "a"
    return f"@triton.jit\ndef {name}({given}):\n    {HELPERS[name]}"


def computed(dtype: str) -> str:
    """What values of that dtype are in registers: 16-bit floats are computed in float32."""
    if dtype not in STORAGE:
        raise NoSchedule(f"{dtype} is no type of Triton")
    return "float32" if dtype in HALVES else dtype


def number(value: float | int | bool, dtype: str) -> str:
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


@dataclass(frozen=True)
class WrittenOperation:
    """An operation whose operands are written already."""

    value: e.Operation
    args: Sequence[str]
    """Its operands' texts."""
    used: set[str]
    """Helpers; those that it calls come in."""
    is_float: bool
    """Whether the last operand is."""

    @property
    def op(self) -> str:
        return self.value.op

    @property
    def inner(self) -> str:
        """The first operand where there are parentheses around it anyway."""
        return stripped(self.args[0])

    def called(self, name: str) -> str:
        self.used.add(name)
        return f"{name}({', '.join(map(stripped, self.args))})"


def operation(one: e.Operation, args: Sequence[str], used: set[str]) -> str:
    """An operation on operands that are written already; helpers that it calls come into `used`."""
    dtype = one.args[-1].dtype
    if dtype == "float64" and one.op in ("tanh", "round", "log1p", "expm1"):
        raise NoSchedule(f"{one.op} of float64 isn't written in Triton here")
    whole = WrittenOperation(one, args, used, dtype in FLOATS)
    if one.op in _SPECIAL:
        return _SPECIAL[one.op](whole)
    if one.op in _INFIX:
        return f"({args[0]} {_INFIX[one.op]} {args[1]})"
    if one.op in _OF_TL and (whole.is_float or one.op == "abs"):
        return f"tl.{one.op}({', '.join(map(stripped, args))})"
    if one.op in HELPERS and whole.is_float:
        return whole.called(one.op)
    raise NoSchedule(f"{one.op} of {dtype} isn't written in Triton here")


def _extreme(one: WrittenOperation) -> str:
    if not one.is_float:
        return f"tl.{one.op}imum({one.inner}, {stripped(one.args[1])})"
    return one.called("larger" if one.op == "max" else "smaller")


def _power(one: WrittenOperation) -> str:
    exponent, base = one.value.args[1], one.args[0]
    if not isinstance(exponent, e.Number):
        raise NoSchedule("a power by a number that isn't known")
    known = float(exponent.value)
    if known in (1, 2, 3, 4) and base.isidentifier():
        return f"({' * '.join([base] * int(known))})"
    if known == 2:
        return f"({base} * {base})"
    if not one.is_float:
        raise NoSchedule(f"the power {known:g} of {one.value.dtype}")
    if known == 0.5:
        return f"tl.sqrt({one.inner})"
    if known == -0.5:
        return f"tl.rsqrt({one.inner})"
    if known == -1:
        return f"(1.0 / {base})"
    if known.is_integer():
        raise NoSchedule(f"the power {known:g}")
    return f"tl.exp2({one.args[1]} * tl.log2({one.inner}))"


def _floor(one: WrittenOperation) -> str:
    left, right = one.args[0], one.args[1]
    is_quotient = one.op == "floordiv"
    if one.is_float:
        return f"tl.floor({left} / {right})" if is_quotient else one.called("floor_remainder")
    if one.value.dtype.startswith("u"):
        return f"({left} {'//' if is_quotient else '%'} {right})"
    return one.called("whole_quotient" if is_quotient else "whole_remainder")


def _tested(one: WrittenOperation) -> str:
    if one.op == "isnan" or not one.is_float:
        return f"({one.args[0]} != {one.args[0]})"
    return f'(tl.abs({one.inner}) == float("inf"))'


def _trunc(one: WrittenOperation) -> str:
    if not one.is_float:
        return one.args[0]
    return f"tl.where({one.inner} < 0, tl.ceil({one.inner}), tl.floor({one.inner}))"


def _sign(one: WrittenOperation) -> str:
    a = one.inner
    if one.is_float:
        return f"tl.where({a} > 0, 1.0, tl.where({a} < 0, -1.0, {a}))"
    return f"tl.where({a} > 0, 1, tl.where({a} < 0, -1, 0))"


def _rounded(one: WrittenOperation) -> str:
    if not one.is_float:
        return one.args[0]
    return one.called("rounded") if one.op == "round" else f"tl.{one.op}({one.inner})"


def _remainder(one: WrittenOperation) -> str:
    if one.is_float:
        raise NoSchedule("fmod of floats isn't written in Triton here")
    return f"({one.args[0]} % {one.args[1]})"


def _equals_zero(one: WrittenOperation) -> str:
    return f"({one.args[0]} == 0)"


def _inverted(one: WrittenOperation) -> str:
    return _equals_zero(one) if one.value.dtype == "bool" else f"(~{one.args[0]})"


def _hyperbolic(one: WrittenOperation) -> str:
    sign = "-" if one.op == "sinh" else "+"
    return f"(0.5 * (tl.exp({one.inner}) {sign} tl.exp(-{one.args[0]})))"


_SPECIAL: Mapping[str, Callable[[WrittenOperation], str]] = {
    "neg": lambda one: f"(-{one.args[0]})",
    "not": _equals_zero, "bit_not": _inverted,
    "where": lambda one: f"tl.where({', '.join(map(stripped, one.args))})",
    "tan": lambda one: f"(tl.sin({one.inner}) / tl.cos({one.inner}))",
    "erfc": lambda one: f"(1.0 - tl.erf({one.inner}))",
    "log10": lambda one: f"(tl.log2({one.inner}) * 0.3010299956639812)",
    "sinh": _hyperbolic, "cosh": _hyperbolic,
    "max": _extreme, "min": _extreme, "pow": _power, "floordiv": _floor, "mod": _floor,
    "isnan": _tested, "isinf": _tested, "trunc": _trunc, "sign": _sign, "floor": _rounded,
    "ceil": _rounded, "round": _rounded, "fmod": _remainder,
}  # fmt: skip
