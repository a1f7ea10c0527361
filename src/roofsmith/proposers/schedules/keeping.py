"""What a row computes at great cost in two passes is kept between them where a result will lie."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Step, Stored
from roofsmith.proposers.schedules.passes import passes
from roofsmith.proposers.schedules.strides import CALLS


def with_kept(group: Group, program: Program) -> Group:
    """The group with its costliest common value stored in the first pass that computes it."""
    loops, _ = passes(group)
    home = _home(group, program)
    if home is None or len(loops) < 2:
        return group
    inner = {axis.name for axis in group.inner}
    places = program.places.meaning()
    seen: dict[e.Expression, list[int]] = {}
    for at, one in enumerate(loops):
        for value in {part for step in one.steps for part in e.walk(step.value)}:
            seen.setdefault(value, []).append(at)
    common = [
        value
        for value, found in seen.items()
        if len(found) > 1 and value.dtype == program.buffers[home.buffer].dtype
        and isinstance(value, e.Operation) and value.op in CALLS
        and inner & e.names_in(value, places)
    ]  # fmt: skip
    if not common:
        return group
    kept = max(common, key=lambda value: sum(1 for _ in e.walk(value)))
    first = loops[seen[kept][0]].steps
    again = e.Read(kept.dtype, home.buffer, home.index, home.shape)

    def change(value: e.Expression) -> e.Expression:
        return again if value == kept else value

    if not _may_overwrite(group, seen[kept][0], home, kept):
        return group
    steps: list[Step] = []
    for step in group.steps:
        if step is next(one for one in first):
            steps.append(replace(home, value=kept))
        steps.append(step if step in first else _changed(step, change))
    return replace(group, steps=tuple(steps))


def _changed(step: Step, change: object) -> Step:
    assert callable(change)
    if isinstance(step, Reduced) and step.factors is not None:
        return step
    return replace(step, value=e.rewritten(step.value, change))


def _home(group: Group, program: Program) -> Stored | None:
    """A result that is written for every element in the last pass."""
    loops, _ = passes(group)
    found = [step for step in (loops[-1].steps if loops else ()) if isinstance(step, Stored)]
    return next((step for step in found if _is_float(program.buffers[step.buffer])), None)


def _may_overwrite(group: Group, at: int, home: Stored, kept: e.Expression) -> bool:
    """Whether nobody reads what is overwritten from that pass on, in an array that is given, too."""
    where = e.flat(home.index, home.shape)
    gone = e.Held(kept.dtype, "")
    loops, _ = passes(group)
    for place, one in enumerate(loops[at:]):
        for step in one.steps:
            value = e.rewritten(step.value, lambda part: gone if place and part == kept else part)
            for part in e.walk(value):
                if isinstance(part, e.Read) and part.buffer == home.buffer:
                    if place or e.flat(part.index, part.shape) != where:
                        return False
    return True


def _is_float(buffer: Buffer) -> bool:
    return buffer.dtype in ("float32", "float64")
