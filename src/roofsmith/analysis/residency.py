"""Which level of the memory hierarchy holds a working set."""

from __future__ import annotations

import math

from roofsmith.domain.device import Cache, Device

MEMORY = "memory"


def data_caches(device: Device) -> tuple[Cache, ...]:
    """The caches that hold data, from the innermost out."""
    data = [cache for cache in device.caches if cache.kind != "instruction"]
    return tuple(sorted(data, key=lambda cache: cache.level))


def capacity_bytes(cache: Cache, threads: int) -> int:
    """What `threads` processors, packed as densely as they go, have of one level together."""
    return cache.size_bytes * math.ceil(threads / max(cache.shared_by, 1))


def residency(device: Device, working_set_bytes: float, threads: int) -> str:
    """`L1`, `L2`, ... or `memory`: the innermost level with room for the whole working set."""
    for cache in data_caches(device):
        if working_set_bytes <= capacity_bytes(cache, threads):
            return f"L{cache.level}"
    return MEMORY
