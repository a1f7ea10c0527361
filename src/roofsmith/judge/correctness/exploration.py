"""Which distributions an operator tolerates, found from its reference alone.

The rule: the float64 reference and the reference in the declared precision stay finite on it, the
result isn't zero throughout, kernels that store half precision between their steps are hardly worse
on it than on the reference's own draws, and honest arithmetic doesn't lose its meaning: neither the
reference itself, nor the truth after inputs are moved by half a unit in their last place, is off by
more than `LOST` times what is allowed on the reference's own draws, or `MEANINGLESS`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import (
    EPSILON,
    LARGEST_ERROR,
    NORM_FLOOR_EPS,
    SUMMED_IN,
    Errors,
)
from roofsmith.judge.correctness.conditioning import (
    LOST,
    MEANINGLESS,
    Explored,
    honest,
    is_lost,
    root_mean_square,
)
from roofsmith.judge.correctness.dependence import fan_in, is_fixed, same_inputs, unread_inputs
from roofsmith.judge.correctness.discontinuities import (
    breaks_ties,
    jumping,
    keeps_order,
    ordered,
    selected,
)
from roofsmith.judge.correctness.distributions import (
    ALTERNATIVES,
    DISTRIBUTIONS,
    INDEX,
    INDICES,
    LARGE,
    LARGER,
    LEVEL,
    NEEDLESS,
    ROUNDED_APART,
    SIGNIFICAND,
    SMALL,
    TIES,
    VARIED,
    ZEROS,
    Arithmetic,
    moved_by,
    transform,
)
from roofsmith.judge.correctness.indices import free_indices
from roofsmith.judge.correctness.structure import is_level, never_above, promise, sign

STORED = Errors(1.5, 2.0)
"""Times the errors of own draws that those of kernels which store half precision may be. Chosen:
the largest error of a single element varies more from draw to draw."""
LEAST_SMALL = 2.0**-7
"""Of an output's root mean square on own draws: smaller ones can't be told from zeros by errors
that are relative to that. Chosen."""
SHAKEN_SHARE = 1 / 4
"""Of an epsilon of half precision: what another rounding of every step in float32 makes, norm-wise,
is lost in an output's own rounding if it is less. Chosen."""
ORDER_SEEDS = (1, 2, 3, 4, 5, 6)
"""Of draws on which an output is looked at that the inputs' order decides, or should: half of all
lone spikes are negative."""
LEAP = 1e-3
"""Of an output's root mean square: by more, nothing changes for tiny numbers that doesn't leap.
Chosen."""
NEARLY_ZERO = 2.0**-200
"""In place of a zero; no float32 is as small."""
SEEDS = (1, 2, 3)
"""Of the draws that show what all have in common; fixed, so that a target always gets the same."""


