"""Arrays that are given and overwritten: without a copy where nothing reads what is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Program, Reduced, Scanned, Step, Stored
from roofsmith.proposers.schedules.passes import passes


def in_place(program: Program) -> Program:
    """With results computed where they end, in place of being copied there last."""
    for copy in program.groups:
        pair = _copied(copy, program)
        if pair is not None and _may_overwrite(program, copy, *pair):
            program = _renamed(program, copy, *pair)
    return program


def _copied(group: Group, program: Program) -> tuple[str, str] | None:
    """The scratch that a group copies, and the array that was given."""
    if len(group.steps) != 1 or not isinstance(step := group.steps[0], Stored):
        return None
    value = step.value
    if not isinstance(value, e.Read) or _place(value) != _written_at(step):
        return None
    is_scratch = program.buffers[value.buffer].role == "scratch"
    is_given = any(
        read.buffer == step.buffer for one in program.groups for read in _reads(one.steps)
    )
    return (value.buffer, step.buffer) if is_scratch and is_given else None


def _may_overwrite(program: Program, copy: Group, scratch: str, given: str) -> bool:
    groups = [group for group in program.groups if group is not copy]
    first = next(at for at, group in enumerate(groups) if _writes(group, scratch))
    if any(read.buffer == given for group in groups[first + 1 :] for read in _reads(group.steps)):
        return False
    if any(_writes(group, given) for group in groups):
        return False
    group = groups[first]
    own = [step for step in group.steps if isinstance(step, Stored) and step.buffer == scratch]
    if len(own) != 1:
        return False
    where = _written_at(own[0])
    if any(read.buffer == given and _place(read) != where for read in _reads(group.steps)):
        return False
    if not group.inner or not own[0].inner:
        return True
    loops, _ = passes(group)
    writes = next(at for at, one in enumerate(loops) if own[0] in one.steps)
    reads = [
        at for at, one in enumerate(loops) if any(r.buffer == given for r in _reads(one.steps))
    ]
    return writes >= max(reads, default=0)


def _renamed(program: Program, copy: Group, scratch: str, given: str) -> Program:
    def change(value: e.Expression) -> e.Expression:
        is_it = isinstance(value, e.Read) and value.buffer == scratch
        return replace(value, buffer=given) if is_it and isinstance(value, e.Read) else value

    groups = []
    for group in program.groups:
        if group is copy:
            continue
        steps = [
            step for one in group.steps if not _is_idle(step := _moved(one, change, scratch, given))
        ]
        if steps:
            groups.append(replace(group, steps=tuple(steps)))
    buffers = {name: one for name, one in program.buffers.items() if name != scratch}
    return replace(program, buffers=buffers, groups=tuple(groups))


def _moved(
    step: Step, change: Callable[[e.Expression], e.Expression], scratch: str, given: str
) -> Step:
    new = replace(step, value=e.rewritten(step.value, change))
    if isinstance(new, Reduced):
        if new.factors is None:
            return new
        left, right = (e.rewritten(one, change) for one in new.factors)
        return replace(new, factors=(left, right))
    if isinstance(new, Scanned):
        return new
    return replace(new, buffer=given if new.buffer == scratch else new.buffer)


def _is_idle(step: Step) -> bool:
    """Whether it writes an element of an array where it is."""
    return (
        isinstance(step, Stored)
        and isinstance(value := step.value, e.Read)
        and value.buffer == step.buffer
        and _place(value) == _written_at(step)
    )


def _reads(steps: tuple[Step, ...]) -> Iterator[e.Read]:
    for step in steps:
        yield from (one for one in e.walk(step.value) if isinstance(one, e.Read))


def _writes(group: Group, buffer: str) -> bool:
    return any(
        step.buffer == buffer for step in group.steps if not isinstance(step, Reduced | Scanned)
    )


def _place(read: e.Read) -> Size:
    return e.flat(read.index, read.shape)


def _written_at(step: Stored) -> Size:
    return e.flat(step.index, step.shape)
