"""Values as C writes them: types, literals, operations, indices."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import SIGNS, stripped
from roofsmith.proposers.schedules.lowering import NoSchedule

STORAGE: Mapping[str, str] = {
    "float32": "float", "float64": "double", "float16": "_Float16", "bool": "bool",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
"""What elements are in memory; bfloat16 isn't a type before GCC 13."""
_NARROW = frozenset(("int8", "int16", "uint8", "uint16"))
"""Types that C computes in int, so that results have to be made narrow again."""
_LOGIC: Mapping[str, str] = {"and": "&", "or": "|", "xor": "!="}
"""Of booleans: && and || would be branches, which cost a vector loop ten times its time."""
_LIBRARY: Mapping[str, str] = {
    "abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos",
    "atan": "atan", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf",
    "erfc": "erfc", "pow": "pow", "atan2": "atan2", "fmod": "fmod",
}  # fmt: skip
OWN: Mapping[str, str] = {
    "expf": "roofsmith_expf", "exp": "roofsmith_exp", "tanhf": "roofsmith_tanhf",
    "logf": "roofsmith_logf", "erff": "roofsmith_erff", "log1pf": "roofsmith_log1pf",
}  # fmt: skip
"""Functions that run in every vector lane, in place of the library's."""
FLOATS = frozenset(("float16", "float32", "float64"))
MOST = 9
"""Of which the largest is found at once: a window of 3 x 3; more don't stay in registers."""


def storage(dtype: str) -> str:
    """The C type of an array's elements."""
    if dtype not in STORAGE:
        raise NoSchedule(f"{dtype} is no type of C here")
    return STORAGE[dtype]


def computed(dtype: str) -> str:
    """The C type that values of that dtype are computed in."""
    return "float" if dtype == "float16" else storage(dtype)


def size_text(size: Size, variables: frozenset[str] = frozenset()) -> str:
    """A size or index; loop variables come first, so that products are made in 64 bits."""
    if not size.terms:
        return "0"
    divided = dict(size.quotients)
    written = ""
    for factors, count in sorted(size.terms, key=lambda term: _rank(term, variables)):
        known = sorted(factors, key=lambda name: (name not in variables, name))
        names = [_factor(name, divided, variables) for name in known]
        number = [str(abs(count))] if abs(count) != 1 or not names else []
        parts = [*names, *number] if known and known[0] in variables else [*number, *names]
        product = "*".join(parts)
        if len(names) > 1 and known[0] not in variables:
            product = f"(ptrdiff_t){product}"
        if written:
            written += f" {'-' if count < 0 else '+'} {product}"
        else:
            written = f"-{product}" if count < 0 else product
    return written


def _factor(name: str, divided: Mapping[str, tuple[Size, Size]], variables: frozenset[str]) -> str:
    if name not in divided:
        return name
    whole, by = (wrapped(size_text(size, variables)) for size in divided[name])
    return f"({whole} / {by})"


def _rank(term: tuple[tuple[str, ...], int], variables: frozenset[str]) -> tuple[object, ...]:
    factors, count = term
    return (not set(factors) & variables, count < 0, -len(factors), factors)


def wrapped(text: str) -> str:
    """In parentheses, unless it is a name or number."""
    return text if text.replace("_", "").replace(".", "").isalnum() else f"({text})"


def number(value: float | int | bool, dtype: str) -> str:
    """A literal."""
    if dtype == "bool":
        return "1" if value else "0"
    if dtype in FLOATS:
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "-INFINITY" if value < 0 else "INFINITY"
        text = repr(float(value))
        return f"{text}f" if dtype != "float64" else text
    whole = int(value)
    if whole == -(2**63):
        return "INT64_MIN"
    if dtype == "uint64" and whole >= 2**63:
        return f"{whole}ull"
    return f"{whole}ll" if abs(whole) >= 2**31 else str(whole)


def operation(one: e.Operation, args: list[str], used: set[str]) -> str:
    """An operation on operands that are written already; helpers that it needs come into `used`."""
    dtype = one.args[-1].dtype
    text = _operation(one, dtype, args, used)
    return f"({computed(one.dtype)})({text})" if one.dtype in _NARROW else text


def _operation(one: e.Operation, dtype: str, args: list[str], used: set[str]) -> str:
    op, is_float = one.op, dtype in FLOATS
    special = _special(one, dtype, args, used)
    if special is not None:
        return special
    if op in SIGNS:
        return f"({args[0]} {SIGNS[op]} {args[1]})"
    if op in _LOGIC:
        left, right = args if dtype == "bool" else (f"({arg} != 0)" for arg in args)
        return f"({left} {_LOGIC[op]} {right})"
    if op in _LIBRARY and is_float:
        name = _LIBRARY[op] + ("" if dtype == "float64" else "f")
        if name in OWN:
            used.add(name)
            name = OWN[name]
        return f"{name}({', '.join(map(stripped, args))})"
    raise NoSchedule(f"{op} of {dtype} isn't written in C here")


def _special(one: e.Operation, dtype: str, args: list[str], used: set[str]) -> str | None:
    """What isn't written as an infix or a function of the same name."""
    match one.op:
        case "neg":
            return f"(-{args[0]})"
        case "not":
            return f"(!{args[0]})"
        case "bit_not":
            return f"(!{args[0]})" if dtype == "bool" else f"(~{args[0]})"
        case "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        case "rsqrt":
            return _reciprocal_root(dtype, args[0])
        case "max" | "min":
            return _extreme(one, dtype, args, used)
        case "abs":
            return _absolute(dtype, args[0])
        case "sign":
            return _sign(dtype, args[0])
        case "pow":
            return _power(one, dtype, args, used)
        case "floordiv" | "mod":
            return _floor(one.op, dtype, args, used)
        case "fmod" if dtype not in FLOATS:
            return f"({args[0]} % {args[1]})"
        case "isnan" | "isinf":
            return _tested(one.op, dtype, args[0])
        case "floor" | "ceil" | "trunc" | "round" if dtype not in FLOATS:
            return args[0]
        case _:
            return None


