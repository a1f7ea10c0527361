"""Whole numbers that say where: rows of a table, bins, experts, columns of a sparse matrix.

Each is drawn otherwise from the very numbers of an own draw, so that none says a place that
`setup` never says. Left as they are where their arrangement is a promise, or another input follows
from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofsmith.judge.correctness.distributions import Arithmetic
from roofsmith.judge.correctness.structure import arrangement, never_above

Whole: TypeAlias = NDArray[np.int64]

LEAST_INDICES = 16
"""Of fewer, what all draws have in common may be chance. Chosen."""
LEAST_BYTES = 2
"""Of an index: smaller whole numbers are quantities, such as pixels and weights."""


def free_indices(
    drawn: Sequence[Mapping[str, Any]], outputs: Collection[str], on: Arithmetic
) -> tuple[str, ...]:
    """Inputs that hold nothing but places of other arrays, in an order that nothing is known of.

    Args:
        drawn: own draws, at least two, from different seeds.
        outputs: names of what isn't read.
        on: NumPy or torch.
    """
    first = drawn[0]
    sizes = {
        name: {int(np.prod(value.shape)), *value.shape}
        for name, value in first.items()
        if getattr(value, "shape", None)
    }
    whole = {
        name: [_plain(one[name]) for one in drawn]
        for name in sizes
        if name not in outputs
        and not on.is_floating(first[name])
        and "int" in on.dtype(first[name])
        and first[name].itemsize >= LEAST_BYTES
    }

    def are_places(name: str, draws: Sequence[Whole]) -> bool:
        low, high = min(int(d.min()) for d in draws), max(int(d.max()) for d in draws)
        others = set[int]().union(*(found for other, found in sizes.items() if other != name))
        return -1 <= low < high < max(others, default=0)

    return tuple(
        name
        for name, draws in whole.items()
        if draws[0].size >= LEAST_INDICES
        and are_places(name, draws)
        and not any(map(np.array_equal, draws[1:], draws))
        and arrangement([draw.astype(np.float64) for draw in draws]) is None
        and not all(map(_never_twice, draws))
        and not all(map(_all_as_often, draws))
        and not any(_are_bound(draws, others) for other, others in whole.items() if other != name)
    )


def _plain(array: Any) -> Whole:
    host = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return np.asarray(host, dtype=np.int64)


def _never_twice(draw: Whole) -> bool:
    """Whether nothing comes twice, in all or in any row along an axis."""
    axes = (np.sort(np.moveaxis(draw, axis, -1), axis=-1) for axis in range(draw.ndim))
    rows = (ordered for ordered in axes if ordered.shape[-1] > 1)
    return any(bool((np.diff(ordered, axis=-1) != 0).all()) for ordered in rows)


def _all_as_often(draw: Whole) -> bool:
    """Whether all come equally often, as where work is dealt out evenly."""
    counts = np.unique(draw, return_counts=True)[1]
    return bool((counts == counts[0]).all())


def _are_bound(draws: Sequence[Whole], others: Sequence[Whole]) -> bool:
    """Whether something of another input follows from an input, or the other way round."""
    pairs = list(zip(draws, others, strict=True))
    if draws[0].shape == others[0].shape:
        doubles = (np.stack([one.reshape(-1), other.reshape(-1)]) for one, other in pairs)
        if all(np.unique(both, axis=1).shape[1] == both.shape[1] for both in doubles):
            return True
        wide = [[d.astype(np.float64) for d in some] for some in (draws, others)]
        if never_above(*wide) or never_above(*reversed(wide)):
            return True
    return any(all(follows(*pair) for pair in pairs) for follows in (_counts, _orders, _parts))


def _counts(draw: Whole, other: Whole) -> bool:
    """Whether the other says how often each comes, or where those of each begin and end."""
    if other.ndim != 1 or draw.min() < 0:
        return False
    counts = np.bincount(draw.reshape(-1))
    ends = np.cumsum(counts)
    for made in (counts, ends, np.concatenate([[0], ends]), ends - counts):
        short = min(len(made), len(other))
        if short > 1 and np.array_equal(made[:short], other[:short]):
            return True
    return False


def _orders(draw: Whole, other: Whole) -> bool:
    """Whether the other lists places in the order of what lies there."""
    flat, order = draw.reshape(-1), other.reshape(-1)
    if len(flat) != len(order) or order.min() < 0 or order.max() >= len(flat):
        return False
    return bool((np.diff(flat[order]) >= 0).all())


def _parts(draw: Whole, other: Whole) -> bool:
    """Whether they are in order within parts that the other says the ends of."""
    if draw.ndim != 1 or other.ndim != 1 or bool((np.diff(other) < 0).any()):
        return False
    return bool(np.isin(np.flatnonzero(np.diff(draw) < 0) + 1, other).all())
