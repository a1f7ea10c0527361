"""Reductions along short axes of known size, such as windows, written out term by term.

The loop that stays innermost is then one that is contiguous, and long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Step, Stored
from roofsmith.proposers.schedules.strides import coefficient, substituted, work

MOST_TERMS = 32
"""Of a window that is written out: 5 x 5 is. Chosen."""
MOST_WORK = 256
"""Operations of what is written out. Chosen."""
LARGEST_STEP = 4
"""Between neighbours along the loop that stays, for vectors to be worth it. Chosen."""
_OPS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def unrolled(group: Group, places: Mapping[str, e.Place]) -> Group:
    """The group without its short inner axes, where another axis is as good for vectors."""
    short = tuple(axis for axis in group.inner if axis.size.constant is not None)
    counts = [axis.size.constant or 1 for axis in short]
    if not short or math.prod(counts) > MOST_TERMS or not group.outer:
        return group
    names = {axis.name for axis in short}
    for step in group.steps:
        if isinstance(step, Stored) and not step.inner:
            continue
        if not isinstance(step, Reduced) or step.op not in _OPS or step.value.dtype != step.dtype:
            return group
        if work([step.value]) * math.prod(counts) > MOST_WORK:
            return group
        if any(
            name in places and names & e.names_in(e.Position("int64", Size.of(name)), places)
            for index in e.indices(step.value) for name in index.dims
        ):  # fmt: skip
            return group
    if not _has_lanes(group, group.outer):
        return group
    steps: list[Step] = []
    held: dict[str, e.Expression] = {}
    kept = tuple(axis for axis in group.inner if axis not in short)

    def known(value: e.Expression) -> e.Expression:
        return held.get(value.name, value) if isinstance(value, e.Held) else value

    for step in group.steps:
        value = e.rewritten(step.value, known)
        if not isinstance(step, Reduced):
            steps.append(replace(step, value=value))
            continue
        terms = [
            _at(value, {axis.name: Size.of(at) for axis, at in zip(short, index, strict=True)})
            for index in itertools.product(*map(range, counts))
        ]
        op = _OPS[step.op]
        total = reduce(lambda a, b, op=op: e.Operation(a.dtype, op, (a, b)), terms)  # type: ignore[misc]
        if kept:
            steps.append(replace(step, value=total, factors=None))
        else:
            held[step.name] = total
    return Group(group.outer, kept, tuple(steps))


def _has_lanes(group: Group, outer: tuple[Axis, ...]) -> bool:
    """Whether along some outer axis what is stored is contiguous, and what is read nearly so."""
    stores = [step for step in group.steps if isinstance(step, Stored)]
    reads = [
        e.flat(one.index, one.shape)
        for step in group.steps for one in e.walk(step.value) if isinstance(one, e.Read)
    ]  # fmt: skip
    for axis in outer:
        if axis.size == ONE or (axis.size.constant is not None and axis.size.constant < 8):
            continue
        written = [coefficient(e.flat(one.index, one.shape), axis.name) for one in stores]
        steps = [coefficient(index, axis.name).constant for index in reads]
        if all(step == ONE for step in written) and all(
            step is not None and 0 <= step <= LARGEST_STEP for step in steps
        ) and any(steps):  # fmt: skip
            return True
    return False


def _at(value: e.Expression, moved: Mapping[str, Size]) -> e.Expression:
    """With some loop variables known."""

    def change(one: e.Expression) -> e.Expression:
        match one:
            case e.Read():
                return replace(one, index=tuple(substituted(part, moved) for part in one.index))
            case e.Position():
                return replace(one, index=substituted(one.index, moved))
            case e.Within():
                asked = tuple(_condition(part, moved) for part in one.conditions)
                return replace(one, conditions=asked)
            case _:
                return one

    return e.rewritten(value, change)


def _condition(one: e.Inside, moved: Mapping[str, Size]) -> e.Inside:
    low = None if one.low is None else substituted(one.low, moved)
    high = None if one.high is None else substituted(one.high, moved)
    return e.Inside(substituted(one.index, moved), low, high)
