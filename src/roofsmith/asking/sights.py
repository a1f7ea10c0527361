"""Where a kernel sees the dimensions of its workloads when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Signature
from roofsmith.domain.workload import Workload
from roofsmith.ports import DimensionSource


def seen_dimensions(
    workloads: Sequence[Workload],
    signature: Signature,
    descriptions: Mapping[str, WorkloadDescription],
) -> dict[str, DimensionSource]:
    """Where a kernel sees each dimension: in a number, else in the shape of an array.

    A signature without parameters is a module's, which is called by name and sees shapes, too.
    """
    found = {}
    for dim in workloads[0].dims:
        for sight in _possible(dim, signature, descriptions[workloads[0].label]):
            if all(_shows(sight, w.dims.get(dim), descriptions[w.label]) for w in workloads):
                found[dim] = sight
                break
    return found


def _possible(
    dim: str, signature: Signature, described: WorkloadDescription
) -> list[DimensionSource]:
    if signature.parameters:
        return [
            DimensionSource(p.name)
            for p in signature.parameters
            if p.name == dim and p.role == "size"
        ]
    shapes = (
        DimensionSource(array.name, axis)
        for array in described.arrays
        for axis in range(len(array.shape))
    )
    return [*(DimensionSource(name) for name in described.scalars if name == dim), *shapes]


def _shows(sight: DimensionSource, size: int | None, described: WorkloadDescription) -> bool:
    if sight.axis is None:
        return described.scalars.get(sight.argument) == size
    shape = next((a.shape for a in described.arrays if a.name == sight.argument), ())
    return sight.axis < len(shape) and shape[sight.axis] == size
