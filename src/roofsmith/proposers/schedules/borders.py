"""Loops in three parts, so that the long one in the middle asks for no bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Stored
from roofsmith.proposers.schedules.strides import coefficient


@dataclass(frozen=True)
class Middle:
    """The part of a loop in which bounds hold."""

    first: int
    last: Size
    """Behind the last."""
    steps: tuple[Stored, ...]
    """What is stored there."""
    is_all: bool
    """Elsewhere nothing is stored."""


def middle(axis: Axis, steps: Sequence[Stored], places: e.Places) -> Middle | None:
    """Where conditions on a loop's variable hold; None where there are none to be rid of."""
    asked = {
        condition: bound
        for step in steps
        for condition in _conditions(step.value)
        if (bound := _bound(condition, axis, places)) is not None
    }
    if not asked:
        return None
    first = max((bound for bound in asked.values() if bound >= 0), default=0)
    short = min((bound for bound in asked.values() if bound < 0), default=0)

    def freed(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Within):
            return value
        left = tuple(one for one in value.conditions if one not in asked)
        return replace(value, conditions=left) if left else value.inside

    kept = tuple(replace(step, value=e.rewritten(step.value, freed)) for step in steps)
    is_all = all(
        isinstance(step.value, e.Within)
        and asked.keys() <= set(step.value.conditions)
        and _is_idle(replace(step, value=step.value.outside))
        for step in steps
    )
    return Middle(first, axis.size + short, kept, is_all)


def outer_conditions(
    axis: Axis, steps: Sequence[Stored], places: e.Places
) -> tuple[e.Inside, ...] | None:
    """The only bounds, of all that are asked for, that don't depend on a loop's variable."""
    meaning = places.meaning()
    found = {
        same
        for step in steps for one in e.walk(step.value) if isinstance(one, e.Within)
        if (same := tuple(c for c in one.conditions if not _depends(c, axis, meaning)))
    }  # fmt: skip
    return found.pop() if len(found) == 1 else None


def _depends(condition: e.Inside, axis: Axis, meaning: Mapping[str, e.Place]) -> bool:
    bounds = [size for size in (condition.index, condition.low, condition.high) if size is not None]
    names = {name for size in bounds for name in size.dims}
    return axis.name in names or bool(names & meaning.keys())


def settled(
    steps: Sequence[Stored], conditions: tuple[e.Inside, ...], *, hold: bool
) -> tuple[Stored, ...]:
    """Where bounds hold, or don't; without what is stored where it is."""

    def known(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Within) or not set(conditions) <= set(value.conditions):
            return value
        if not hold:
            return value.outside
        left = tuple(one for one in value.conditions if one not in conditions)
        return replace(value, conditions=left) if left else value.inside

    made = (replace(step, value=e.rewritten(step.value, known)) for step in steps)
    return tuple(step for step in made if not _is_idle(step))


def _is_idle(step: Stored) -> bool:
    value = step.value
    same = isinstance(value, e.Read) and value.buffer == step.buffer
    return same and isinstance(value, e.Read) and (
        e.flat(value.index, value.shape) == e.flat(step.index, step.shape)
    )  # fmt: skip


def _conditions(value: e.Expression) -> Iterator[e.Inside]:
    for one in e.walk(value):
        if isinstance(one, e.Within):
            yield from one.conditions


def _bound(condition: e.Inside, axis: Axis, places: e.Places) -> int | None:
    """From where the variable is inside; negative: how far from the end it no longer is."""
    index = condition.index
    if coefficient(index, axis.name) != ONE or index.dims & places.meaning().keys():
        return None
    rest = index - axis.index
    if condition.low is not None and condition.high is None:
        low = (condition.low - rest).constant
        return None if low is None else max(0, low)
    if condition.high is not None and condition.low is None:
        beyond = (condition.high - rest - axis.size).constant
        return beyond if beyond is not None and beyond < 0 else None
    return None
