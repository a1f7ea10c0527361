"""Which outputs change by leaps where inputs hardly change, found from a reference alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofsmith.judge.correctness.conditioning import Explored
    from roofsmith.judge.correctness.distributions import Arithmetic

STEPS = ((1e-2, 1e-4, 0.2), (0.1, 0.03, 0.7))
"""Relative changes of inputs, large and small, and the share of what the large one does beyond
which the small one is a leap. Smooth outputs change in proportion, roots near zero by its root. The
second kind finds edges that lie far apart."""
APART = 2.0**-20
"""Of the largest number, by which the last of equal ones is told from the first. Chosen."""
SEEDS = (1, 2, 3)
"""Of the ways to move inputs."""


def jumping(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    free: Mapping[str, int],
    on: Arithmetic,
) -> list[str]:
    """Outputs of which an element changes by a leap as inputs change by little."""

    def moved(step: float, seed: int) -> Mapping[str, Any]:
        on.reseed(seed)
        given = {k: on.double(values[k]) for k in free}
        given = {k: v * (1 + step * (2 * on.uniform(v) - 1)) for k, v in given.items()}
        return reference.expect({**values, **given}, outputs, exact=True)

    try:
        truth = reference.expect(values, outputs, exact=True)
        pairs = [
            (moved(large, seed), moved(small, seed), share)
            for large, small, share in STEPS
            for seed in SEEDS
        ]
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return list(outputs)

    def leaps(name: str, far: Mapping[str, Any], near: Mapping[str, Any], share: float) -> bool:
        exact = on.double(truth[name])
        much, little = (float(abs(on.double(one[name]) - exact).max()) for one in (far, near))
        if not on.is_floating(truth[name]):
            return much > 0 or little > 0  # an integer changes by leaps only
        return not little <= share * much  # NaN leap, too

    return [name for name in truth if any(leaps(name, *pair) for pair in pairs)]


def ordered(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> list[str]:
    """Outputs that the order of the inputs' numbers alone decides, such as those of an argsort.

    Every number x becomes x·|x|, which keeps the order, and in float64 every difference between
    two numbers of 24 bits or fewer: whatever does arithmetic gives something else.
    """
    truth, found = _stretched(reference, values, outputs, on, lambda x: x * abs(x))
    return [name for name in found if _varies(truth[name]) and _equal(found[name], truth[name])]


def keeps_order(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], name: str, on: Arithmetic
) -> bool:
    """Whether an output is the same for the ranks of the inputs' numbers, from -2 to 2.

    Where a reference chooses by what it computes of the numbers, such as probabilities, huge or
    tiny numbers may make these equal, and then its choice is nobody else's.
    """

    def ranks(x: Any) -> Any:
        different, places = on.xp.unique(x, return_inverse=True)
        spread = 4.0 * on.double(places.reshape(x.shape)) / max(len(different) - 1, 1) - 2.0
        return on.xp.where(on.xp.isfinite(x), spread, x)

    truth, found = _stretched(reference, values, outputs, on, ranks)
    return name in found and _equal(found[name], truth[name])


def selected(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> list[str]:
    """Outputs that consist of the inputs' own numbers, such as those of a sort or a maximum.

    Every number x becomes x·(1 + |x|): then these become so, too, and nothing that is computed.
    """

    def stretch(x: Any) -> Any:
        return x * (1.0 + abs(x))

    truth, found = _stretched(reference, values, outputs, on, stretch)
    return [
        name
        for name in found
        if on.is_floating(truth[name])
        and _varies(truth[name])
        and _equal(found[name], stretch(on.double(truth[name])))
    ]


def breaks_ties(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    names: Collection[str],
    on: Arithmetic,
) -> bool:
    """Whether of equal numbers a reference always takes the first, or always the last.

    Every number is moved by next to nothing, the more the later it comes: up, or down. An unstable
    sort has no such rule, and its choice is nobody else's.
    """

    def apart(x: Any, step: float) -> Any:
        flat = x.reshape(-1)
        places = on.xp.cumsum(on.xp.ones_like(flat), 0).reshape(x.shape)
        return x + step * abs(x).max() / max(len(flat), 1) * places

    pairs = [
        _stretched(reference, values, outputs, on, partial(apart, step=step))
        for step in (APART, -APART)
    ]

    def is_near(found: Any, truth: Any) -> bool:
        exact, there = on.double(truth), on.double(found)
        room = 2.0 * APART * float(abs(exact).max()) if on.is_floating(truth) else 0.0
        return bool((abs(there - exact) <= room).all())

    return all(
        any(name in found and is_near(found[name], truth[name]) for truth, found in pairs)
        for name in names
    )


def _stretched(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    on: Arithmetic,
    stretch: Callable[[Any], Any],
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The truth for inputs as they are, and as a function makes them; nothing if it's refused."""
    given = {k: on.double(v) for k, v in values.items() if k not in outputs and on.is_floating(v)}
    stretched = {k: stretch(v) for k, v in given.items()}
    try:
        truth = reference.expect(values, outputs, exact=True)
        return truth, reference.expect({**values, **stretched}, outputs, exact=True)
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return {}, {}


def _varies(exact: Any) -> bool:
    """Or else nothing is decided here."""
    return bool((exact != exact.reshape(-1)[:1]).any())


def _equal(found: Any, exact: Any) -> bool:
    return bool((found == exact).all())
