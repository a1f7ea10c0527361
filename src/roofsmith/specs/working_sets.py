"""Which working-set sizes the bandwidth ceilings are measured at."""

from __future__ import annotations

from roofsmith.analysis.residency import capacity_bytes, data_caches
from roofsmith.domain.device import Device

MIB = 1 << 20
FALLBACK_BYTES = (16 << 10, 256 << 10, 8 * MIB, 256 * MIB)
"""Where no cache sizes are known: sizes that sit inside common L1, L2 and L3, and in memory."""

SMALLEST_BYTES = 8 << 10
"""Three arrays of this, on one thread, still run for dozens of vectors each."""

MEMORY_SHARE = 8
"""At most this fraction of memory is taken, whatever the caches."""


def working_sets(device: Device, threads: int) -> tuple[int, ...]:
    """Working sets of all `threads` processors together, in bytes, ascending.

    Inside each cache (half of it) and just outside (twice it), since between a level's own speed
    and the next one's the bandwidth changes most; for the last level its full size, and eight times
    it, where little is left in the cache from the pass before.
    """
    caches = [capacity_bytes(cache, threads) for cache in data_caches(device)]
    if not caches:
        return FALLBACK_BYTES
    sizes = {size // 2 for size in caches} | {2 * size for size in caches[:-1]}
    sizes |= {caches[-1], 8 * caches[-1]}
    limit = device.memory_bytes // MEMORY_SHARE if device.memory_bytes else 8 * caches[-1]
    return tuple(sorted(size for size in sizes if SMALLEST_BYTES * threads <= size <= limit))
