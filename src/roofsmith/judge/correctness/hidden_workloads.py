"""Workloads near the given ones, which no candidate can enumerate.

A hidden workload keeps whatever the given ones have in common: a size that is always the same,
divisors, powers of two, equal dimensions, their order, and which divides which. If all given
lengths are multiples of 64, a kernel may rely on it; if one of them is odd, it may not. Where only
one workload is given, rows vary and the length of a row does not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import permutations

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.workload import Workload

UNIT = 3 * 256
"""Divisors of this that all given sizes share may be relied on; others are taken for chance."""
LEAST_POWER = 256
"""Smaller powers of two are left as they are."""
LEAST_SHARE = 1 / 16
"""Of a given dimension: hidden ones are no larger, and more than this."""
TRIES = 48
"""Random sizes that are looked at, for the smallest of them: checking them costs little."""
SMALL_ELEMENTS = 2**14
"""A reduced workload's dimensions may multiply to this: exploring a reference costs little then."""
TELLING_ELEMENTS = 2**8
"""Of fewer, what all draws have in common, or where an output leaps, isn't seen. Chosen."""
LEAST_DIMENSION = 16

Dims = dict[str, int]


def hidden(
    workloads: Sequence[Workload], rng: random.Random, *, count: int, rows: Collection[str]
) -> list[Workload]:
    """Some small workloads like the given ones, in random order; none may exist.

    Args:
        workloads: the given ones.
        rng: from the judge's own entropy.
        count: how many at most.
        rows: dimensions that may vary where a single workload is given.
    """
    given = [workload.dims for workload in workloads]
    base: Dims = min(given, key=volume)
    found: list[Dims] = []
    for _ in range(TRIES):
        dims = {name: rng.choice(_choices(name, size, given, rows)) for name, size in base.items()}
        if dims not in given and dims not in found and is_alike(dims, given):
            found.append(dims)
    smallest = sorted(found, key=volume)[:count]
    rng.shuffle(smallest)
    return [Workload(dims=dims) for dims in smallest]


def rows_of(dims: Dims, arrays: Sequence[ArraySpec]) -> set[str]:
    """Dimensions that count rows: an array's first extent, and no array's last one of several."""
    first = {array.shape[0] for array in arrays if array.shape}
    last = {array.shape[-1] for array in arrays if len(array.shape) > 1}
    return {name for name, size in dims.items() if size in first - last}


def is_alike(dims: Dims, given: Sequence[Dims]) -> bool:
    """Whether dimensions keep every relation that all the given ones keep."""
    for one, other in permutations(dims, 2):
        if all(g[one] == g[other] for g in given) and dims[one] != dims[other]:
            return False
        if all(g[one] <= g[other] for g in given) and dims[one] > dims[other]:
            return False
        if all(g[other] % g[one] == 0 for g in given) and dims[other] % dims[one] != 0:
            return False
    return True


def reductions(workloads: Sequence[Workload]) -> Iterator[Dims]:
    """Ever larger workloads up to the smallest given one that has something to see: where exploring
    a reference may work.

    Dimensions keep their divisors as long as it is small enough then; else odd ones stay odd.
    """
    all_given = [workload.dims for workload in workloads]
    telling = [dims for dims in all_given if volume(dims) >= TELLING_ELEMENTS]
    given = min(telling, key=volume) if telling else max(all_given, key=volume)
    divided = _reduced(given, _divided)
    least = _reduced(divided, _shrunk)
    for number, dims in enumerate(found := (least, divided, given)):
        if dims not in found[:number]:
            yield dims


def _reduced(dims: Dims, smaller: Callable[[int], int]) -> Dims:
    """Dimensions made smaller as often as it takes, or as it can be done."""
    while volume(dims) > SMALL_ELEMENTS:
        reduced = {n: smaller(s) if s >= 2 * LEAST_DIMENSION else s for n, s in dims.items()}
        if reduced == dims:
            break
        dims = reduced
    return dims


def _divided(size: int) -> int:
    return size if size % 2 else size // 2


def _shrunk(size: int) -> int:
    return size // 2 | 1 if size % 2 else size // 2


def _choices(name: str, size: int, given: Sequence[Dims], rows: Collection[str]) -> Sequence[int]:
    """Sizes that one dimension may take."""
    values = [dims[name] for dims in given]
    if len(set(values)) == 1 and (len(values) > 1 or name not in rows):
        return [size]
    if all(value & (value - 1) == 0 for value in values):
        return [size >> shift for shift in range(5) if size >> shift >= LEAST_POWER] or [size]
    unit = math.gcd(UNIT, *values)
    return range(size, int(size * LEAST_SHARE), -unit)


def volume(dims: Dims) -> int:
    """All dimensions multiplied: a rough size."""
    return math.prod(dims.values())