def _reciprocal_root(dtype: str, arg: str) -> str:
    if dtype not in FLOATS:
        raise NoSchedule(f"rsqrt of {dtype}")
    inner = stripped(arg)
    return f"(1.0 / sqrt({inner}))" if dtype == "float64" else f"(1.0f / sqrtf({inner}))"


def _extreme(one: e.Operation, dtype: str, args: list[str], used: set[str]) -> str:
    """The larger or smaller; NaN where one is."""
    sign = "<" if one.op == "max" else ">"
    left, right = args
    a, b = one.args
    if isinstance(a, e.Number):
        left, right, a, b = right, left, b, a
    if dtype not in FLOATS or isinstance(b, e.Number):  # of a number, which isn't NaN
        return f"({left} {sign} {right} ? {right} : {left})"
    name = f"{'larger' if one.op == 'max' else 'smaller'}_{computed(dtype)}"
    used.add(name)
    return f"{name}({stripped(left)}, {stripped(right)})"


def several(value: e.Operation) -> list[e.Expression]:
    """Three floats or more, of which it is the largest or the smallest; or none."""

    def parts(one: e.Expression) -> list[e.Expression]:
        is_same = isinstance(one, e.Operation) and one.op == value.op
        return [part for arg in one.parts for part in parts(arg)] if is_same else [one]

    found = parts(value) if value.op in ("max", "min") and value.dtype in FLOATS else []
    is_it = 2 < len(found) <= MOST and not any(isinstance(one, e.Number) for one in found)
    return found if is_it else []


def extreme_of(value: e.Operation, args: list[str], used: set[str]) -> str:
    """The largest or smallest of several; that one is NaN is asked for two at a time."""
    name = f"{'most' if value.op == 'max' else 'least'}_{computed(value.dtype)}"
    used |= {name, checked := f"nan_if_{computed(value.dtype)}"}
    text = args[0]
    for one in args[1:]:
        text = f"{name}({stripped(text)}, {stripped(one)})"
    rest = [stripped(one) for one in args[1:]]  # the first one's NaN stays
    pairs = zip(rest[::2], [*rest[1::2], rest[-1]], strict=False)
    odd = " | ".join(f"isunordered({one}, {other})" for one, other in pairs)
    return f"{checked}({odd}, {text})"


def _absolute(dtype: str, arg: str) -> str:
    if dtype in FLOATS:
        return f"{'fabs' if dtype == 'float64' else 'fabsf'}({stripped(arg)})"
    return arg if dtype.startswith("u") or dtype == "bool" else f"({arg} < 0 ? -{arg} : {arg})"


def _sign(dtype: str, arg: str) -> str:
    text = f"(({arg} > 0) - ({arg} < 0))"
    return f"({arg} != {arg} ? {arg} : ({computed(dtype)}){text})" if dtype in FLOATS else text


def _power(one: e.Operation, dtype: str, args: list[str], used: set[str]) -> str:
    exponent = one.args[1]
    base = one.args[0]
    known = exponent.value if isinstance(exponent, e.Number) else None
    simple = isinstance(base, e.Read | e.Held | e.Argument) or args[0].isidentifier()
    if simple and known in (1, 2, 3, 4) and known is not None:
        return f"({' * '.join([args[0]] * int(known))})"
    if dtype in FLOATS:
        root = "sqrt" if dtype == "float64" else "sqrtf"
        if known == 0.5:  # of -infinity, too, as nearly everybody's
            return f"{root}({stripped(args[0])})"
        return (
            f"{'pow' if dtype == 'float64' else 'powf'}({stripped(args[0])}, {stripped(args[1])})"
        )
    used.add("whole_power")
    return f"({computed(dtype)})whole_power({stripped(args[0])}, {stripped(args[1])})"


def _floor(op: str, dtype: str, args: list[str], used: set[str]) -> str:
    """Rounded down, or what that leaves."""
    if dtype in FLOATS:
        name = f"{'floor_quotient' if op == 'floordiv' else 'floor_remainder'}_{computed(dtype)}"
        used.add(name)
        return f"{name}({stripped(args[0])}, {stripped(args[1])})"
    if dtype.startswith("u") or dtype == "bool":
        return f"({args[0]} {'/' if op == 'floordiv' else '%'} {args[1]})"
    name = "whole_quotient" if op == "floordiv" else "whole_remainder"
    used.add(name)
    return f"({computed(dtype)}){name}({stripped(args[0])}, {stripped(args[1])})"


def _tested(op: str, dtype: str, arg: str) -> str:
    if dtype not in FLOATS:
        return "0"
    if op == "isnan":
        return f"({arg} != {arg})"
    return f"({'fabs' if dtype == 'float64' else 'fabsf'}({stripped(arg)}) == INFINITY)"


def converted(value: str, source: str, dtype: str) -> str:
    """The same number in another type."""
    if dtype == "bool":
        return f"({value} != 0)"
    if computed(source) == computed(dtype):
        return value
    return f"({computed(dtype)}){value}"
