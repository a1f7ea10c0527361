"""Where the arrays of a slot lie in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.facts import DType
from roofsmith.judge.host.arena import Layout

ALIGNMENT_BYTES = 512
"""Of every array: what torch's allocator gives, so that no kernel meets less than it may expect."""
GUARD_BYTES = 4096
"""Before and behind every array."""


def lay_out(arrays: Sequence[ArraySpec]) -> Layout:
    """Place arrays one behind the other, each aligned and between guard bands."""
    offsets, cursor = [], 0
    for array in arrays:
        offsets.append(cursor + GUARD_BYTES)
        end = cursor + GUARD_BYTES + array.size_bytes + GUARD_BYTES
        cursor = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return Layout(tuple(arrays), tuple(offsets), cursor)


BFLOAT16 = np.dtype("uint16", metadata={"kernel_dtype": "bfloat16"})
"""How bfloat16, which NumPy lacks, lies in the host's memory: its bits, and a word on what they
are."""


def host_spec(array: ArraySpec) -> ArraySpec:
    """The same array as NumPy can hold it."""
    dtype: DType = "uint16" if array.dtype == "bfloat16" else array.dtype
    return ArraySpec(array.name, array.role, dtype, array.shape)


def kernel_dtype(dtype: np.dtype[np.generic]) -> DType:
    """What a kernel calls the elements of a host's array."""
    told = dtype.metadata["kernel_dtype"] if dtype.metadata else dtype.name
    return cast(DType, told)
