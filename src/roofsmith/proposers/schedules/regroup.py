"""What rows need of their own sums is stored with them, not by a later group that walks columns."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Stored
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.rewriting import axes_by_stride, flattened, rejoined, renamed


def regrouped(program: Program) -> Program:
    """As kernels of a GPU have it: flat groups that store something.

    Outside of loops stores are in the group whose sums they are made of, and what nobody reads any
    more is gone.
    """
    stores = tuple(
        group for group in program.groups if any(hasattr(step, "buffer") for step in group.steps)
    )
    program = flattened(replace(program, groups=stores))
    return program if program.loops else _with_stores_moved(program)


def _with_stores_moved(program: Program) -> Program:
    groups = list(program.groups)
    for number, group in enumerate(groups):
        for step in group.steps:
            if not isinstance(step, Stored) or not step.inner:
                continue
            for home in range(number):
                moved = _moved(groups, home, number, step)
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
    for number in reversed(range(len(program.groups))):
        program = _joined(program, number)
    return _without_unread(program)


def _joined(program: Program, number: int) -> Program:
    """With what only changes each element of a scratch array done where that is computed."""
    group = program.groups[number]
    if group.inner or len(group.steps) != 1 or not isinstance(step := group.steps[0], Stored):
        return program
    reads = {*e.reads(step.value)}
    for read in reads:
        found = _written(program, number, read)
        if found is None:
            continue
        at, home = found
        owner = program.groups[at]
        later = {
            getattr(one, "buffer", "") for other in program.groups[at:number] for one in other.steps
        }
        if any(one != read and one.buffer in later for one in reads):
            continue
        if any(_reads(other, step.buffer) for other in program.groups[at:number]):
            continue
        moved = axes_by_stride(
            e.flat(read.index, read.shape), e.flat(home.index, home.shape), group, owner,
            program.places,
        )  # fmt: skip
        if moved is None or set(moved) < {axis.name for axis in group.outer}:
            continue
        value = e.rewritten(
            step.value,
            lambda one, read=read: e.Held(one.dtype, "") if one == read else one,  # type: ignore[misc]
        )
        value = renamed(value, moved, program.places)
        value = e.rewritten(
            value,
            lambda one, home=home: home.value if one == e.Held(one.dtype, "") else one,  # type: ignore[misc]
        )
        place = e.Position("int64", e.flat(step.index, step.shape))
        index = renamed(place, moved, program.places)
        assert isinstance(index, e.Position)
        plain = rejoined(index.index, program.places.meaning())
        ended = replace(
            home, buffer=step.buffer, index=(plain,), shape=(elements(step.shape),), value=value
        )
        steps = tuple(ended if one is home else one for one in owner.steps)
        groups = list(program.groups)
        groups[at] = replace(owner, steps=steps)
        del groups[number]
        return replace(program, groups=tuple(groups))
    return program


def _written(program: Program, number: int, read: e.Read) -> tuple[int, Stored] | None:
    """Where a scratch array is stored that one group reads, and nobody else."""
    if program.buffers[read.buffer].role != "scratch":
        return None
    homes = [
        (at, step) for at, group in enumerate(program.groups[:number]) for step in group.steps
        if getattr(step, "buffer", "") == read.buffer
    ]  # fmt: skip
    readers = [one for one in program.groups if _reads(one, read.buffer)]
    if len(homes) != 1 or len(readers) != 1 or not isinstance(homes[0][1], Stored):
        return None
    every = {*e.reads(program.groups[number].steps[0].value)}
    is_one = [one.buffer for one in every].count(read.buffer) == 1
    return homes[0] if is_one else None  # type: ignore[return-value]


def _picked(program: Program, number: int, step: Stored) -> Program:
    """Without an array of which a few elements are picked: they are computed where they are."""
    readers = [
        one for group in program.groups for one in group.reads
        if one.buffer == step.buffer
    ]  # fmt: skip
    meaning = program.places.meaning()
    hidden = any(
        one.buffer == step.buffer
        for place in meaning.values() if isinstance(place, e.Chosen) for one in e.reads(place.value)
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
        name, dtype = f"{one.name}_kept", "float32" if one.dtype in HALVES else one.dtype
        while name in buffers:
            name += "_"
        buffers[name] = Buffer(name, shape, dtype, "scratch")
        steps.append(Stored(name, index, shape, one, False))
        rows[one.name] = e.Read(dtype, name, index, shape)
    groups = list(program.groups)
    groups[number] = replace(group, steps=tuple(steps))
    return replace(program, groups=tuple(groups), buffers=buffers), rows


def _moved(groups: list[Group], home: int, number: int, step: Stored) -> Stored | None:
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
    if any(one.buffer in later for one in e.reads(value)):
        return None
    between = groups[home : number + 1]
    if any(_reads(other, step.buffer) for other in between):
        return None
    return replace(step, value=value)


def _reads(group: Group, buffer: str) -> bool:
    return any(one.buffer == buffer for one in group.reads)


def _without_unread(program: Program) -> Program:
    """Scratch that nobody reads isn't stored."""
    values = [step.value for group in program.groups for step in group.steps]
    values += [
        place.value for place in program.places.meaning().values() if isinstance(place, e.Chosen)
    ]
    read = {one.buffer for one in e.reads(*values)}
    gone = {b.name for b in program.buffers.values() if b.role == "scratch" and b.name not in read}
    groups = tuple(
        replace(group, steps=tuple(
            step for step in group.steps if getattr(step, "buffer", "") not in gone
        )) for group in program.groups
    )  # fmt: skip
    buffers = {name: b for name, b in program.buffers.items() if name not in gone}
    return replace(program, buffers=buffers, groups=groups)
