"""Sizes that share no divisor with the given ones, one dimension at a time. Pure.

The judge's other sizes keep the divisors of the given ones, on which a kernel may rely. Whoever
merges it should know that it does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from roofsmith.domain.workload import Workload

FEWER, MANY = 4, 256
"""The part of a size that is tried, of one that is at least `MANY`: it costs little, and is more
than a block of most kernels. Of a smaller one, nearly all of it. Chosen."""
LARGEST_POWER = 2**8
"""Powers of two up to it are told apart; what is wrong on multiples of it is just wrong there."""


def odd_workloads(given: Sequence[Workload]) -> Iterator[tuple[str, Workload]]:
    """By dimension, the smallest given workload with an odd size in its place.

    Dimensions that are odd somewhere, or never more than 2, are left out.

    >>> [w.label for _, w in odd_workloads([Workload(dims={"N": 4096, "D": 64})])]
    ['N=1025,D=64', 'N=4096,D=61']
    """
    smallest = min(given, key=lambda workload: math.prod(workload.dims.values()))
    for name, size in smallest.dims.items():
        if _shared_power(name, given) > 1 and size > 2:
            yield name, _resized(smallest, name, 1)


def limit(name: str, given: Sequence[Workload], is_right: Callable[[Workload], bool]) -> str | None:
    """What a dimension has to be for a kernel that is wrong where it is odd, for people.

    Args:
        name: the dimension.
        given: the workloads, on which the kernel is right.
        is_right: asked as few times as it takes.

    Returns:
        None where no divisor of the given sizes explains it.
    """
    smallest = min(given, key=lambda workload: math.prod(workload.dims.values()))
    powers = [2**n for n in range(1, 9) if 2**n <= _shared_power(name, given)]
    powers = [power for power in powers if power < smallest.dims[name]]
    place = bisect_left(powers, True, key=lambda power: is_right(_resized(smallest, name, power)))
    return None if place == len(powers) else f"{name} is a multiple of {powers[place]}"


def _shared_power(name: str, given: Sequence[Workload]) -> int:
    """The largest power of two that divides all given sizes of a dimension, up to a limit."""
    return math.gcd(LARGEST_POWER, *(workload.dims[name] for workload in given))


def _resized(workload: Workload, name: str, power: int) -> Workload:
    """With a smaller size that this power of two divides, and no larger one, nor 3."""
    size = workload.dims[name]
    times = max((size // FEWER if size >= MANY else size - 1) // power, 1)
    times += 1 - times % 2 if size >= MANY else times % 2 - 1
    while times > 3 and times % 3 == 0:
        times -= 2
    return workload.model_copy(update={"dims": {**workload.dims, name: max(times, 1) * power}})
