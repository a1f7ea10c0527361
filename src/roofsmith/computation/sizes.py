"""Sizes as polynomials in a target's dims, with whole divisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Terms = tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True)
class Size:
    """A whole number that dims decide: sum of coefficient times a product of factors.

    A factor is a dim's name or a rounded quotient, written as Python and C write it for
    numbers that aren't negative: `(H + 1) / 2`.
    """

    terms: Terms = ()
    """Sorted; of each the sorted factors and the coefficient, never 0."""
    quotients: tuple[tuple[str, tuple[Size, Size]], ...] = ()
    """For each factor that is no dim: what is divided by what."""

    @classmethod
    def of(cls, value: int | str | Size) -> Size:
        """A number's, or a dim's."""
        if isinstance(value, Size):
            return value
        if isinstance(value, str):
            return cls(terms=(((value,), 1),))
        return cls(terms=(((), int(value)),) if value else ())

    @property
    def constant(self) -> int | None:
        """Its value, if no dim decides it."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def dims(self) -> frozenset[str]:
        divided = dict(self.quotients)
        own = {name for factors, _ in self.terms for name in factors}
        inner = [size.dims for name in own if name in divided for size in divided[name]]
        return frozenset(own - divided.keys()).union(*inner)

    def __add__(self, other: int | Size) -> Size:
        other = Size.of(other)
        merged = dict(self.terms)
        for factors, count in other.terms:
            merged[factors] = merged.get(factors, 0) + count
        return self._made(merged, other)

    __radd__ = __add__

    def __mul__(self, other: int | Size) -> Size:
        other = Size.of(other)
        merged: dict[tuple[str, ...], int] = {}
        for mine, count in self.terms:
            for theirs, times in other.terms:
                key = tuple(sorted(mine + theirs))
                merged[key] = merged.get(key, 0) + count * times
        return self._made(merged, other)

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: int | Size) -> Size:
        return self + Size.of(other) * -1

    def __rsub__(self, other: int | Size) -> Size:
        return Size.of(other) - self

    def __floordiv__(self, divisor: int | Size) -> Size:
        """Rounded down; right in C where the dividend isn't negative."""
        divisor = Size.of(divisor)
        if (exact := self._shared(divisor)) is not None:
            return exact
        mine, theirs = self.constant, divisor.constant
        if mine is not None and theirs is not None:
            return Size.of(mine // theirs)
        above = str(self) if self._is_one_dim else f"({self})"
        below = f"({divisor})" if theirs is None and not divisor._is_one_dim else f"{divisor}"
        name = f"({above} / {below})"
        return Size(terms=(((name,), 1),), quotients=((name, (self, divisor)),))

    @property
    def _is_one_dim(self) -> bool:
        return len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1

    def _shared(self, divisor: Size) -> Size | None:
        """The quotient if the divisor, one term, is in every term of this."""
        if len(divisor.terms) != 1:
            return None
        factors, times = divisor.terms[0]
        left: dict[tuple[str, ...], int] = {}
        for mine, count in self.terms:
            rest = list(mine)
            if count % times or any(factors.count(one) > mine.count(one) for one in factors):
                return None
            for one in factors:
                rest.remove(one)
            left[tuple(rest)] = count // times
        return self._made(left, Size())

    def _made(self, terms: Mapping[tuple[str, ...], int], other: Size) -> Size:
        kept = tuple(sorted((factors, count) for factors, count in terms.items() if count))
        used = {name for factors, _ in kept for name in factors}
        known = {**dict(self.quotients), **dict(other.quotients)}
        return Size(kept, tuple(sorted((name, known[name]) for name in known if name in used)))

    def at(self, dims: Mapping[str, int]) -> int:
        """Its value for such dims; `KeyError` names one that is missing."""
        divided = dict(self.quotients)
        total = 0
        for factors, count in self.terms:
            product = count
            for name in factors:
                if name in divided:
                    inner, divisor = divided[name]
                    product *= inner.at(dims) // divisor.at(dims)
                else:
                    product *= dims[name]
            total += product
        return total

    def solved(self, dim: str, name: str) -> Size | None:
        """What a dim is where this size is a number of that name; None: it doesn't say."""
        rest = self - Size(tuple(term for term in self.terms if dim in term[0]), self.quotients)
        times = (self - rest)._shared(Size.of(dim))
        if times is None or not times.terms or dim in times.dims | rest.dims:
            return None
        return (Size.of(name) - rest) // times

    def made_of(self, others: Mapping[str, Size]) -> Size:
        """The same where some dims are other sizes."""
        divided, total = dict(self.quotients), Size()
        for factors, count in self.terms:
            product = Size.of(count)
            for name in factors:
                if name in divided:
                    inner, divisor = (one.made_of(others) for one in divided[name])
                    product = product * (inner // divisor)
                else:
                    product = product * others.get(name, Size.of(name))
            total = total + product
        return total

    def __str__(self) -> str:
        """As C writes it: `2*N*M + 1`; in Python, `/` means `//` here."""
        if not self.terms:
            return "0"
        written = ""
        for factors, count in sorted(self.terms, key=lambda term: (-len(term[0]), term)):
            size = abs(count)
            parts = [*([str(size)] if size != 1 or not factors else []), *factors]
            product = "*".join(parts)
            if not written:
                written = f"-{product}" if count < 0 else product
            else:
                written += f" {'-' if count < 0 else '+'} {product}"
        return written


Shape = tuple[Size, ...]


def shape_of(*sizes: int | str | Size) -> Shape:
    return tuple(Size.of(size) for size in sizes)


def elements(shape: Shape) -> Size:
    """How many elements an array of that shape has; 1 for a number."""
    product = Size.of(1)
    for size in shape:
        product = product * size
    return product
