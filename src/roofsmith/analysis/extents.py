"""The size of an array as an expression in a workload's dimensions, from what was seen of it. Pure.

What a kernel touches on a few sets of sizes is matched with sums and products of dimensions, the
plainest first. Where it leaves out a border, the whole is meant: an interior's last element is at
N^3 - N^2 - N - 1, in an array of N^3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import prod

Sizes = Mapping[str, int]

SIZES = (
    ((11, 13, 17, 19, 23, 29), (31, 37, 41, 43, 47, 53), (59, 61, 67, 71, 73, 79)),
    ((8, 16, 32, 64, 128, 256), (16, 32, 64, 128, 256, 512), (32, 64, 128, 256, 512, 1024)),
)
"""Sets of sizes that dimensions get, the smallest first: primes tell products apart; powers of two
are for kernels that take nothing else. Chosen."""
_SHIFTS = (0, -1, 1, -2, 2)
_COEFFICIENTS = (*map(Fraction, range(1, 17)), Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))
_WIDEST = 3
"""Layers of the smallest dimension that a border has at most. Chosen."""
_MOST_FACTORS = 3  # chosen: each more multiplies what is tried by the dimensions


def sizes_of(workload: Sizes) -> Iterator[tuple[dict[str, int], ...]]:
    """Sets of small sizes, ordered among each other as a workload's own are."""
    names = sorted(workload, key=lambda name: workload[name])
    for series in SIZES:
        if len(names) <= len(series[0]):
            yield tuple(dict(zip(names, sizes, strict=False)) for sizes in series)


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
    for rests in ([0], [1, 2]):
        for factors in products:
            if found := _linear(factors, seen, sizes, [Fraction(1)], rests):
                return found
    for factors in products:
        if _is_most_of(factors, seen, sizes):
            return " * ".join(factors)
    for factors in products:
        if found := _linear(factors, seen, sizes, _COEFFICIENTS, range(-4, 5)):
            return found
    if found := _shifted(seen, sizes):
        return found
    halved = _shifted([2 * one for one in seen], sizes)
    return f"{halved} // 2" if halved else None


def _products(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Products of dimensions, those of few factors first."""
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


def _is_most_of(factors: tuple[str, ...], seen: Sequence[int], sizes: Sequence[Sizes]) -> bool:
    """Whether what was seen is a whole but for a border."""
    for touched, one in zip(seen, sizes, strict=True):
        whole = prod(one[name] for name in factors)
        width = (whole - touched) / whole * min(one[name] for name in factors)
        if not 0 <= width <= _WIDEST:
            return False
    return True


def _shifted(seen: Sequence[int], sizes: Sequence[Sizes]) -> str | None:
    """Products of sums, such as `(H - R + 1) * (W - S + 1) * C`."""
    names = list(sizes[0])
    terms: dict[str, list[int]] = {}
    for shift in _SHIFTS:
        said = f" {'+' if shift > 0 else '-'} {abs(shift)}" if shift else ""
        for name in names:
            terms[f"({name}{said})" if said else name] = [one[name] + shift for one in sizes]
        for a, b in combinations(names, 2):
            for x, y in ((a, b), (b, a)):
                terms[f"({x} - {y}{said})"] = [one[x] - one[y] + shift for one in sizes]
            terms[f"({a} + {b}{said})"] = [one[a] + one[b] + shift for one in sizes]
    fitting = {
        text: values
        for text, values in terms.items()
        if all(v > 0 and got % v == 0 for v, got in zip(values, seen, strict=True))
    }
    for count in range(1, _MOST_FACTORS + 2):
        for chosen in combinations_with_replacement(fitting, count):
            columns = zip(*(fitting[text] for text in chosen), strict=True)
            if [prod(column) for column in columns] == list(seen):
                text = " * ".join(chosen)
                return text[1:-1] if count == 1 and text.startswith("(") else text
    return None
