"""One group as kernels in CUDA, by what kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules.apart import taken_apart
from roofsmith.proposers.schedules.cuda.columns import write_columns
from roofsmith.proposers.schedules.cuda.maps import write_map
from roofsmith.proposers.schedules.cuda.moments import with_moments
from roofsmith.proposers.schedules.cuda.parts import shared_axis, write_parts
from roofsmith.proposers.schedules.cuda.row_launches import write_row_nest, write_rows
from roofsmith.proposers.schedules.cuda.scans import ScanNest
from roofsmith.proposers.schedules.cuda.scatters import write_scatter
from roofsmith.proposers.schedules.cuda.sorts import write_sort
from roofsmith.proposers.schedules.cuda.stencils import stencil_of, write_stencil
from roofsmith.proposers.schedules.cuda.turned import turned_axes, write_turned
from roofsmith.proposers.schedules.cuda.vectors import vectors_of
from roofsmith.proposers.schedules.cuda.writer import CudaSource
from roofsmith.proposers.schedules.groups import Axis, Group, Scanned, Scattered, Sorted
from roofsmith.proposers.schedules.strides import contiguous_axis, merged, neighbours


def write_group(file: CudaSource, group: Group, *, shares: bool = True) -> None:
    """The group's kernels, and their launches; whether blocks may share a sum.

    Raises:
        NoSchedule: It can't be written.
    """
    if any(isinstance(step, Sorted) for step in group.steps):
        write_sort(file, group)
        return
    if any(isinstance(step, Scattered) for step in group.steps):
        write_scatter(file, group)
        return
    group = merged(group, file.program.places)
    if not group.inner:
        turned = turned_axes(file, group)
        if turned is None:
            write_map(file, group)
        else:
            write_turned(file, group, *turned)
        return
    fast = contiguous_axis(group, file.places)
    whole, group = group, with_moments(group)
    passed = None
    if shares:
        of_columns = fast in group.outer
        passed = taken_apart(file, group, of_columns=of_columns, long_from=LONG_FROM)
    if passed is not None:
        for one in passed:
            write_group(file, one)
        return
    stencil = stencil_of(file, group)
    if stencil is not None:
        write_stencil(file, group, stencil)
        return
    inner = [axis for axis in group.inner if axis.size != ONE] or list(group.inner[:1])
    outer = [axis for axis in group.outer if axis.size != ONE]
    total = elements(tuple(axis.size for axis in inner))
    near = _neighbours(file, group, outer, total)
    along = fast if fast is not None and (fast in inner or outer) else (outer or inner)[-1]
    shared = shared_axis(file, group, along) if shares and near is None else None
    if shared is not None:
        write_parts(file, group, along, shared, partial(write_group, shares=False))
    elif near is not None:
        write_columns(file, group, near, None)
    elif fast in inner and isinstance(group.steps[0], Scanned) and fast is not None:
        write_row_nest(ScanNest(file, group, fast, vectors_of(file, group, fast)))
    elif fast in inner or not outer:
        write_rows(file, whole, fast if fast in inner and fast is not None else inner[-1])
    else:
        fast = fast if fast in outer and fast is not None else outer[-1]
        deep = max(inner, key=lambda axis: file.wanted.most(axis.size, 1))
        is_shared = file.wanted.most(total, FEW + 1) > FEW
        if any(isinstance(step, Scanned) for step in group.steps):
            is_shared = False
        write_columns(file, group, fast, deep if is_shared else None)


LONG_FROM = 1 << 14
"""Elements of a row from which it is worth several launches. Chosen."""
FEW = 32
"""Elements up to which a sum is one thread's. Chosen."""
WINDOW = 128
"""The same, where threads read what their neighbours read, too. Chosen."""


def _neighbours(file: CudaSource, group: Group, outer: Sequence[Axis], total: Size) -> Axis | None:
    """The outer axis along which a few elements each are reduced that lie side by side."""
    if any(isinstance(step, Scanned) for step in group.steps):
        return None
    if file.wanted.most(total, WINDOW + 1) > WINDOW:
        return None
    return neighbours(group, outer, file.places, file.wanted.most)
