"""Numbers seen at several workloads, as sizes in dims: the simplest that fits all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product

from roofsmith.computation.sizes import Size

Dims = Mapping[str, int]
DIVISORS = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128)
"""That sizes are rounded down by. Chosen."""
FACTORS = 4
"""Most dims in one product. Chosen."""
MORE_FACTORS = 2
"""Most sizes beside two in a product of those that were found. Chosen."""
SHIFT = 4
"""Most that a dim in a product is more or less than itself. Chosen."""
LARGEST_FACTOR = 64
"""Of a product of dims, and what is added to it: larger ones fit by chance. Chosen."""

LEAST_SEEN = 5
"""Workloads from which on a quotient by a dim fits by no chance. Chosen."""


class Fit:
    """Sizes for numbers seen at the same workloads."""

    def __init__(self, dims: Sequence[Dims]) -> None:
        """Nothing is fitted yet.

        Args:
            dims: of each workload, the same names; ints that the reference is given among them.
        """
        self._dims = list(dims)
        self._names = sorted(dims[0])
        self._found: dict[tuple[int, ...], Size | None] = {}

    def size(self, values: Sequence[int]) -> Size | None:
        """The simplest size with these values; None: none fits."""
        key = tuple(values)
        if key not in self._found:
            self._found[key] = next(self._candidates(key), None)
        return self._found[key]

    def _candidates(self, values: tuple[int, ...]) -> Iterator[Size]:
        if len(set(values)) == 1:
            yield Size.of(values[0])
            return
        yield from self._linear(values)
        yield from self._product(values)
        yield from self._quotient(values)
        yield from self._pair(values)
        yield from self._places(values)
        yield from self._of_factors(values)
        yield from self._of_found(values, MORE_FACTORS)

    def _atoms(self) -> list[tuple[Size, tuple[int, ...]]]:
        """Dims, exact quotients of two, and products of those; each with its values."""
        found = _atoms(tuple(tuple(sorted(one.items())) for one in self._dims))
        return list(found)

    def _linear(self, values: tuple[int, ...]) -> Iterator[Size]:
        """times * dim + more."""
        for name in self._names:
            column = [one[name] for one in self._dims]
            if (size := _affine(Size.of(name), column, values)) is not None:
                yield size

    def _product(self, values: tuple[int, ...]) -> Iterator[Size]:
        """times * product + more, products without anything added first."""
        fitting = [
            size
            for atom, column in self._atoms()
            if (size := _affine(atom, column, values)) is not None
        ]
        yield from sorted(fitting, key=lambda size: (len(size.terms), str(size)))

    def _pair(self, values: tuple[int, ...]) -> Iterator[Size]:
        """Two products with factors, and more."""
        if len(values) < 4:
            return
        atoms = self._atoms()
        for (one, first), (two, second) in combinations(atoms, 2):
            solved = _two(first, second, values)
            if solved is not None:
                yield one * solved[0] + two * solved[1] + solved[2]

    def _quotient(self, values: tuple[int, ...]) -> Iterator[Size]:
        """(product + more) // divisor, of dims alone first."""
        alone = [(Size.of(name), tuple(one[name] for one in self._dims)) for name in self._names]
        for (atom, column), divisor in product([*alone, *self._atoms()], DIVISORS):
            low = max(divisor * v - d for v, d in zip(values, column, strict=True))
            high = divisor - 1 + min(divisor * v - d for v, d in zip(values, column, strict=True))
            if low <= high and abs(low) <= LARGEST_FACTOR:
                more = 0 if low <= 0 <= high else min(low, high, key=abs)
                yield (atom + more) // divisor

    def _places(self, values: tuple[int, ...]) -> Iterator[Size]:
        """(a dim, less or more others, and more) // dim, and 1: places of windows with steps."""
        if len(values) < LEAST_SEEN:
            return
        columns = {name: [one[name] for one in self._dims] for name in self._names}
        for by, whole in permutations(self._names, 2):
            steps = columns[by]
            if len(set(steps)) < 2:
                continue
            others = [name for name in self._names if name not in (by, whole)]
            for parts in self._sums(others):
                column = [
                    n + sum(times * columns[name][at] for name, times in parts)
                    for at, n in enumerate(columns[whole])
                ]
                for last in (1, 0):
                    rows = list(zip(column, steps, values, strict=True))
                    low = max((v - last) * step - n for n, step, v in rows)
                    high = min((v - last + 1) * step - 1 - n for n, step, v in rows)
                    if low <= 0 <= high:
                        size = sum((Size.of(n) * times for n, times in parts), Size.of(whole))
                        yield size // Size.of(by) + last

    def _sums(self, names: Sequence[str]) -> Iterator[tuple[tuple[str, int], ...]]:
        """What a window and what is put around come to: nothing, less a dim, more of another."""
        yield ()
        for name in names:
            yield ((name, -1),)
        for less, more in permutations(names, 2):
            yield (less, -1), (more, 2)
            yield (less, -1), (more, 1)

    def _of_factors(self, values: tuple[int, ...]) -> Iterator[Size]:
        """A number or a dim times another size: what a convolution's places come to."""
        if 1 < (times := math.gcd(*values)) <= LARGEST_FACTOR:
            inner = self.size(tuple(v // times for v in values))
            yield from () if inner is None else (inner * times,)
        for name, more in product(self._names, sorted(range(-SHIFT, SHIFT + 1), key=abs)):
            column = [one[name] + more for one in self._dims]
            if all(d > 0 and v % d == 0 for v, d in zip(values, column, strict=True)):
                rest = tuple(v // d for v, d in zip(values, column, strict=True))
                if rest != values and (size := self.size(rest)) is not None:
                    yield size * (Size.of(name) + more)

    def _of_found(self, values: tuple[int, ...], more: int) -> Iterator[Size]:
        """Sizes that others came to, multiplied: pooled rows times pooled columns."""
        for column, size in list(self._found.items()):
            if size is None or size.constant is not None or min(column) < 1:
                continue
            if any(v % c for v, c in zip(values, column, strict=True)):
                continue
            rest = tuple(v // c for v, c in zip(values, column, strict=True))
            if len(set(rest)) == 1:
                yield size * rest[0]
            elif (other := self._found.get(rest)) is not None:
                yield size * other
            elif more:
                yield from (size * one for one in self._of_found(rest, more - 1))

    def number(self, values: Sequence[float], digits: float) -> tuple[str, Size, Size] | None:
        """A constant that dims decide: how it is computed of which size, times which.

        Args:
            digits: the relative error that its type makes.
        """
        forms: dict[str, Callable[[float], float]] = {
            "whole": lambda v: v, "inverse": lambda v: 1 / v, "root": lambda v: v * v,
            "inverse root": lambda v: 1 / (v * v),
        }  # fmt: skip
        for form, back in forms.items():
            for sign in (1, -1):
                try:
                    wanted = [back(sign * v) for v in values]
                except (ZeroDivisionError, OverflowError):
                    continue
                for times in (1, 2, 3, 4, 8):
                    whole = [w * times for w in wanted]
                    size = self._near(whole, digits)
                    if size is not None and size.constant is None:
                        return form, size, Size.of(times * sign)
        return None

    def _near(self, whole: Sequence[float], digits: float) -> Size | None:
        """A size with these values but for rounding; those that rounding hides only agree."""
        if not all(math.isfinite(w) and abs(w) < 2**53 for w in whole):
            return None
        errors = [4 * digits * max(1, abs(w)) for w in whole]
        rows = [at for at, error in enumerate(errors) if error < 0.5]
        near = [round(whole[at]) for at in rows]
        if not near or not all(near):
            return None
        if any(abs(whole[at] - n) > errors[at] for at, n in zip(rows, near, strict=True)):
            return None
        known = self if len(rows) == len(whole) else Fit([self._dims[at] for at in rows])
        size = known.size(near)
        agrees = size is not None and all(
            abs(size.at(one) - w) <= error
            for one, w, error in zip(self._dims, whole, errors, strict=True)
        )
        return size if agrees else None


def _affine(atom: Size, column: Sequence[int], values: Sequence[int]) -> Size | None:
    """times * atom + more with whole numbers."""
    low = min(range(len(column)), key=column.__getitem__)
    high = max(range(len(column)), key=column.__getitem__)
    span = column[high] - column[low]
    if span == 0 or (values[high] - values[low]) % span:
        return None
    times = (values[high] - values[low]) // span
    more = values[low] - times * column[low]
    if times == 0 or abs(times) > LARGEST_FACTOR or abs(more) > LARGEST_FACTOR:
        return None
    if all(times * c + more == v for c, v in zip(column, values, strict=True)):
        return atom * times + more
    return None


def _two(
    first: Sequence[int], second: Sequence[int], values: Sequence[int]
) -> tuple[int, int, int] | None:
    """times * first + times * second + more with small whole numbers."""
    for i, j in combinations(range(1, len(values)), 2):
        a, b, v = first[i] - first[0], second[i] - second[0], values[i] - values[0]
        c, d, w = first[j] - first[0], second[j] - second[0], values[j] - values[0]
        if (below := a * d - b * c) == 0:
            continue
        x, y = v * d - b * w, a * w - v * c
        if x % below or y % below:
            return None
        x, y = x // below, y // below
        more = values[0] - x * first[0] - y * second[0]
        if not x or not y or max(abs(x), abs(y), abs(more)) > LARGEST_FACTOR:
            return None
        fits = all(x * p + y * q + more == r
                   for p, q, r in zip(first, second, values, strict=True))  # fmt: skip
        return (x, y, more) if fits else None
    return None


@cache
def _atoms(
    dims: tuple[tuple[tuple[str, int], ...], ...],
) -> tuple[tuple[Size, tuple[int, ...]], ...]:
    rows = [dict(one) for one in dims]
    names = sorted(rows[0])
    found: dict[tuple[int, ...], Size] = {}
    base: list[Size] = [Size.of(name) for name in names]
    base += [
        Size.of(one) // Size.of(other)
        for one, other in permutations(names, 2)
        if all(row[one] % row[other] == 0 for row in rows)
    ]
    for count in range(1, FACTORS + 1):
        for parts in combinations_with_replacement(base, count):
            product = math.prod(parts, start=Size.of(1))
            column = tuple(product.at(row) for row in rows)
            if len(set(column)) > 1 and column not in found:
                found[column] = product
        if len(found) > 400:  # chosen: pairs of more take seconds
            break
    return tuple((size, column) for column, size in found.items())
