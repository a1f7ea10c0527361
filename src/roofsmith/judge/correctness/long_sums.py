"""How far floating sums, added up in any order, may be off on one draw, element by element.

Nobody tells the judge which terms an element sums. Its reference does: from how many numbers an
element takes something is seen by changing random shares of all of them, and what these weigh by
moving each by half a unit in its last place. Then with n numbers, u half an epsilon, W the root of
the sum of the squares of the terms, and y what they come to, the bound is

    lambda sqrt(n) u (|y| + W) + stalled(n) |y|

Why: adding up makes the error sum(d_k S_k) over partial sums S_k, with |d_k| <= u. If these are
independent with mean zero, it exceeds lambda u sqrt(sum(S_k^2)) with a probability of at most
2 exp(-lambda^2 / 2): Higham and Mary (see `analysis.tolerance.SUMMATION_FACTOR`), theorem 2.4, by
Hoeffding's inequality. Of terms in random order, S_k is y k / n plus W times a Brownian bridge, so
that sqrt(sum(S_k^2)) is about sqrt(n) sqrt(y^2 / 3 + W^2 / 6), at most 0.58 sqrt(n) (|y| + W).
So lambda = 4 is 6.9 for one by one, and 2 exp(-6.9^2 / 2) = 1e-10 an element; other orders make
less. Terms of one sign may stall a sum besides (`analysis.tolerance.stalled`). What isn't covered:
terms that all round the same way, as hundreds of thousands of equal ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from roofsmith.analysis.tolerance import (
    EPSILON,
    MOST_STRAINED,
    SUMMATION_FACTOR,
    SUMMED_IN,
    stalled,
)
from roofsmith.judge.correctness.conditioning import Explored
from roofsmith.judge.correctness.dependence import elements
from roofsmith.judge.correctness.distributions import Arithmetic, nudged

CHANGED = 1.125
"""What numbers are multiplied by to see what depends on them."""
MOVES = 8
"""Ways of moving all numbers: of an element's weight, the root mean square of so few is within a
quarter in all but one of 300,000 cases (chi-squared of 8 below 0.125^2 * 8 * 1.5). Chosen."""
LONGEST_S = 10.0
"""For all runs of the reference together; where one takes long, shares are further apart."""


def bounds_of_sums(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    terms: Mapping[str, float],
    on: Arithmetic,
) -> dict[str, Any]:
    """The bound of each element of each floating output, float64, in its shape.

    Args:
        reference: computes what is right.
        values: of the draw, by name.
        outputs: names of its outputs.
        terms: how many numbers an element of an output sums on average, as far as shapes and work
            tell: one may depend on far more, as attention's do on every query, key and value.
        on: NumPy or torch.
    """
    began = time.monotonic()
    truth = reference.expect(values, outputs, exact=True)
    took_s = time.monotonic() - began
    names = [
        name
        for name, exact in truth.items()
        if on.is_floating(exact) and on.dtype(values[name]) not in SUMMED_IN
    ]
    exact = {name: on.double(truth[name]) for name in names}
    counts = _counts(reference, values, outputs, exact, took_s, on)
    squares = {name: 0.0 * one for name, one in exact.items()}
    for seed in range(MOVES):
        moved = reference.expect(nudged(values, seed, on), outputs, exact=True)
        for name in names:
            off = on.double(moved[name]) - exact[name]
            squares[name] = squares[name] + off * off
    made = {}
    for name in names:
        unit = EPSILON[on.dtype(values[name])] / 2
        # numbers are moved by up to u of themselves, evenly: a third of its square on average
        weight = on.xp.sqrt(3.0 * squares[name] / MOVES)
        many = counts[name]
        share = min(terms[name] / max(float(many.mean()), 1.0), 1.0)
        many = on.xp.clip(share * many, 1.0, None)
        size, factor = abs(exact[name]), SUMMATION_FACTOR * on.xp.sqrt(many)
        made[name] = factor * (unit * size + weight) + stalled(many, unit) * size
    return made


def _counts(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    exact: Mapping[str, Any],
    took_s: float,
    on: Arithmetic,
) -> dict[str, Any]:
    """From how many floating numbers each element takes something.

    A share of all numbers is changed, then half of it, and so on: an element of n changes as long
    as the share is above 1 / n, in about log2(n) runs; what these say is off by a factor of 2 (one
    standard deviation), whose root is lost in the 6.9 above, as is that products count twice.
    """
    given = {k: v for k, v in values.items() if k not in outputs and on.is_floating(v)}
    halvings = max(math.ceil(math.log2(max(sum(map(elements, given.values())), 2))), 1)
    step = min(max(math.ceil(halvings * took_s / LONGEST_S), 1), halvings)
    hits = {name: 0.0 * one for name, one in exact.items()}
    for power in range(step, halvings + step, step):
        on.reseed(power)
        changed = dict(values)
        for key, value in given.items():
            x = on.double(value)
            changed[key] = on.xp.where(on.uniform(x) < 2.0**-power, CHANGED * x, x)
        found = reference.expect(changed, outputs, exact=True)
        for name, one in exact.items():
            here = on.double(found[name])
            differs = (here != one) & ((here == here) | (one == one))
            hits[name] = hits[name] + on.double(differs)
    return {name: 2.0 ** (step * one) for name, one in hits.items()}


def room_for_sums(
    out: Any, exact: Any, off: Any, bound: Any, norm: float, on: Arithmetic
) -> float | None:
    """The norm-wise budget of an output whose errors the bounds of its sums explain; None: not so.

    Elements that these don't explain must be within the usual budgets by themselves.

    Args:
        out: what a kernel wrote.
        exact: what is right, in float64.
        off: elements beyond the usual element-wise budget.
        bound: of each element's sum; see `bounds_of_sums`.
        norm: the usual norm-wise budget.
        on: NumPy or torch.
    """
    difference = abs(on.double(out) - exact)
    within = difference <= bound
    rest = on.xp.where(within, 0.0 * difference, difference)
    found, most, size, left = (
        math.sqrt(float((one * one).sum())) for one in (difference, bound, exact, rest)
    )
    if bool((off & ~within).any()) or not (math.isfinite(found + most + size) and size > 0):
        return None
    if left > norm * size or found > MOST_STRAINED * size:
        return None
    return max(norm, min(most / size, MOST_STRAINED))
