"""What a file for a GPU is written for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofsmith.computation.sizes import Size


@dataclass(frozen=True)
class Wanted:
    """Sizes and device: they decide what is fast, never what is right."""

    dims: tuple[Mapping[str, int], ...] = ()
    """Of the workloads."""
    cores: int = 132
    """Streaming multiprocessors."""
    arch: str | None = None
    """Of the device, such as sm_90; None: unknown."""
    tf32: bool = False
    """Whether float32 products may be done in TF32."""
    shared_bytes: int = 99 * 1024
    """Of a block; by default the least of today's."""
    boxes: bool = False
    """Whether its copy engine brings boxes of arrays to shared memory: NVIDIA's from sm_90 on."""

    def most(self, size: Size, unknown: int) -> int:
        return max((_at(size, dims, unknown) for dims in self.dims), default=unknown)

    def least(self, size: Size, unknown: int) -> int:
        return min((_at(size, dims, unknown) for dims in self.dims), default=unknown)


def _at(size: Size, dims: Mapping[str, int], unknown: int) -> int:
    try:
        return size.at(dims)
    except KeyError:
        return unknown
