"""What a row computes at great cost in two passes is kept between them where a result will lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.demand import CALLS
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Step, Stored
from roofsmith.proposers.schedules.passes import passes


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


def _changed(step: Step, change: Callable[[e.Expression], e.Expression]) -> Step:
    if isinstance(step, Reduced) and step.factors is not None:
        return step
    return replace(step, value=e.rewritten(step.value, change))


def _home(group: Group, program: Program) -> Stored | None:
    """A result that is written for every element in the last pass."""
    loops, _ = passes(group)
    found = [step for step in (loops[-1].steps if loops else ()) if isinstance(step, Stored)]
    return next((step for step in found if _is_float(program.buffers[step.buffer])), None)


def _may_overwrite(group: Group, at: int, home: Stored, kept: e.Expression) -> bool:
    """Whether nobody reads what is overwritten from that pass on, of an array that is given."""
    where = e.flat(home.index, home.shape)
    loops, _ = passes(group)

    def gone(part: e.Expression) -> e.Expression:
        return e.Held(kept.dtype, "") if part == kept else part

    def reads(value: e.Expression) -> list[e.Read]:
        parts = [part for part in e.walk(value) if isinstance(part, e.Read)]
        return [part for part in parts if part.buffer == home.buffer]

    now = [read for step in loops[at].steps for read in reads(step.value)]
    later = [
        read
        for one in loops[at + 1 :] for step in one.steps
        for read in reads(e.rewritten(step.value, gone))
    ]  # fmt: skip
    return not later and all(e.flat(read.index, read.shape) == where for read in now)


def _is_float(buffer: Buffer) -> bool:
    return buffer.dtype in ("float32", "float64")
