"""Port `Merger` over sources: by what the kernels are written in."""

from __future__ import annotations

from collections.abc import Mapping

from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Signature
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.toolchains.merging.modules import merge_modules
from roofsmith.toolchains.merging.unit import merge_units

LONGEST_BYTES = 1_000_000
"""A merged file that is longer holds dispatches of dispatches of dispatches."""


def merge_sources(
    old: Candidate,
    new: Candidate,
    dispatch: Dispatch,
    sights: Mapping[str, DimensionSource],
    signature: Signature,
) -> Candidate | Unmergeable:
    """Merge C, C++, CUDA and HIP into one file, and modules of Triton and PyTorch side by side."""
    if old.language in MODULE_LANGUAGES:
        merged = merge_modules(old, new, dispatch, sights)
    else:
        merged = merge_units(old, new, dispatch, sights, signature)
    if isinstance(merged, Candidate) and len(merged.kernel.text) > LONGEST_BYTES:
        return Unmergeable(f"the two together are longer than {LONGEST_BYTES:,} characters")
    return merged
