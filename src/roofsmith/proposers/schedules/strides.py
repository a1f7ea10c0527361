"""How arrays are walked along loops: which loop is contiguous, and which two are one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.demand import CALLS, COSTLY
from roofsmith.proposers.schedules.groups import (
    Axis,
    Group,
    Reduced,
    Scanned,
    Step,
    Stored,
    rewritten,
)


def coefficient(index: Size, variable: str) -> Size:
    """What a place in memory grows by, with a loop variable."""
    total = ZERO
    for factors, count in index.terms:
        if variable in factors:
            left = list(factors)
            left.remove(variable)
            total = total + (Size(((tuple(left), count),), index.quotients) + 0)
    return total


def walked(group: Group, places: Mapping[str, e.Place]) -> Iterator[tuple[bool, Size]]:
    """Of every access whether it writes, and where it is in its buffer; not those that tell
    indices."""
    del places
    for step in group.steps:
        yield from ((False, e.flat(one.index, one.shape)) for one in e.reads(step.value))
        if not isinstance(step, Reduced | Scanned):
            yield True, e.flat(step.index, step.shape)


def contiguity(group: Group, axis: Axis, places: Mapping[str, e.Place]) -> int:
    """By how many accesses the axis is contiguous, less those that it isn't for.

    What is touched once for each outer index counts little, and what every outer index touches
    again not much more: it stays in the cache.
    """
    outer, inner = ({one.name for one in axes} for axes in (group.outer, group.inner))
    total = 0
    for writes, index in walked(group, places):
        step = coefficient(index, axis.name)
        names = e.names_in(e.Position("int64", index), places)
        hidden = axis.name in names and axis.name not in index.dims
        often = not inner or bool(inner & names)
        weight = (2 if writes else 1) * (_OFTEN if often and (not outer or outer & names) else 1)
        weight *= _AGAIN if often and outer and not outer & names else 1
        if step == ONE and not hidden:
            total += 3 * weight
        elif step != ZERO or hidden:
            total -= 2 * weight
    return total


_OFTEN = 100
"""How much more an access inside inner loops counts. Chosen."""
_AGAIN = 10
"""The same where every outer index has it. Chosen."""


def contiguous_axis(group: Group, places: Mapping[str, e.Place]) -> Axis | None:
    """The axis along which most of what is read and written lies in one piece.

    What varies along all axes counts; a store of what was reduced is little beside it.
    """
    axes = [axis for axis in (*group.outer, *group.inner) if axis.size != ONE]
    largest: dict[Axis, int] = {}
    for _, index in walked(group, places):
        steps = [coefficient(index, axis.name) for axis in axes]
        weight = sum(step != ZERO for step in steps) ** 3
        for axis, step in zip(axes, steps, strict=True):
            if step == ONE:
                largest[axis] = largest.get(axis, 0) + weight
    return max(largest, key=lambda axis: (largest[axis], axes.index(axis)), default=None)


def vector_axis(group: Group, places: Mapping[str, e.Place]) -> Axis | None:
    """The axis along which most accesses are contiguous; the last of several."""
    axes = [axis for axis in (*group.outer, *group.inner) if axis.size != ONE]
    best = max(
        (contiguity(group, axis, places), at) for at, axis in enumerate(axes)
    ) if axes else None  # fmt: skip
    return axes[best[1]] if best else None


USUAL = 64
"""What a dim is taken for where no workload is known. Chosen."""


def stride(index: Size, axis: Axis, dims: Mapping[str, int]) -> int | None:
    """What a place in memory grows by, in numbers; None: other loops decide it."""
    step = coefficient(index, axis.name)
    known = {name: dims.get(name, USUAL) for name in step.dims}
    return abs(step.at(known)) if not dims or step.dims <= dims.keys() else None


def in_memory_order(group: Group, dims: Mapping[str, int]) -> Group:
    """The group whose outer axes come in the order in which its first result lies in memory.

    Args:
        group: whose outer axes are independent.
    """
    store = next((step for step in group.steps if isinstance(step, Stored)), None)
    if store is None:
        return group
    index = e.flat(store.index, store.shape)
    steps = {axis: stride(index, axis, dims) for axis in group.outer if axis.size != ONE}
    if any(not step for step in steps.values()):
        return group
    order = sorted(group.outer, key=lambda axis: -(steps.get(axis) or 0))
    ones = [axis for axis in order if axis.size == ONE]
    return replace(group, outer=(*ones, *(axis for axis in order if axis.size != ONE)))


def axes_across(
    group: Group, vector: Axis, places: Mapping[str, e.Place], *, stores: bool = False
) -> Iterator[Axis]:
    """Other axes along which something is in one piece that `vector` strides over."""
    for writes, index in walked(group, places):
        if (writes and not stores) or coefficient(index, vector.name) in (ZERO, ONE):
            continue
        for axis in group.outer:
            if axis != vector and axis.size != ONE and coefficient(index, axis.name) == ONE:
                yield axis


def turnable(group: Group, fast: Axis, slow: Axis, places: Mapping[str, e.Place]) -> list[e.Read]:
    """Reads that are contiguous the other way, and that no bounds guard."""
    guarded = {
        part
        for step in group.steps for one in e.walk(step.value) if isinstance(one, e.Within)
        for part in e.walk(one)
    }  # fmt: skip
    found: dict[e.Read, None] = {}
    for one in group.reads:
        index = e.flat(one.index, one.shape)
        plain = one not in guarded and not index.dims & places.keys()
        is_across = coefficient(index, slow.name) == ONE
        if plain and is_across and coefficient(index, fast.name) not in (ZERO, ONE):
            found[one] = None
    return list(found)


def neighbours(
    group: Group, outer: Sequence[Axis], places: Mapping[str, e.Place],
    most: Callable[[Size, int], int],
) -> Axis | None:  # fmt: skip
    """The outer axis along which what is reduced lies side by side: windows.

    Args:
        places: what names in indices mean.
        most: a size on the largest workload, or the number given where that is unknown.
    """
    for axis in reversed(outer):
        for _, index in walked(group, places):
            apart = coefficient(index, axis.name)
            is_reduced = any(coefficient(index, one.name) != ZERO for one in group.inner)
            if is_reduced and apart != ZERO and most(apart, 1 << 20) <= NEAR:
                return axis
    return None


NEAR = 8
"""Elements between neighbours up to which a cache line serves several of them. Chosen."""


def merged(group: Group, places: e.Places) -> Group:
    """With neighbouring axes made one where every access walks them as one."""
    changed = True
    while changed:
        changed = False
        for axes in (group.outer, group.inner):
            for first, second in itertools.pairwise(axes):
                if _are_one(group, first, second, places.meaning()):
                    group, changed = _with_one(group, first, second, places), True
                    break
            if changed:
                break
    return group


def _are_one(group: Group, first: Axis, second: Axis, places: Mapping[str, e.Place]) -> bool:
    for _, index in walked(group, places):
        if coefficient(index, first.name) != coefficient(index, second.name) * second.size:
            return False
    names = {first.name, second.name}
    for step in group.steps:
        if not isinstance(step, Reduced | Stored | Scanned):
            return False
        if isinstance(step, Reduced) and step.op in ("argmax", "argmin"):
            return False
        for one in e.walk(step.value):
            match one:
                case e.Position():
                    used = [one.index]
                case e.Within():
                    used = [condition.index for condition in one.conditions]
                case e.Read():
                    used = [
                        Size.of(name) for part in one.index for name in part.dims if name in places
                    ]
                case _:
                    continue
            if any(names & e.names_in(e.Position("int64", index), places) for index in used):
                return False
        if isinstance(step, Scanned):
            return False
    return True


def _with_one(group: Group, first: Axis, second: Axis, places: e.Places) -> Group:
    name = first.name + second.name
    while {name, f"{name}0", f"{name}1"} & places.taken:
        name += "_"
    size = first.size * second.size
    places.ranges[name] = size
    moved = {first.name: ZERO, second.name: Size.of(name)}
    one = Axis(name, size)

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        kept = [one if axis == first else axis for axis in old if axis != second]
        return tuple(kept)

    def moved_read(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Read):
            return value
        index = substituted(e.flat(value.index, value.shape), moved)
        return replace(value, index=(index,), shape=(elements(value.shape),))

    steps: list[Step] = []
    for step in group.steps:
        step = rewritten(step, moved_read)
        if isinstance(step, Stored):
            index = substituted(e.flat(step.index, step.shape), moved)
            step = replace(step, index=(index,), shape=(elements(step.shape),))
        steps.append(step)
    return replace(group, outer=axes(group.outer), inner=axes(group.inner), steps=tuple(steps))


def substituted(index: Size, moved: Mapping[str, Size]) -> Size:
    total = ZERO
    for factors, count in index.terms:
        kept = tuple(name for name in factors if name not in moved)
        term = Size(((kept, count),), index.quotients) + 0
        for name in factors:
            if name in moved:
                term = term * moved[name]
        total = total + term
    return total


def work(values: Sequence[e.Expression]) -> int:
    """About how many simple operations a set of values takes."""
    return sum(
        (COSTLY if one.op in CALLS else 4 if one.op in ("div", "sqrt", "rsqrt") else 1)
        for one in {one for value in values for one in e.walk(value)}
        if isinstance(one, e.Operation)
    )
