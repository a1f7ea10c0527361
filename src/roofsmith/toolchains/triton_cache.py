"""What Triton wrote down about the kernels it compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roofsmith.domain.kernel import KernelResources

_MAX_BYTES = 1024**2
"""Metadata of one kernel has a few kilobytes; the folder is the candidate's to write in."""
_GROUP = "__grp__"
"""Files of Triton's cache that list other files."""


def triton_resources(cache_dir: Path) -> tuple[KernelResources, ...]:
    """The kernels in a cache that only one candidate wrote to, by name.

    Triton keeps `<kernel>.json` beside each compiled kernel. Registers and spills are not in it:
    they are known once the driver has loaded the kernel, and reported by the process that did.
    A file that isn't such metadata is passed over.

    Args:
        cache_dir: TRITON_CACHE_DIR of the process that ran the candidate.
    """
    found = [
        resources
        for path in sorted(cache_dir.glob("*/*.json"))
        if not path.name.startswith(_GROUP) and (resources := _read(path)) is not None
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda kernel: (kernel.name, kernel.arch)))


def _read(path: Path) -> KernelResources | None:
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_BYTES:
            return None
        metadata = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return None
    num_warps, shared = _count(metadata, "num_warps"), _count(metadata, "shared")
    if num_warps is None or shared is None:
        return None
    return KernelResources(
        name=metadata["name"],
        arch=_arch(metadata.get("target")),
        num_warps=num_warps,
        shared_bytes=shared,
        registers=_count(metadata, "n_regs"),
        spilled_registers=_count(metadata, "n_spills"),
    )


def _count(metadata: dict[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _arch(target: object) -> str:
    """`{"backend": "cuda", "arch": 90}` is sm_90; of HIP, the arch has its name already."""
    if not isinstance(target, dict):
        return "unknown"
    arch = target.get("arch")
    return f"sm_{arch}" if target.get("backend") == "cuda" else str(arch)
