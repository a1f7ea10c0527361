"""What a reference does with its arrays: found by running it.

A pointer to `const` is an input, but one that isn't may be anything: many kernels are written
without the word. So without `setup`, the reference runs on random numbers, and it shows which
arrays it writes, how much of them, and whether what they held before matters. With one, the outputs
are named, and only the last is to be found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from roofsmith.judge.correctness.distributions import Arithmetic
from roofsmith.judge.user_module import Complaint

REPEATED = 1e-3
"""How far two runs of a reference may differ, norm-wise, that were given the same."""
LARGEST_WHOLE = 99
"""Integers are drawn from 0 to this. It is odd, so that what is left to it is another number."""

Arrays = Mapping[str, Any]
"""NumPy's or torch's, by name."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What is more than an input, of the arrays that a kernel may write."""

    outputs: frozenset[str]
    """Those that the reference writes."""
    held: frozenset[str]
    """Outputs that must hold numbers before the call: they reach a result, or stay in parts."""
    written_bytes: int
    """Of all outputs, less what is left as it was."""

    @property
    def blank(self) -> frozenset[str]:
        """Outputs that hold nothing before the call."""
        return self.outputs - self.held


def read_outputs(
    run: Callable[[Arrays], Arrays], given: Arrays, outputs: Collection[str], on: Arithmetic
) -> frozenset[str]:
    """Outputs of a `setup` that must hold what it gives them: the reference reads them, or leaves
    some of their elements as they were.

    Most references do neither, which one run shows: with NaN in its outputs, it writes none. What
    it never touches was forgotten, and stays a mere output: whoever compares it finds out.

    Args:
        run: calls it on copies of arrays; what they hold afterwards.
        given: what `setup` returned.
        outputs: that it named.
        on: NumPy or torch.
    """
    others = {name: _other(given[name], on) for name in outputs}
    after = run({**given, **others})
    if not any(_may_hold_others(after[name], on) for name in outputs):
        return frozenset()
    usual = run(given)
    held = set()
    for name, other in others.items():
        again = run({**given, name: other})
        kept = _is_as_it_was(given[name], usual[name], on) and _is_as_it_was(other, again[name], on)
        changed = {key for key in outputs if _alters(usual[key], again[key], on)}
        if changed - {name} or (changed and not kept):
            held.add(name)
    return frozenset(held)


def _other(array: Any, on: Arithmetic) -> Any:
    """What is nowhere as the array is: NaN, or zeros for whatever else it holds, and ones for
    zeros."""
    if on.is_floating(array):
        return on.xp.full_like(array, math.nan)
    return on.like(on.double(array) == 0, array)


def _may_hold_others(after: Any, on: Arithmetic) -> bool:
    return not on.is_floating(after) or bool(on.xp.isnan(after).any())


def _is_as_it_was(before: Any, after: Any, on: Arithmetic) -> bool:
    """Whether nobody wrote to an array: a step of training may change its numbers by little."""
    one, other = on.double(before), on.double(after)
    return bool(((one == other) | (on.xp.isnan(one) & on.xp.isnan(other))).all())


def _alters(usual: Any, again: Any, on: Arithmetic) -> bool:
    """Whether two results differ by more than atomics do, which add in any order."""
    one, other = on.double(usual), on.double(again)
    missing, lost = on.xp.isnan(one), on.xp.isnan(other)
    if bool((missing != lost).any()):
        return True
    if not on.is_floating(usual):
        return bool((one != other).any())
    off = on.xp.where(missing | (one == other), 0.0 * on.xp.ones_like(one), one - other)
    size = on.xp.where(missing, on.xp.zeros_like(one), one)
    return bool((off * off).sum() > REPEATED**2 * (size * size).sum())


def find_roles(
    run: Callable[[Arrays], Arrays],
    drawn: Arrays,
    other: Arrays,
    writable: Collection[str],
    differ: Callable[[Any, Any], Any],
) -> Roles:
    """Run a reference once, and once more for every array that it writes.

    An element that both runs give what it held already, as maximum(x, 0) may, counts as left alone.
    That makes fewer bytes written, never more.

    Args:
        run: calls it on copies of arrays; what they hold afterwards.
        drawn: random numbers for every array.
        other: other ones, of the same shapes; none is as in `drawn`.
        writable: arrays that the kernel doesn't take as `const`.
        differ: which elements of two arrays aren't the same; a NaN equals itself.

    Raises:
        Complaint: it writes none of them.
    """
    after = run(drawn)
    outputs = [name for name in writable if bool(differ(after[name], drawn[name]).any())]
    if not outputs:
        raise Complaint(
            "reference writes none of the arrays that solve takes without const"
            f" ({', '.join(writable)}): it must fill the outputs in place"
        )
    held, written_bytes = set(), 0
    for name in outputs:
        again = run({**drawn, name: other[name]})
        left = ~(differ(after[name], drawn[name]) | differ(again[name], other[name]))
        changed = differ(after[name], again[name]) & ~left
        others = (k for k in outputs if k != name)
        reaches = changed.any() or any(differ(after[k], again[k]).any() for k in others)
        elements, left_alone = math.prod(left.shape), int(left.sum())
        if reaches or left_alone:
            held.add(name)
        written_bytes += (elements - left_alone) * int(after[name].itemsize)
    return Roles(frozenset(outputs), frozenset(held), written_bytes)