def explore(reference: Explored, dims: dict[str, int], on: Arithmetic) -> dict[str, Any]:
    """The distributions that an operator tolerates.

    Returns:
        tolerated: their names; scaled: of these, on which results are those of own draws times a
        power of two; free: inputs that they change, each with the sign that its numbers
        always have, or `LEVEL`; indices: those that say places; unread: those that don't matter;
        bound: all other floating inputs, with what binds them; fan_in: by
        output, inputs that an element depends on, where these are a few neighbours and no row;
        same: arrays that never change; is_fixed: whether none does;
        jumps: outputs that leap; selected: those that consist of inputs' numbers; ordered: those
        that the order of the inputs alone decides.
    """
    drawn = [reference.inputs(dims, seed) for seed in SEEDS]
    values, outputs = drawn[0]
    free: dict[str, int] = {}
    bound: dict[str, str] = {}
    floating = [name for name in values if name not in outputs and on.is_floating(values[name])]
    draws = {name: [_plain(one[name], on) for one, _ in drawn] for name in floating}
    for name in floating:
        why = promise(draws[name], SIGNIFICAND[on.dtype(values[name])])
        if is_level(draws[name]):
            free[name] = LEVEL
        elif why is None:
            free[name] = sign(draws[name])
        else:
            bound[name] = why
    for low, high in permutations(list(free), 2):
        if LEVEL not in (free[low], free[high]) and never_above(draws[low], draws[high]):
            bound.update({low: f"it is never above {high!r}", high: f"it is never below {low!r}"})
    free = {name: kept for name, kept in free.items() if name not in bound}
    local = fan_in(reference, values, outputs, on)
    jumps = jumping(reference, values, outputs, free, on)
    in_order = ordered(reference, values, outputs, on) if jumps else []
    chosen = selected(reference, values, outputs, on)
    left_out: set[str] = set()
    if not jumps or not {*jumps} <= {*in_order, *chosen}:
        left_out.add(TIES)
    if local and outputs <= set(local):
        left_out.update(NEEDLESS)
    if any(not on.is_floating(values[name]) for name in jumps if name not in in_order):
        left_out.update(ROUNDED_APART)
    kept = [name for name in in_order if keeps_order(reference, values, outputs, name, on)]
    indices = free_indices([one for one, _ in drawn], outputs, on)
    redrawn = {**free, **dict.fromkeys(indices, INDEX)}
    drawn_to = reference, values, outputs, redrawn, on
    tolerated = _tolerated(*drawn_to, left_out, kept, jumps) if redrawn else {}
    scaled = [name for name, is_scaled in tolerated.items() if is_scaled]
    return {
        "tolerated": list(tolerated), "scaled": scaled,
        "free": free, "bound": bound, "fan_in": local, "jumps": jumps,
        "indices": indices, "unread": unread_inputs(reference, drawn, on),
        "same": same_inputs(drawn), "is_fixed": is_fixed(reference, drawn),
        "selected": chosen,
        "ordered": in_order,
    }  # fmt: skip


