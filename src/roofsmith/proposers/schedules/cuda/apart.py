"""Few long rows or columns in several passes: each pass is a group, which all blocks share."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.cuda.writer import CudaSource
from roofsmith.proposers.schedules.groups import Buffer, Group, Reduced, Step, Stored
from roofsmith.proposers.schedules.passes import passes

LONG_FROM = 1 << 14
"""Elements of a row from which it is worth several launches. Chosen."""
LONG_COLUMN, PER_CORE = 4096, 128
"""The same of a column, and columns that keep a multiprocessor busy. Chosen: a block has 32 to 128
of them."""


def taken_apart(file: CudaSource, group: Group, *, of_columns: bool) -> list[Group] | None:
    """The passes of a group as groups; None where there is work for all multiprocessors.

    Args:
        file: around it.
        group: any.
        of_columns: whether memory is in one piece along an outer axis.
    """
    if not group.inner or not all(isinstance(step, Reduced | Stored) for step in group.steps):
        return None
    levels, after = passes(group)
    stores = [step for one in levels for step in one.steps if isinstance(step, Stored)]
    if len(levels) < 2 and not stores:
        return None
    rows = elements(tuple(axis.size for axis in group.outer))
    span = elements(tuple(axis.size for axis in group.inner))
    few = file.wanted.cores * (PER_CORE if of_columns else 1)
    least = LONG_COLUMN if of_columns else LONG_FROM
    have = rows.constant if rows.constant is not None else file.wanted.least(rows, few)
    long = span.constant if span.constant is not None else file.wanted.least(span, 1)
    if have >= few or long < least or _is_chosen(file):
        return None
    kept: dict[str, e.Read] = {}
    groups: list[Group] = []

    def known(value: e.Expression) -> e.Expression:
        return kept.get(value.name, value) if isinstance(value, e.Held) else value

    def of(step: Step) -> Step:
        return replace(step, value=e.rewritten(step.value, known))

    buffers = dict(file.program.buffers)
    index = tuple(axis.index for axis in group.outer)
    shape = tuple(axis.size for axis in group.outer)
    for one in levels:
        steps = [of(step) for step in one.steps]
        sums: list[Step] = [step for step in steps if isinstance(step, Reduced)]
        maps = [replace(step, inner=False) for step in steps if isinstance(step, Stored)]
        if maps:
            groups.append(Group((*group.outer, *group.inner), (), tuple(maps)))
        rowwise: list[Step] = []
        for step in sums:
            assert isinstance(step, Reduced)
            buffer = Buffer(file.fresh(f"{step.name}_of_rows"), shape, step.dtype, "scratch")
            file.taken.add(buffer.name)
            buffers[buffer.name] = buffer
            file.host.append(file.memory(buffer))
            held = e.Held(step.dtype, step.name)
            rowwise.append(Stored(buffer.name, index, shape, held, False))
            kept[step.name] = e.Read(step.dtype, buffer.name, index, shape)
        if sums:
            at = len(groups) - (1 if maps else 0)
            groups.insert(at, Group(group.outer, group.inner, (*sums, *rowwise)))
    if after:
        groups.append(Group(group.outer, (), tuple(of(step) for step in after)))
    file.program = replace(file.program, buffers=buffers)
    return groups


def _is_chosen(file: CudaSource) -> bool:
    """Whether an index is made of what a row has reduced."""
    return any(
        isinstance(one, e.Held)
        for place in file.places.values() if isinstance(place, e.Chosen)
        for one in e.walk(place.value)
    )  # fmt: skip
