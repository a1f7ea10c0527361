"""Programs with plainer indices, and expressions with other loop variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Program, rewritten
from roofsmith.proposers.schedules.strides import coefficient, substituted


def flattened(program: Program) -> Program:
    """With reads by one index where a quotient and a remainder are what was divided."""
    places = program.places.meaning()

    def plain(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Read):
            return value
        whole = e.flat(value.index, value.shape)
        plainer = rejoined(whole, places)
        if plainer == whole:
            return value
        return replace(value, index=(plainer,), shape=(elements(value.shape),))

    groups = (
        replace(group, steps=tuple(rewritten(step, plain) for step in group.steps))
        for group in program.groups
    )
    return replace(program, groups=tuple(groups))


def rejoined(index: Size, places: Mapping[str, e.Place]) -> Size:
    """`x // n * n + x % n` as `x`."""
    changed = True
    while changed:
        changed = False
        for name in sorted(index.dims & places.keys()):
            place = places[name]
            if not isinstance(place, e.Remainder):
                continue
            same = place.index, place.size
            quotients = [
                other for other, one in places.items()
                if isinstance(one, e.Quotient) and (one.index, one.size) == same
            ]  # fmt: skip
            step = coefficient(index, name)
            for other in quotients:
                if step != ZERO and coefficient(index, other) == step * place.size:
                    rest = index - step * Size.of(name) - step * place.size * Size.of(other)
                    index, changed = rest + step * place.index, True
                    break
    return index


def renamed(value: e.Expression, moved: Mapping[str, Size], places: e.Places) -> e.Expression:
    """The expression with other loop variables, in what its places mean, too."""
    meaning = places.meaning()

    def size(index: Size) -> Size:
        again = dict(moved)
        for name in index.dims & meaning.keys():
            match meaning[name]:
                case e.Quotient(inner, by):
                    again[name] = places.size(e.Quotient(size(inner), by))
                case e.Remainder(inner, by):
                    again[name] = places.size(e.Remainder(size(inner), by))
                case e.Chosen(inner):
                    again[name] = places.size(e.Chosen(e.rewritten(inner, change)))
        return substituted(index, again)

    def change(one: e.Expression) -> e.Expression:
        match one:
            case e.Read():
                return replace(one, index=tuple(map(size, one.index)))
            case e.Position():
                return replace(one, index=size(one.index))
            case e.Within():
                conditions = tuple(replace(c, index=size(c.index)) for c in one.conditions)
                return replace(one, conditions=conditions)
            case _:
                return one

    return e.rewritten(value, change)


def axes_by_stride(
    written: Size, read: Size, group: Group, other: Group, places: e.Places
) -> dict[str, Size] | None:
    """Variables of `group`, which walks a place so, as those of `other`, which walks it too.

    Several axes of one may be one of the other.
    """
    found: dict[str, Size] = {}
    mine: list[tuple[Axis, Size]] = []
    theirs = [
        (axis, coefficient(read, axis.name)) for axis in (*other.outer, *other.inner)
        if axis.size.constant != 1 and coefficient(read, axis.name) != ZERO
    ]  # fmt: skip
    for axis in (*group.outer, *group.inner):
        step = coefficient(written, axis.name)
        if axis.size.constant == 1:
            found[axis.name] = ZERO
        elif step != ZERO:
            same = [one for one in theirs if one == (Axis(one[0].name, axis.size), step)]
            if len(same) == 1:
                found[axis.name] = same[0][0].index
                theirs.remove(same[0])
            else:
                mine.append((axis, step))
    if not mine:
        return found
    if not theirs:
        return None
    if len(theirs) == 1:
        (whole, step) = theirs[0]
        if not _are_one(mine, whole, step):
            return None
        for axis, own in mine:
            apart = e.exactly(own, step)
            assert apart is not None
            at = whole.index if apart == ONE else places.divided(whole.index, apart)
            first = axis == mine[0][0]
            found[axis.name] = at if first else places.remainder(at, axis.size)
        return found
    if len(mine) == 1:
        (whole, step) = mine[0]
        if not _are_one(theirs, whole, step):
            return None
        total = ZERO
        for axis, own in theirs:
            apart = e.exactly(own, step)
            assert apart is not None
            total = total + apart * axis.index
        found[whole.name] = total
        return found
    return None


def _are_one(parts: list[tuple[Axis, Size]], whole: Axis, step: Size) -> bool:
    """Whether axes, the slowest first, together walk as one does."""
    size = elements(tuple(axis.size for axis, _ in parts))
    behind = step
    for axis, own in reversed(parts):
        if own != behind:
            return False
        behind = behind * axis.size
    return size == whole.size