def stored_errors(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> dict[str, Errors] | None:
    """Errors of kernels that store half precision between their steps, by output.

    None: nobody can tell, or outputs are of another type.
    """
    found = reference.narrowed(values, outputs)
    if found is None:
        return None
    truth = reference.expect(values, outputs, exact=True)
    beyond = Errors(LARGEST_ERROR, LARGEST_ERROR)
    return {
        name: on.errors(found[name], exact) if bool(on.xp.isfinite(found[name]).all()) else beyond
        for name, exact in truth.items()
        if on.is_floating(exact)
    }


def bears_storing(found: dict[str, Errors] | None, own: dict[str, Errors] | None) -> bool:
    """Whether a draw asks hardly more of kernels that store half precision than own draws do."""
    if found is None or own is None:
        return True
    return all(
        found[name].norm <= STORED.norm * one.norm
        and found[name].element <= STORED.element * one.element
        for name, one in own.items()
        if one.norm < MEANINGLESS.norm and one.element < MEANINGLESS.element
    )


def shaken_errors(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> dict[str, float] | None:
    """What another rounding of every step makes of a draw: norm-wise errors by output, and how many
    integers are others. None: nobody can tell."""
    found = reference.shaken(values, outputs)
    if found is None:
        return None
    truth = reference.expect(values, outputs, exact=True)
    return {
        name: on.errors(found[name], exact).norm
        if on.is_floating(exact)
        else float((found[name] != exact).sum())
        for name, exact in truth.items()
    }


def bears_shaking(
    found: dict[str, float] | None, own: dict[str, float] | None, values: Mapping[str, Any],
    on: Arithmetic,
) -> bool:  # fmt: skip
    """Whether another rounding of every step is hardly worse on a draw than on own draws."""
    if found is None or own is None:
        return True
    for name, usual in own.items():
        least = 0.0
        if on.is_floating(values[name]):
            dtype = on.dtype(values[name])
            half = SHAKEN_SHARE * EPSILON[dtype] if dtype in SUMMED_IN else 0.0
            least = max(NORM_FLOOR_EPS * EPSILON["float32"], half)
            usual = min(usual, MEANINGLESS.norm / LOST)
        if found[name] > LOST * max(usual, least):
            return False
    return True


def _tolerated(
    reference: Explored,
    values: dict[str, Any],
    outputs: set[str],
    free: Mapping[str, int],
    on: Arithmetic,
    left_out: Collection[str],
    in_order: Collection[str],
    jumps: Collection[str],
) -> dict[str, bool]:
    """Distributions, and whether results are those of own draws times a power of two.

    Left out are those on which the reference itself has to choose among what is equal: where a
    result is another one if zeros have a sign, or, of outputs that the inputs' order decides on own
    draws (`in_order`), another one than their ranks give; or, of those that leap (`jumps`), what is
    chosen of equal numbers follows no rule.
    """
    own = honest(reference, values, outputs, on)
    if not own.is_sound:
        return {}
    stored = stored_errors(reference, values, outputs, on)
    shaken = shaken_errors(reference, values, outputs, on)
    zeroed = {key: free[key] for name in ZEROS for key in moved_by(name, free)}
    skipped = set(left_out)
    found = {}
    for name in (*DISTRIBUTIONS, VARIED, *INDICES):
        if name in skipped or not moved_by(name, free):
            continue
        try:
            drawn = transform(name, values, free, 1, on)
            other = honest(reference, drawn, outputs, on, name)
            bears = bears_storing(stored_errors(reference, drawn, outputs, on), stored)
            bears &= bears_shaking(shaken_errors(reference, drawn, outputs, on), shaken, values, on)
        except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
            continue
        if (
            other.is_sound
            and bears
            and not (
                name in ZEROS
                and hinges_on_zeros(reference, drawn, outputs, zeroed, other.truth, on)
            )
            and all(
                keeps_order(reference, transform(name, values, free, seed, on), outputs, output, on)
                for output in in_order
                for seed in ORDER_SEEDS
            )
            and (name != TIES or breaks_ties(reference, drawn, outputs, jumps, on))
            and (name not in SMALL or _is_measurable(other.truth, own.truth, on))
            and not any(
                is_lost(errors, own.errors[output], on.dtype(values[output]))
                for output, errors in other.errors.items()
            )
        ):
            found[name] = _is_scaled(other.truth, own.truth, on)
            skipped.update(*(group for group in ALTERNATIVES if name in group))
            if name in LARGE and not found[name]:  # what is bent is bent elsewhere, too
                skipped.discard(LARGER)
    return found


def hinges_on_zeros(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    free: Mapping[str, int],
    truth: Mapping[str, Any],
    on: Arithmetic,
) -> bool:
    """Whether results are others if every zero is a tiny number, each another one.

    Args:
        reference: computes them.
        values: of a draw.
        outputs: names of its outputs.
        free: inputs that were drawn otherwise, each with the sign that its numbers always have.
        truth: what the reference makes of the draw.
        on: the arithmetic.
    """
    on.reseed(0)
    signed = dict(values)
    for name, sign_kept in free.items():
        x = on.double(values[name])
        tiny = NEARLY_ZERO * (2.0 * on.double(on.uniform(values[name])) - 1.0)
        signed[name] = on.xp.where(x == 0, sign_kept * abs(tiny) if sign_kept else tiny, x)
    found = reference.expect(signed, outputs, exact=True)
    for name, exact in truth.items():
        most = LEAP * root_mean_square(exact, on) if on.is_floating(exact) else 0.0
        if not bool((abs(on.double(found[name]) - on.double(exact)) <= most).all()):
            return True
    return False


def _is_scaled(here: Mapping[str, Any], own: Mapping[str, Any], on: Arithmetic) -> bool:
    """Whether results are others times a power of two, each times its own."""
    return all(_is_times_a_power(here[n], own[n], on) for n in own if on.is_floating(own[n]))


def _is_times_a_power(here: Any, own: Any, on: Arithmetic) -> bool:
    sizes = root_mean_square(here, on), root_mean_square(own, on)
    if not all(0 < size < math.inf for size in sizes):
        return False
    times = 2.0 ** round(math.log2(sizes[0] / sizes[1]))
    return bool((here == times * own).all())


def _is_measurable(here: Mapping[str, Any], own: Mapping[str, Any], on: Arithmetic) -> bool:
    """Whether small inputs make results that are scaled, or not so small beside own draws' that
    zeros would do."""
    sizes = (
        (root_mean_square(here[name], on), root_mean_square(own[name], on))
        for name in own
        if on.is_floating(own[name])
    )
    return _is_scaled(here, own, on) or all(size >= LEAST_SMALL * usual for size, usual in sizes)


def _plain(array: Any, on: Arithmetic) -> NDArray[np.float64]:
    wide = on.wide(array)
    host = wide if isinstance(wide, np.ndarray) else wide.cpu().numpy()
    return np.asarray(host, dtype=np.float64)
