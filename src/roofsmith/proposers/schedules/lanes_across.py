"""Short sums for each of many, as distances to a few centres: vectors go along the many.

What is read across them is copied turned first, once for all of the few; scratch that is only
reduced afterwards is laid out so that the many lie side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_attention import buffers_of
from roofsmith.proposers.schedules.groups import (
    Axis,
    Buffer,
    Group,
    Program,
    Reduced,
    Stored,
    rewritten,
)
from roofsmith.proposers.schedules.in_place import of_places
from roofsmith.proposers.schedules.passes import is_sum
from roofsmith.proposers.schedules.products import MOST_COPIED, new_name
from roofsmith.proposers.schedules.strides import coefficient, turnable, vector_axis

LONGEST = 128
"""Terms of a sum up to which it isn't worth a vector of its own. Chosen."""
MANY = 64
"""Lanes from which others are worth a copy. Chosen."""
AGAIN = 4
"""Times that a copy is read, at the least. Chosen."""
GAP = 16
"""Elements between a copy's rows: rows of 4096 would share few places of a cache. Chosen."""


def with_lanes_across(program: Program, dims: Sequence[Mapping[str, int]]) -> Program:
    """The program with operands of short sums turned, where that makes long vectors."""
    for group in program.groups if dims else ():
        for axis in group.outer:
            if found := _across(group, axis, program, dims):
                return with_lanes_across(_turned(group, axis, found, program), dims)
    return program


def _across(
    group: Group, axis: Axis, program: Program, dims: Sequence[Mapping[str, int]]
) -> list[e.Read]:
    """What is read across an outer axis that makes longer vectors than the sum; else nothing."""
    others = {one.name: one.size for one in group.outer if one != axis}
    terms, again = elements(tuple(a.size for a in group.inner)), elements((*others.values(),))
    places = program.places.meaning()
    if (
        not group.inner or not is_sum(group, places=False)
        or max(terms.at(one) for one in dims) > LONGEST
        or any(axis.size.at(one) < MANY or again.at(one) < AGAIN for one in dims)
        or max((terms * axis.size).at(one) for one in dims) > MOST_COPIED
        or vector_axis(group, places) not in group.inner
    ):  # fmt: skip
        return []
    may_turn = {r for inner in group.inner for r in turnable(group, axis, inner, places)}
    found = [
        read for read in dict.fromkeys(group.reads)
        if axis.name in e.names_in(read, places) and _step(read, axis) != ONE
    ]  # fmt: skip
    if any(read not in may_turn or e.names_in(read, {}) & others.keys() for read in found):
        return []
    stores = [one for one in group.steps if isinstance(one, Stored)]
    may = all(_step(one, axis) == ONE or _may_lie_so(one, axis, program) for one in stores)
    return found if may else []


def _step(access: e.Read | Stored, axis: Axis) -> Size:
    return coefficient(e.flat(access.index, access.shape), axis.name)


def _may_lie_so(store: Stored, axis: Axis, program: Program) -> bool:
    """Whether what is stored is scratch that others only reduce, each of the many for itself."""
    name, whole = store.buffer, program.buffers[store.buffer]
    kept = of_places(program).union(*(loop.handed_on for loop in program.loops.values()))
    steps = [step for group in program.groups for step in group.steps]
    if (
        whole.role != "scratch" or store.shape != whole.shape or axis.index not in store.index
        or name in kept or sum(getattr(step, "buffer", "") == name for step in steps) != 1
    ):  # fmt: skip
        return False
    at = store.index.index(axis.index)
    for group in program.groups:
        for read in (one for one in group.reads if one.buffer == name):
            lanes = [one for one in group.outer if (one.index,) == read.index[at : at + 1]]
            if read.shape != whole.shape or not lanes or not all(
                isinstance(one, Reduced)
                or (isinstance(one, Stored) and not one.inner and _step(one, lanes[0]) == ONE)
                for one in group.steps
            ):  # fmt: skip
                return False
    return all(group.steps or name not in buffers_of(group) for group in program.groups)


def _turned(group: Group, axis: Axis, across: Sequence[e.Read], program: Program) -> Program:
    """With copies before a group, and its scratch laid out for vectors along an axis."""
    buffers, copies = dict(program.buffers), list[Group]()
    made: dict[e.Expression, e.Expression] = {}
    for read in across:
        axes = (*(one for one in group.inner if one.name in e.names_in(read, {})), axis)
        index = tuple(one.index for one in axes)
        shape = (*(one.size for one in axes[:-1]), axis.size + GAP)
        name = new_name("turned", program, buffers)
        buffers[name] = Buffer(name, shape, read.dtype, "scratch")
        made[read] = e.Read(read.dtype, name, index, shape)
        copies.append(Group(axes, (), (Stored(name, index, shape, read, False),), loop=group.loop))
    last = {
        one.buffer: one.index.index(axis.index) for one in group.steps
        if isinstance(one, Stored) and _step(one, axis) != ONE
    }  # fmt: skip

    def moved(part: tuple[Size, ...], at: int, gap: int = 0) -> tuple[Size, ...]:
        return (*part[:at], *part[at + 1 :], part[at] + gap)

    for name, at in last.items():
        whole = program.buffers[name]
        buffers[name] = replace(whole, shape=moved(whole.shape, at, GAP))

    def copied(one: e.Expression) -> e.Expression:
        return made.get(one, one)

    def laid_out(one: e.Expression) -> e.Expression:
        if not isinstance(one, e.Read) or one.buffer not in last:
            return one
        return replace(
            one, index=moved(one.index, last[one.buffer]), shape=buffers[one.buffer].shape
        )

    groups = list[Group]()
    for one in program.groups:
        change = copied if one is group else laid_out
        steps = [rewritten(step, change) for step in one.steps]
        for place, step in enumerate(steps):
            if isinstance(step, Stored) and (name := step.buffer) in last:
                index = moved(step.index, last[name])
                steps[place] = replace(step, index=index, shape=buffers[name].shape)
        groups += [*(copies if one is group else ()), replace(one, steps=tuple(steps))]
    return replace(program, buffers=buffers, groups=tuple(groups))
