"""At which small workloads a reference is read, so that every number shows what it comes of."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

Dims = dict[str, int]
SMALL = 8
"""Dims up to this, such as a window's, are read near it: they may have to be smaller than others.
Chosen."""
ROOM = {1: 40, 2: 40, 3: 36, 4: 28}
"""Largest size by how many dims there are; chosen, for a product of all that takes no time."""
MANY = 20
"""The same of more dims."""
RESIDUES = 4
"""Remainders of sizes that take turns. Chosen."""
UNITS = (16, 8, 4, 2)
"""Divisors of all given sizes that a reference may ask for. Chosen."""


MOST_PAIRS = 6
"""Of dims of which one divides the other, that are tried alone. Chosen."""


@dataclass(frozen=True)
class Family:
    """What choices of workloads keep of the given ones, beside the order of their sizes."""

    divides: tuple[tuple[str, str], ...] = ()
    """Dims of which the first divides the second."""
    keeps_units: bool = False
    """Whether multiples of 2, 4, 8 or 16 stay such."""
    keeps_equal: bool = False
    """Whether what is small and the same in all given ones stays as it is."""


def families(workloads: Sequence[Mapping[str, int]]) -> list[Family]:
    """Ever less free ones.

    Args:
        workloads: of the target; all have the same names.
    """
    names = list(workloads[0])
    pairs = [
        (one, other) for one, other in permutations(names, 2)
        if all(w[other] % w[one] == 0 and 1 < w[one] < w[other] for w in workloads)
    ]  # fmt: skip
    pairs.sort(key=lambda pair: workloads[0][pair[0]])
    found = [Family(), *(Family((pair,)) for pair in pairs[:MOST_PAIRS])]
    if len(pairs) > 1:
        found.append(Family(tuple(pairs)))
    every = tuple(pairs)
    found += [Family(keeps_units=True), Family(every, keeps_units=True)]
    return [*found, Family(keeps_equal=True), Family(every, keeps_units=True, keeps_equal=True)]


def trials(
    workloads: Sequence[Mapping[str, int]], family: Family, count: int, held: Mapping[str, int],
    most: int = max(ROOM.values()),
) -> list[Dims]:  # fmt: skip
    """So many workloads of a family, with some dims held; fewer if there are no more.

    Args:
        workloads: of the target.
        family: what they have in common with those.
        held: sizes that are given.
    """
    rng = random.Random(count)
    made: list[Dims] = []
    for _ in range(100 * count):
        dims = _drawn(workloads, family, rng, held, len(made), most)
        if dims is not None and dims not in made:
            made.append(dims)
        if len(made) == count:
            break
    return made


def _drawn(
    workloads: Sequence[Mapping[str, int]], family: Family, rng: random.Random,
    held: Mapping[str, int], turn: int, room: int,
) -> Dims | None:  # fmt: skip
    """One choice; None: it isn't one that was wanted."""
    order = sorted(workloads[0], key=lambda name: workloads[0][name])
    most = min(room, ROOM.get(len(order), MANY))
    dims: Dims = {}
    for name in order:
        given = [one[name] for one in workloads]
        stays = family.keeps_equal and given[0] <= most
        if name in held:
            dims[name] = held[name]
            continue
        if stays and len(set(given)) == 1:
            dims[name] = given[0]
            continue
        parts = [dims[one] for one, other in family.divides if other == name and one in dims]
        unit = math.lcm(*parts)
        if family.keeps_units:
            unit = math.lcm(
                unit, max((u for u in UNITS if all(v % u == 0 for v in given)), default=1)
            )
        low, high = (5, most)
        if max(given) <= SMALL:
            low, high = (
                max(2, min(given) - 1),
                max(given) + 2,
            )  # sizes of 1 are views of another form
        times = rng.randint(max(1, low // unit), max(3 if unit > 1 else 1, high // unit))
        if low + RESIDUES < high:  # what is rounded down shows itself at every remainder
            times += (turn + len(dims) - times) % RESIDUES
        dims[name] = unit * times
    free = [name for name in order if name not in held and dims[name] > 1]
    sizes = [dims[name] for name in free]
    is_ordered = all(a < b for a, b in pairwise(sizes))
    return dims if is_ordered or family.keeps_equal else None


def irregular(value: float, which: int, place: int = 0) -> float:
    """A number near one that no literal is equal to, another for each reading and place.

    Those of two places don't come of one another either, as half of one might be the other.
    """
    if value == 0:
        return 0.0173 + 0.00319 * which + 0.00021173 * place
    return value * (1.0 + 0.0371828 / (which + 2.71 + 0.61803 * place))
