"""What rows need of their own sums is stored with them, not by a later group that walks columns."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Stored
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.rewriting import renamed


def regrouped(program: Program) -> Program:
    """With stores in the group whose sums they are made of; what nobody reads any more is gone."""
    groups = list(program.groups)
    for number, group in enumerate(groups):
        for step in group.steps:
            if not isinstance(step, Stored) or not step.inner:
                continue
            for home in range(number):
                moved = _moved(program, groups, home, number, step)
                if moved is not None:
                    groups[home] = replace(groups[home], steps=(*groups[home].steps, moved))
                    kept = tuple(one for one in groups[number].steps if one is not step)
                    groups[number] = replace(groups[number], steps=kept)
                    break
    program = replace(program, groups=tuple(g for g in groups if g.steps))
    for number in range(len(program.groups)):
        for step in program.groups[number].steps:
            if isinstance(step, Stored) and step.inner:
                program = _picked(program, number, step)
    return _without_unread(program)


def _picked(program: Program, number: int, step: Stored) -> Program:
    """Without an array of which a few elements are picked: they are computed where they are."""
    readers = [
        one for group in program.groups for other in group.steps for one in e.walk(other.value)
        if isinstance(one, e.Read) and one.buffer == step.buffer
    ]  # fmt: skip
    meaning = program.places.meaning()
    hidden = any(
        isinstance(one, e.Read) and one.buffer == step.buffer
        for place in meaning.values() if isinstance(place, e.Chosen) for one in e.walk(place.value)
    )  # fmt: skip
    if program.buffers[step.buffer].role != "scratch" or not readers or hidden:
        return program
    group = program.groups[number]
    names = [axis.name for axis in (*group.outer, *group.inner)]
    if any(index not in [Size.of(name) for name in names] for index in step.index):
        return program
    inner = {axis.name for axis in group.inner}
    for read in readers:
        if read.shape != step.shape:
            return program
        for mine, theirs in zip(step.index, read.index, strict=True):
            chosen = [isinstance(meaning.get(name), e.Chosen) for name in theirs.dims]
            if mine.dims & inner and (len(chosen) != 1 or not all(chosen)):
                return program
    program, rows = _kept(program, number, step)

    def change(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Read) or value.buffer != step.buffer:
            return value
        moved = {
            next(iter(mine.dims)): theirs
            for mine, theirs in zip(step.index, value.index, strict=True)
        }
        held = e.rewritten(
            step.value, lambda one: rows[one.name] if isinstance(one, e.Held) else one
        )
        return renamed(held, moved, program.places)

    groups = [
        replace(one, steps=tuple(
            replace(other, value=e.rewritten(other.value, change))
            for other in one.steps if other is not step
        )) for one in program.groups
    ]  # fmt: skip
    return replace(program, groups=tuple(groups))


def _kept(program: Program, number: int, step: Stored) -> tuple[Program, dict[str, e.Read]]:
    """With what a row's element is made of stored for each row, and how that is read."""
    group, buffers = program.groups[number], dict(program.buffers)
    index = tuple(axis.index for axis in group.outer)
    shape = tuple(axis.size for axis in group.outer)
    rows: dict[str, e.Read] = {}
    steps = list(group.steps)
    for one in e.walk(step.value):
        if not isinstance(one, e.Held) or one.name in rows:
            continue
        name, dtype = f"{one.name}_kept", t.computed(one.dtype)
        while name in buffers:
            name += "_"
        buffers[name] = Buffer(name, shape, dtype, "scratch")
        steps.append(Stored(name, index, shape, one, False))
        rows[one.name] = e.Read(dtype, name, index, shape)
    groups = list(program.groups)
    groups[number] = replace(group, steps=tuple(steps))
    return replace(program, groups=tuple(groups), buffers=buffers), rows


def _moved(
    program: Program, groups: list[Group], home: int, number: int, step: Stored
) -> Stored | None:
    """The store as a step of an earlier group; None where it doesn't belong there."""
    group = groups[home]
    if set(group.inner) & set(groups[number].inner) or {*group.outer, *group.inner} != {
        *groups[number].outer, *groups[number].inner
    }:  # fmt: skip
        return None
    rows = {
        (one.buffer, e.flat(one.index, one.shape)): one.value for one in group.steps
        if isinstance(one, Stored) and not one.inner and isinstance(one.value, e.Held)
    }  # fmt: skip
    used = []

    def change(value: e.Expression) -> e.Expression:
        if isinstance(value, e.Read):
            found = rows.get((value.buffer, e.flat(value.index, value.shape)))
            if found is not None:
                used.append(found)
                return found
        return value

    value = e.rewritten(step.value, change)
    if not used:
        return None
    own = {one.name for one in group.steps if isinstance(one, Reduced)}
    if any(isinstance(one, e.Held) and one.name not in own for one in e.walk(value)):
        return None
    later = {one.buffer for other in groups[home:] for one in other.steps if hasattr(one, "buffer")}
    if any(isinstance(one, e.Read) and one.buffer in later for one in e.walk(value)):
        return None
    between = groups[home : number + 1]
    if any(_reads(other, step.buffer) for other in between):
        return None
    return replace(step, value=value)


def _reads(group: Group, buffer: str) -> bool:
    return any(
        isinstance(one, e.Read) and one.buffer == buffer
        for step in group.steps for one in e.walk(step.value)
    )  # fmt: skip


def _without_unread(program: Program) -> Program:
    """Scratch that nobody reads isn't stored."""
    values = [step.value for group in program.groups for step in group.steps]
    values += [
        place.value for place in program.places.meaning().values() if isinstance(place, e.Chosen)
    ]
    read = {one.buffer for value in values for one in e.walk(value) if isinstance(one, e.Read)}
    gone = {b.name for b in program.buffers.values() if b.role == "scratch" and b.name not in read}
    groups = tuple(
        replace(group, steps=tuple(
            step for step in group.steps if getattr(step, "buffer", "") not in gone
        )) for group in program.groups
    )  # fmt: skip
    buffers = {name: b for name, b in program.buffers.items() if name not in gone}
    return replace(program, buffers=buffers, groups=groups)
