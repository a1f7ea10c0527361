"""Few long rows or columns in several passes: each pass is a group, which all blocks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.gpu_file import GpuFile
from roofsmith.proposers.schedules.groups import (
    Buffer,
    Group,
    Reduced,
    Step,
    Stored,
    rewritten,
)
from roofsmith.proposers.schedules.passes import passes

LONG_COLUMN, PER_CORE = 4096, 128
"""The same of a column, and columns that keep a multiprocessor busy. Chosen: a block has 32 to 128
of them."""


def taken_apart(
    file: GpuFile, group: Group, *, of_columns: bool, long_from: int
) -> list[Group] | None:
    """The passes of a group as groups, with memory between them in the file; None where there is
    work for all multiprocessors.

    Args:
        of_columns: whether memory is in one piece along an outer axis.
        long_from: elements of a row from which it is worth several launches.
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
    least = LONG_COLUMN if of_columns else long_from
    have = rows.constant if rows.constant is not None else file.wanted.least(rows, few)
    long = span.constant if span.constant is not None else file.wanted.least(span, 1)
    if have >= few or long < least or _is_chosen(file.program.places.meaning()):
        return None
    kept: dict[str, e.Read] = {}
    groups: list[Group] = []

    def known(value: e.Expression) -> e.Expression:
        return kept.get(value.name, value) if isinstance(value, e.Held) else value

    def of(step: Step) -> Step:
        return rewritten(step, known)

    buffers: list[Buffer] = []
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
            buffers.append(buffer)
            held = e.Held(step.dtype, step.name)
            rowwise.append(Stored(buffer.name, index, shape, held, False))
            kept[step.name] = e.Read(step.dtype, buffer.name, index, shape)
        if sums:
            at = len(groups) - (1 if maps else 0)
            groups.insert(at, Group(group.outer, group.inner, (*sums, *rowwise)))
    if after:
        groups.append(Group(group.outer, (), tuple(of(step) for step in after)))
    file.keep(buffers)
    return groups


def _is_chosen(places: Mapping[str, e.Place]) -> bool:
    """Whether an index is made of what a row has reduced."""
    return any(
        isinstance(one, e.Held)
        for place in places.values() if isinstance(place, e.Chosen)
        for one in e.walk(place.value)
    )  # fmt: skip
