"""How many compilers this machine has room for."""

from __future__ import annotations

from pathlib import Path

import psutil

from roofsmith.machine import probes
from roofsmith.machine.cpu import usable_processors

COMPILER_BYTES = 2 * 1024**3
"""Memory that a compiler may well take: nvcc's cicc takes a tenth of it for a plain kernel, and
more than all of it for some of CUTLASS's templates."""


def build_slots(root: Path = Path("/")) -> int:
    """Compilers that can run at the same time: one per processor, as far as memory goes."""
    processors = usable_processors(len(probes.allowed_processors()), probes.quota(root))
    memory_bytes = psutil.virtual_memory().available
    limit_bytes = probes.memory_limit(root)
    if limit_bytes is not None:
        memory_bytes = min(memory_bytes, limit_bytes)
    return max(1, min(processors, memory_bytes // COMPILER_BYTES))
