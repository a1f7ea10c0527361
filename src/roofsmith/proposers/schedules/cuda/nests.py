"""One group as kernels in CUDA, by what kind it is."""

from __future__ import annotations

from roofsmith.proposers.schedules.cuda.maps import write_map
from roofsmith.proposers.schedules.cuda.writer import CudaFile
from roofsmith.proposers.schedules.groups import Group, Sorted
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.strides import merged


def write_group(file: CudaFile, group: Group) -> None:
    """The group's kernels, and their launches.

    Raises:
        NoSchedule: It can't be written.
    """
    if any(isinstance(step, Sorted) for step in group.steps):
        raise NoSchedule("a sort isn't written in CUDA here")
    group = merged(group, file.program.places)
    if not group.inner:
        write_map(file, group)
        return
    raise NoSchedule("not yet")
