"""The size of an array as an expression in a workload's dimensions, from what was seen of it. Pure.

What a kernel touches on a few sets of sizes is matched with products of dimensions and of what
windows leave of them, the plainest first. Where it leaves out a border, the whole is meant: an
interior's last element is at N^3 - N^2 - N - 1, in an array of N^3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import prod

Sizes = Mapping[str, int]
Columns = tuple[int, ...]
"""A number for each set of sizes."""

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
_APART = (6, 12, 24, 72, 240, 720)
_POWERS = tuple(2**n for n in range(1, 11))
_SETS = (
    ((_PRIMES, 6), (_PRIMES, 11), (_PRIMES, 16), (_APART, 2)),
    ((_POWERS, 2), (_POWERS, 3), (_POWERS, 4)),
)
"""Sizes that dimensions get, and where those of a set begin: primes tell products apart, what a
stride or a tile divides tells windows apart; powers of two are for kernels that take nothing else.
Chosen."""
_SMALL = 8
"""Dimensions up to this are windows, strides and paddings: they stay small. Chosen."""
_MOST_ELEMENTS = 4 * 1024**2
"""Of an array of all large dimensions: it takes no time, and fits into what is watched. Chosen."""
_COEFFICIENTS = (*map(Fraction, range(1, 17)), Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))
_WIDEST = 3
"""Layers of a dimension that a border has at most. Chosen."""
_MOST_FACTORS = 5  # chosen: each more multiplies what is tried by the dimensions
_WINDOWS = (
    (2, "({a} + {b})"), (2, "({a} - {b})"), (2, "({a} // {b})"), (2, "({a} // 2)"),
    (2, "({a} // 4)"), (3, "({a} + 2 * {b})"), (3, "({a} // {b} + 1)"), (3, "({a} - {b} + 1)"),
    (3, "({a} + {b} - 1)"), (3, "(({a} + 1) // 2)"), (3, "(({a} - 1) // 2)"),
    (3, "(({a} + {b} - 1) // {b})"), (3, "({a} - {b} - 1)"), (4, "(({a} - {b}) // 2 + 1)"),
    (4, "(({a} - {b}) // {c} + 1)"), (4, "({a} - {b} - {c} + 2)"), (4, "({a} * {b} + {c})"),
    (4, "({a} + 2 * ({b} // 2))"),
    (4, "({a} + 2 * {b} - {c} + 1)"), (4, "(({a} - 1) * {b} + {c})"),
    (5, "({a} - {b} * ({c} - 1))"), (6, "(({a} + 2 * {b} - {c}) // {d} + 1)"),
    (7, "(({a} - {b} * ({c} - 1) - 1) // {d} + 1)"),
    (8, "(({a} - 1) * {b} - 2 * {c} + {d})"),
)  # fmt: skip
"""What windows, strides, paddings and tiles leave of dimensions; the plainer, the less."""
_MOST_COST = 20  # chosen: two windows with strides and paddings, and what is around them
_SHIFTS = ((2, "({a} - 1)"), (2, "({a} + 1)"), (3, "({a} - 2)"), (3, "({a} + 2)"))


def sizes_of(workload: Sizes) -> Iterator[tuple[dict[str, int], ...]]:
    """Sets of small sizes, each ordered as a workload's own are."""
    names = sorted(workload, key=lambda name: workload[name])
    few = sum(size <= _SMALL for size in workload.values()) % len(names)
    small: list[int] = []
    for name in names[:few]:
        small.append(max(workload[name], small[-1] + 1 if small else 1))
    wider = [one + n for n, one in enumerate(small, 1)]
    widest = [one + n * (n + 1) // 2 for n, one in enumerate(small, 1)]
    for ladders in _SETS:
        large = _climbed(ladders, len(names) - few)
        sets = zip((small, wider, widest, small), large, strict=False)
        found = [(*(low if low[-1:] < [high[0]] else small), *high) for low, high in sets if high]
        yield tuple(dict(zip(names, one, strict=True)) for one in found)


def _climbed(ladders: Sequence[tuple[Sequence[int], int]], count: int) -> list[Sequence[int]]:
    """So many steps of each ladder, lower where they would come to too many elements."""
    found: list[Sequence[int]] = []
    for after, (ladder, start) in enumerate(reversed(ladders)):
        least = sum(other is ladder for other, _ in ladders[: -1 - after])
        start = min(start, len(ladder) - count)
        while start > least and (
            prod(ladder[start : start + count]) > _MOST_ELEMENTS
            or ladder[start : start + count] in found
        ):
            start -= 1
        steps = ladder[start : start + count]
        found.append(steps if prod(steps) <= 4 * _MOST_ELEMENTS else ())
    return found[::-1]


def expression(seen: Sequence[int], sizes: Sequence[Sizes]) -> str | None:
    """The plainest expression that gives what was seen, or the whole of what it is a part of.

    Args:
        seen: elements up to the last that was touched, for each set of sizes.
        sizes: the sets, the smallest first.

    Returns:
        Python, such as `N * (D + 1)`; None where nothing fits.
    """
    if len(set(seen)) == 1:
        return str(seen[0])
    products = list(_products(list(sizes[0])))
    one = [Fraction(1)]
    for coefficients, rests in ((one, [0]), (one, [1, 2]), (_COEFFICIENTS, [0])):
        for factors in products:
            if found := _linear(factors, seen, sizes, coefficients, rests):
                return found
    whole = tuple(seen)
    for factors in products:
        if _is_but_a_border(factors, seen, sizes, is_even=True):
            return " * ".join(factors)
    if found := _product(whole, _terms(_WINDOWS, sizes)):
        return found
    for factors in products:
        if _is_but_a_border(factors, seen, sizes, is_even=False):
            return " * ".join(factors)
    for factors in products:
        if found := _linear(factors, seen, sizes, _COEFFICIENTS, range(-4, 5)):
            return found
    terms = _terms((*_WINDOWS, *_SHIFTS), sizes)
    if found := _product(whole, terms):
        return found
    if halved := _product(tuple(2 * one for one in seen), terms):
        return f"{halved} // 2"
    return _product(whole, terms, times=True)


def _products(names: list[str]) -> Iterator[tuple[str, ...]]:
    for count in range(1, _MOST_FACTORS + 1):
        yield from combinations_with_replacement(names, count)


def _linear(
    factors: tuple[str, ...],
    seen: Sequence[int],
    sizes: Sequence[Sizes],
    coefficients: Sequence[Fraction],
    rests: Sequence[int],
) -> str | None:
    """`c * product + k`, with plain numbers alone."""
    whole = [prod(one[name] for name in factors) for one in sizes]
    coefficient = Fraction(seen[1] - seen[0], whole[1] - whole[0])
    rest = seen[0] - coefficient * whole[0]
    if coefficient not in coefficients or rest not in rests:
        return None
    if any(coefficient * one + rest != got for one, got in zip(whole, seen, strict=True)):
        return None
    product = " * ".join(factors)
    if coefficient.denominator > 1:
        product = f"{product} // {coefficient.denominator}"
    elif coefficient > 1:
        product = f"{coefficient} * {product}"
    return product if rest == 0 else f"{product} {'+' if rest > 0 else '-'} {abs(int(rest))}"


def _is_but_a_border(
    factors: tuple[str, ...], seen: Sequence[int], sizes: Sequence[Sizes], *, is_even: bool
) -> bool:
    """Whether the last element that was touched is a few layers from the end of every dimension.

    Args:
        factors: of the whole.
        seen: elements up to the last that was touched.
        sizes: the sets.
        is_even: whether as many on all sizes, as a stencil does; a stride's rest differs.
    """
    wholes = [prod(one[name] for name in factors) for one in sizes]
    if any(not 0 <= whole - one < whole / 2 for whole, one in zip(wholes, seen, strict=True)):
        return False
    for order in set(permutations(factors)):
        borders = set()
        for whole, touched, one in zip(wholes, seen, sizes, strict=True):
            missing, layers = whole - touched, []
            for name in order:
                missing, layer = divmod(missing, one[name])
                layers.append(layer)
            borders.add(tuple(layers))
        widest = max(map(max, borders))
        if widest <= _WIDEST and len(borders) == 1 if is_even else widest <= 2 * _WIDEST:
            return True
    return False


def _terms(
    forms: Sequence[tuple[int, str]], sizes: Sequence[Sizes]
) -> list[tuple[int, str, Columns]]:
    """Dimensions, and what is left of them; the plainest first, none of a value twice."""
    names = list(sizes[0])
    found: dict[Columns, tuple[int, str]] = {}
    for cost, form in ((1, "{a}"), *sorted(forms)):
        code = compile(form.replace("{", "").replace("}", ""), form, "eval")
        letters = [letter for letter in "abcd" if f"{{{letter}}}" in form]
        for chosen in permutations(names, len(letters)):
            values = tuple(
                eval(code, {}, dict(zip(letters, (one[name] for name in chosen), strict=True)))
                for one in sizes
            )
            if min(values) > 0 and len(set(values)) > 1:
                found.setdefault(
                    values, (cost, form.format_map(dict(zip(letters, chosen, strict=True))))
                )
    return [(cost, text, values) for values, (cost, text) in found.items()]


def _product(
    seen: Columns, terms: Sequence[tuple[int, str, Columns]], *, times: bool = False
) -> str | None:
    """The plainest product of terms; `times`: times a number that is the same on all sizes."""
    fitting = [one for one in terms if _over(seen, one[2])]

    def of(left: Columns, begin: int, budget: int, depth: int) -> list[str] | None:
        if budget == 0:
            is_done = len(set(left)) == 1 if times else set(left) == {1}
            return [str(left[0])] * times if is_done else None
        for at in range(begin, len(fitting) if depth else 0):
            cost, text, values = fitting[at]
            if cost > budget:
                break
            if (rest := _over(left, values)) and (
                more := of(rest, at, budget - cost, depth - 1)
            ) is not None:
                return [text, *more]
        return None

    for budget in range(1, _MOST_COST):
        if (found := of(seen, 0, budget, _MOST_FACTORS + 1)) is not None:
            text = " * ".join(sorted(found, key=lambda one: not one.isdecimal()))
            return text[1:-1] if len(found) == 1 and text.startswith("(") else text
    return None


def _over(left: Columns, values: Columns) -> Columns:
    """Without a remainder; empty where there is one."""
    if any(a % b for a, b in zip(left, values, strict=True)):
        return ()
    return tuple(a // b for a, b in zip(left, values, strict=True))
