"""Large products of matrices, which a call computes from packed blocks, apart from their loops.

A group that sums up products becomes up to three: factors that aren't walked with one stride in
each direction are copied side by side (windows of a convolution), one call multiplies, and what the
group did with the sums is a map over them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import (
    Axis,
    Buffer,
    Group,
    Multiplied,
    Program,
    Reduced,
    Stored,
)
from roofsmith.proposers.schedules.strides import coefficient, merged, substituted

LEAST_WORK = 32**3
"""Multiply-adds of one product from which packing is worth its time. Chosen."""
LEAST_SIZE = 4
"""Of rows, columns and depth: less is a few dot products. Chosen."""
LEAST_SECOND = 8
"""Of the second smallest: 4 x 4 times a million vectors took 20 ms packed, and 2 ms in loops."""
MOST_COPIED = 2**26
"""Elements of a factor's copy: 256 MiB of float32. Chosen."""
PACKED = frozenset(("float32", "float64"))


def with_products(
    program: Program, dims: Sequence[Mapping[str, int]], dtype: str | None = None
) -> Program:
    """The program with its large products of one type in groups of their own.

    Args:
        dims: of the workloads; without any nothing is known to be large.
        dtype: the type; None: the first one's.
    """
    buffers = dict(program.buffers)
    groups: list[Group] = []
    for group in program.groups:
        found = _product(group, program, dims) if dims else None
        if found is None or dtype not in (None, found.step.dtype):
            groups.append(group)
            continue
        dtype = found.step.dtype
        groups += [replace(one, loop=group.loop) for one in found.written(buffers, dims)]
    return replace(program, buffers=buffers, groups=tuple(groups))


@dataclass(frozen=True)
class _Product:
    """A sum of products of matrices, as a group of loops has it."""

    group: Group
    step: Reduced
    program: Program
    factors: tuple[e.Expression, e.Expression]
    rows: tuple[Axis, ...]
    """Outer axes of the left factor alone."""
    columns: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    """Outer axes of both."""

    def written(self, buffers: dict[str, Buffer], dims: Sequence[Mapping[str, int]]) -> list[Group]:
        """The groups in its place; buffers that they need are added."""
        groups: list[Group] = []
        sides: list[e.Read] = []
        for factor, own in zip(self.factors, (self.rows, self.columns), strict=True):
            read, copied = self._side(factor, own, buffers)
            sides.append(read)
            groups += copied
        outer = (*self.batch, *self.rows, *self.columns)
        target, rest = self._target(sides, buffers, outer)
        reads = [*sides, e.Read(self.step.dtype, *target)]
        reads, (depth,) = _as_one(reads, self.group.inner)
        reads, rows = _as_one(reads, self.rows)
        reads, columns = _as_one(reads, self.columns)
        long, wide = (
            max(axes, key=lambda axis: max(axis.size.at(one) for one in dims))
            for axes in (rows, columns)
        )
        around = (*self.batch, *(axis for axis in (*rows, *columns) if axis not in (long, wide)))
        left, right, made = reads
        step = Multiplied(
            left, right, made.buffer, made.index, made.shape, long, wide, depth, self.step.dtype
        )
        return [*groups, Group(around, (), (), step), *rest]

    def _side(
        self, factor: e.Expression, own: tuple[Axis, ...], buffers: dict[str, Buffer]
    ) -> tuple[e.Read, list[Group]]:
        """A factor as it lies in memory, or a copy of it."""
        axes = (*self.batch, *own, *self.group.inner)
        if isinstance(factor, e.Read) and is_strided(factor, axes, self.group.inner, self.program):
            return factor, []
        reads = [*e.reads(factor)]
        if any(coefficient(e.flat(one.index, one.shape), own[-1].name) == ONE for one in reads):
            axes = (*self.batch, *self.group.inner, *own)  # both sides of the copy in one piece
        used = tuple(axis for axis in axes if axis.name in _names(factor, self.program))
        shape = tuple(axis.size for axis in used)
        name = new_name("factor", self.program, buffers)
        buffers[name] = Buffer(name, shape, self.step.dtype, "scratch")
        index = tuple(axis.index for axis in used)
        copy = Group(used, (), (Stored(name, index, shape, factor, False),))
        return e.Read(self.step.dtype, name, index, shape), [copy]

    def _target(
        self, sides: Sequence[e.Read], buffers: dict[str, Buffer], outer: tuple[Axis, ...]
    ) -> tuple[tuple[str, e.Index, tuple[Size, ...]], list[Group]]:
        """Where the sums go, and what is done with them afterwards."""
        stores = [step for step in self.group.steps if isinstance(step, Stored)]
        read = {side.buffer for side in sides}
        for one in stores[:1]:
            alone = len(stores) == 1 and one.value == e.Held(self.step.dtype, self.step.name)
            place = e.Read(self.step.dtype, one.buffer, one.index, one.shape)
            same = buffers[one.buffer].dtype == self.step.dtype
            if (
                alone
                and same
                and one.buffer not in read
                and is_strided(place, outer, (), self.program)
            ):
                return (one.buffer, one.index, one.shape), []
        shape = tuple(axis.size for axis in outer)
        index = tuple(axis.index for axis in outer)
        name = new_name("sums", self.program, buffers)
        buffers[name] = Buffer(name, shape, self.step.dtype, "scratch")
        made = e.Read(self.step.dtype, name, index, shape)

        def put(value: e.Expression) -> e.Expression:
            return made if isinstance(value, e.Held) and value.name == self.step.name else value

        steps = tuple(replace(one, value=e.rewritten(one.value, put)) for one in stores)
        return (name, index, shape), [Group(self.group.outer, (), steps)]


