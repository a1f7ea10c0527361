"""What a workload passes to `solve`, array by array.

Beside no other noun: a reference's process starts for every target, and needs little more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from roofsmith.domain.facts import DType

DTYPE_BYTES: Mapping[DType, int] = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array that a workload passes to `solve`."""

    name: str
    role: str
    """input, output, inout: an output that holds numbers before the call; or scratch: what a kernel
    may write, and nobody reads."""
    dtype: DType
    shape: tuple[int, ...]

    @property
    def is_given(self) -> bool:
        """Whether it holds numbers before the call."""
        return self.role in ("input", "inout")

    @property
    def is_result(self) -> bool:
        """Whether what it holds after the call is compared with the reference's."""
        return self.role in ("output", "inout")

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array."""
        return prod(self.shape) * DTYPE_BYTES[self.dtype]
