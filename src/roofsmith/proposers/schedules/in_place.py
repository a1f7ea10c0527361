"""Arrays that are given and overwritten: without a copy where nothing reads what is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Program, Reduced, Scanned, Step, Stored
from roofsmith.proposers.schedules.passes import passes
from roofsmith.proposers.schedules.strides import substituted


def in_place(program: Program) -> Program:
    """With results computed where they end, in place of being copied there last."""
    for copy in program.groups:
        pair = _copied(copy, program)
        if pair is not None and _may_overwrite(program, copy, *pair):
            return in_place(_renamed(program, copy, *pair))
    return program


def repeated_in_place(program: Program) -> Program:
    """With what loops carry overwritten by what it becomes, where no iteration needs both.

    It needs no memory of its own, then, where it is a result.
    """
    for number, loop in program.loops.items():
        for begin, end in loop.moves.items():
            program = _carried(program, number, begin, end)
    while (found := next(_turned(program), None)) is not None:
        program = found
    return in_place(program)


def _turned(program: Program) -> Iterator[Program]:
    """Programs whose loops write into a result itself, and into no other arrangement of it that is
    copied from it before and back afterwards, such as `y.T[t] = ...`."""
    handed_on = {name for loop in program.loops.values() for name in loop.handed_on}
    for at, copy in enumerate(program.groups):
        step = copy.steps[0] if len(copy.steps) == 1 else None
        if copy.loop is None or not isinstance(step, Stored) or not isinstance(step.value, e.Read):
            continue
        whole, turned = step.value, step.buffer
        if (
            program.buffers[turned].role != "scratch"
            or turned in handed_on
            or {whole.buffer, turned} & of_places(program)
        ):
            continue
        for end in range(at + 1, len(program.groups)):
            back = program.groups[end]
            between = program.groups[at + 1 : end]
            others = [*program.groups[:at], *program.groups[end + 1 :]]
            if _is_inverse(back, step) and not any(
                _uses(group, whole.buffer) for group in between
            ) and not any(_uses(group, turned) for group in others):  # fmt: skip
                moved = [_arranged(group, step) for group in between]
                if None not in moved and back.loop == copy.loop:
                    buffers = {n: one for n, one in program.buffers.items() if n != turned}
                    groups = (
                        *program.groups[:at],
                        *filter(None, moved),
                        *program.groups[end + 1 :],
                    )
                    yield replace(program, buffers=buffers, groups=groups)
                break


def _is_inverse(back: Group, copy: Stored) -> bool:
    """Whether a group copies back what was copied, element by element."""
    step = back.steps[0] if len(back.steps) == 1 else None
    if not isinstance(step, Stored) or not isinstance(step.value, e.Read):
        return False
    read = step.value
    if (step.buffer, read.buffer) != (copy.value.buffer, copy.buffer) or read.shape != copy.shape:  # type: ignore[attr-defined]
        return False
    as_copied = _by_axes(read.index, copy)
    return as_copied is not None and _written_at(step) == e.flat(as_copied, copy.value.shape)  # type: ignore[attr-defined]


def _by_axes(index: e.Index, copy: Stored) -> e.Index | None:
    """Where in the whole array lies what has that index in the copy; None: it can't be told."""
    names = [next(iter(part.dims), "") for part in copy.index]
    plain = [part == Size.of(name) for part, name in zip(copy.index, names, strict=True)]
    if not all(plain) or len({*names}) < len(names) or not isinstance(copy.value, e.Read):
        return None
    moved = dict(zip(names, index, strict=True))
    return tuple(substituted(part, moved) for part in copy.value.index)


def _arranged(group: Group, copy: Stored) -> Group | None:
    """A group that writes into the whole array what it wrote into a copy; None: it can't."""
    steps = list[Step]()
    for step in group.steps:
        if any(read.buffer == copy.buffer for read in e.reads(step.value)):
            return None
        if not isinstance(step, Reduced | Scanned) and step.buffer == copy.buffer:
            whole, place = copy.value, _by_axes(step.index, copy)
            if step.shape != copy.shape or place is None or not isinstance(whole, e.Read):
                return None
            step = replace(step, buffer=whole.buffer, index=place, shape=whole.shape)
        steps.append(step)
    return replace(group, steps=tuple(steps))


def _uses(group: Group, buffer: str) -> bool:
    return _writes(group, buffer) or any(read.buffer == buffer for read in group.reads)


def _carried(program: Program, number: int, begin: str, end: str) -> Program:
    """With one array in place of two, if each element is read last where it is written."""
    loop = program.loops[number]
    inside = [group for group in program.groups if group.loop == number]
    if {begin, end} & of_places(program) or begin in loop.moves.values():
        return program
    if not _is_overwritten(inside, end, begin):
        return program
    program = _renamed(program, None, end, begin)
    moves = {name: source for name, source in loop.moves.items() if name != begin}
    return replace(program, loops={**program.loops, number: replace(loop, moves=moves)})


def _copied(group: Group, program: Program) -> tuple[str, str] | None:
    """The scratch that a group copies, and the array of its size that was given."""
    if len(group.steps) != 1 or not isinstance(step := group.steps[0], Stored):
        return None
    value = step.value
    if not isinstance(value, e.Read) or _place(value) != _written_at(step):
        return None
    own, other = (program.buffers[name] for name in (value.buffer, step.buffer))
    is_scratch = own.role == "scratch" and elements(own.shape) == elements(other.shape)
    if {value.buffer, step.buffer} & of_places(program):
        return None
    is_given = any(read.buffer == step.buffer for one in program.groups for read in one.reads)
    handed_on = {name for loop in program.loops.values() for name in loop.handed_on}
    may = is_scratch and (is_given or program.loops) and value.buffer not in handed_on
    return (value.buffer, step.buffer) if may else None


def _may_overwrite(program: Program, copy: Group, scratch: str, given: str) -> bool:
    return _is_overwritten([group for group in program.groups if group is not copy], scratch, given)


def _is_overwritten(groups: Sequence[Group], scratch: str, given: str) -> bool:
    """Whether an array may be written where another is, which is read before or at that place."""
    first = next((at for at, group in enumerate(groups) if _writes(group, scratch)), None)
    if first is None:
        return False
    if any(read.buffer == given for group in groups[first + 1 :] for read in group.reads):
        return False
    if any(_writes(group, given) for group in groups):
        return False
    group = groups[first]
    own = [step for step in group.steps if isinstance(step, Stored) and step.buffer == scratch]
    if len(own) != 1:
        return False
    where = _written_at(own[0])
    if any(read.buffer == given and _place(read) != where for read in group.reads):
        return False
    if not group.inner or not own[0].inner:
        return True
    loops, _ = passes(group)
    writes = next(at for at, one in enumerate(loops) if own[0] in one.steps)
    reads = [
        at
        for at, one in enumerate(loops)
        if any(r.buffer == given for s in one.steps for r in e.reads(s.value))
    ]
    return writes >= max(reads, default=0)


def _renamed(program: Program, copy: Group | None, scratch: str, given: str) -> Program:
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


def of_places(program: Program) -> set[str]:
    """Arrays whose elements are indices."""
    chosen = (place.value for place in program.places.names if isinstance(place, e.Chosen))
    return {one.buffer for one in e.reads(*chosen)}


def _writes(group: Group, buffer: str) -> bool:
    return any(
        step.buffer == buffer for step in group.steps if not isinstance(step, Reduced | Scanned)
    )


def _place(read: e.Read) -> Size:
    return e.flat(read.index, read.shape)


def _written_at(step: Stored) -> Size:
    return e.flat(step.index, step.shape)