def _product(group: Group, program: Program, dims: Sequence[Mapping[str, int]]) -> _Product | None:
    """The product that a group consists of, if it is large."""
    if not group.steps:
        return None
    step = group.steps[0]
    if not isinstance(step, Reduced) or step.factors is None or step.dtype not in PACKED:
        return None
    if step.op != "sum" or any(not isinstance(one, Stored) or one.inner for one in group.steps[1:]):
        return None
    group = merged(group, program.places)
    step = group.steps[0]
    if not isinstance(step, Reduced) or step.factors is None or not group.inner:
        return None
    left, right = (_names(one, program) for one in step.factors)
    if any(isinstance(one, e.Held) for side in step.factors for one in e.walk(side)):
        return None
    rows = tuple(axis for axis in group.outer if axis.name in left - right)
    columns = tuple(axis for axis in group.outer if axis.name in right - left)
    batch = tuple(axis for axis in group.outer if axis not in rows and axis not in columns)
    if not rows or not columns or any(axis.name not in left & right for axis in group.inner):
        return None
    found = _Product(group, step, program, step.factors, rows, columns, batch)
    return found if _is_large(found, dims) else None


def is_worth_packing(*sizes: int) -> bool:
    """Whether rows, columns and depth are, however many multiply-adds they come to."""
    least, second, _ = sorted(sizes)
    return least >= LEAST_SIZE and second >= LEAST_SECOND


def _is_large(product: _Product, dims: Sequence[Mapping[str, int]]) -> bool:
    """Whether it is on some workload, and its factors can be copied on all."""
    sides = (product.rows, product.columns, product.group.inner)
    best = 0
    for one in dims:
        m, n, k = (elements(tuple(axis.size for axis in axes)).at(one) for axes in sides)
        many = elements(tuple(axis.size for axis in product.batch)).at(one)
        if many * max(m, n) * k > MOST_COPIED and not all(
            isinstance(factor, e.Read)
            and is_strided(factor, (*product.batch, *own, *product.group.inner),
                            product.group.inner, product.program)
            for factor, own in zip(product.factors, sides, strict=False)
        ):  # fmt: skip
            return False
        if is_worth_packing(m, n, k):
            best = max(best, math.prod((m, n, k)))
    return best >= LEAST_WORK


def _names(value: e.Expression, program: Program) -> frozenset[str]:
    return e.names_in(value, program.places.meaning())


def is_strided(read: e.Read, axes: Sequence[Axis], depth: Sequence[Axis], program: Program) -> bool:
    """Whether it grows by the same with each axis, wherever it is; `depth` as one axis."""
    index = e.flat(read.index, read.shape)
    names = {axis.name for axis in axes}
    steps = [coefficient(index, axis.name) for axis in axes]
    if any(name in step.dims for step in steps for name in names):
        return False
    rest = index - sum(
        (step * axis.index for step, axis in zip(steps, axes, strict=True)), start=ZERO
    )
    moves = rest.dims & names or index.dims & program.places.meaning().keys()
    along = [coefficient(index, axis.name) for axis in depth]
    sides = zip(along, along[1:], depth[1:], strict=False)
    return not moves and all(one == other * axis.size for one, other, axis in sides)


def _as_one(
    reads: Sequence[e.Read], axes: tuple[Axis, ...]
) -> tuple[list[e.Read], tuple[Axis, ...]]:
    """Neighbouring axes made one where every operand walks them as one."""
    reads, left = list(reads), list(axes)
    for at in reversed(range(len(axes) - 1)):
        first, second = left[at : at + 2]
        one = Axis(first.name + second.name, first.size * second.size)
        steps = [
            tuple(
                coefficient(e.flat(read.index, read.shape), axis.name) for axis in (first, second)
            )
            for read in reads
        ]
        if any(large != small * second.size for large, small in steps):
            continue
        left[at : at + 2] = [one]
        moved = {first.name: ZERO, second.name: one.index}
        reads = [
            replace(
                read,
                index=(substituted(e.flat(read.index, read.shape), moved),),
                shape=(elements(read.shape),),
            )
            for read in reads
        ]
    return reads, tuple(left)


def new_name(stem: str, program: Program, buffers: Mapping[str, Buffer]) -> str:
    """A name that nothing has."""
    axes = [axis for group in program.groups for axis in (*group.outer, *group.inner)]
    taken = {*buffers, *program.numbers, *(axis.name for axis in axes)}
    taken |= {name for axis in axes for name in axis.size.dims}
    return next(
        name
        for count in itertools.count(1)
        if (name := stem if count == 1 else f"{stem}{count}") not in taken
    )
