"""What Triton wrote down about the kernels it compiled.

Triton keeps a folder per compiled kernel: `<kernel>.json` with launch options and shared memory,
and beside it the code, `<kernel>.cubin` for NVIDIA and `<kernel>.amdgcn` for AMD, which say what
registers it takes. The folders are the candidate's to write in: what is there is a claim, good for
profiles and reports, and no verdict rests on it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from roofsmith.domain.kernel import KernelResources
from roofsmith.toolchains.elf import read_cubin

_MAX_METADATA_BYTES = 1024**2
"""Metadata of one kernel has a few kilobytes."""
_MAX_CODE_BYTES = 64 * 1024**2
"""A cubin with its line tables has some hundred kilobytes."""
_MAX_KERNELS = 1000
"""Autotuners try dozens of configurations."""
_GROUP = "__grp__"
"""Files of Triton's cache that list other files."""
_VARIANT_DIGITS = 8

_AMD_FIELDS = {
    "registers": r"^; NumVgprs: (\d+)$",
    "accumulation_registers": r"^; NumAgprs: (\d+)$",
    "scalar_registers": r"^; TotalNumSgprs: (\d+)$",
    "stack_bytes": r"^; ScratchSize: (\d+)$",
    "spilled_registers": r"^ +\.vgpr_spill_count: +(\d+)$",
    "occupancy_warps": r"^; Occupancy: (\d+)$",
}
"""In the assembly: comments of LLVM's AMDGPUAsmPrinter, and the code object's metadata."""


def triton_resources(cache_dir: Path, arch: str | None = None) -> tuple[KernelResources, ...]:
    """The kernels in a cache that only one candidate wrote to, by name and launch options.

    An autotuned kernel is there once for each configuration that was tried. Kernels of one name,
    with the same launch options but other resources, were specialised for other constants; their
    `variant` tells them apart. What isn't known is None; other files are passed over.

    Args:
        cache_dir: TRITON_CACHE_DIR of the process that ran the candidate.
        arch: of the device, such as sm_90; kernels for others are left out. None: all.
    """
    paths = islice(cache_dir.glob("*/*.json"), _MAX_KERNELS)
    found = [
        kernel
        for path in sorted(paths)
        if not path.name.startswith(_GROUP)
        and (kernel := _read(path)) is not None
        and arch in (None, kernel.arch)
    ]
    return tuple(sorted(_told_apart(found), key=_order))


def cubin_resources(folder: Path, arch: str | None = None) -> tuple[KernelResources, ...]:
    """The kernels in cubins that CuTe DSL was asked to keep; their shared memory isn't known.

    Args:
        folder: with `<function>.<arch>.cubin`.
        arch: as of `triton_resources`, without a letter at its end.
    """
    found = dict[str, KernelResources]()
    for path in sorted(islice(folder.glob("*.cubin"), _MAX_KERNELS)):
        built_for = path.name.rpartition(".cubin")[0].rpartition(".")[2]
        code = _bytes(path, _MAX_CODE_BYTES)
        if code is None or arch not in (None, built_for.rstrip("af")):
            continue
        with contextlib.suppress(ValueError):
            for name, taken in read_cubin(code).items():
                if taken.registers is None:  # a function that kernels call
                    continue
                frame = taken.frame_bytes
                found[name] = KernelResources(
                    name=name, arch=built_for, registers=taken.registers, stack_bytes=frame,
                    spilled_registers=None if frame is None else frame // 4,
                )  # fmt: skip
    return tuple(found.values())


def _order(kernel: KernelResources) -> tuple[str, str, int, int, str]:
    options = (kernel.num_warps or 0, kernel.num_stages or 0)
    return (kernel.name, kernel.arch, *options, kernel.variant or "")


def _told_apart(kernels: Sequence[KernelResources]) -> list[KernelResources]:
    """One of each that are alike in everything but their variant; that only where it is needed."""
    alike = {kernel.model_copy(update={"variant": None}): kernel for kernel in kernels}
    names = Counter(_order(kernel) for kernel in alike)
    return [named if names[_order(plain)] > 1 else plain for plain, named in alike.items()]


def _read(path: Path) -> KernelResources | None:
    content = _bytes(path, _MAX_METADATA_BYTES)
    try:
        metadata = json.loads(content) if content is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return None
    num_warps, shared = _count(metadata, "num_warps"), _count(metadata, "shared")
    if num_warps is None or shared is None:
        return None
    name, arch = metadata["name"], _arch(metadata.get("target"))
    from_code = _of_amdgcn(path) if arch.startswith("gfx") else _of_cubin(path, name)
    return KernelResources(
        name=name,
        arch=arch,
        num_warps=num_warps,
        num_stages=_count(metadata, "num_stages"),
        shared_bytes=shared,
        variant=str(metadata.get("hash", path.parent.name))[:_VARIANT_DIGITS],
        **from_code,
    )


def _of_cubin(metadata: Path, name: str) -> dict[str, int | None]:
    cubin = _bytes(metadata.with_suffix(".cubin"), _MAX_CODE_BYTES)
    try:
        found = read_cubin(cubin).get(name) if cubin is not None else None
    except ValueError:
        return {}
    if found is None:
        return {}
    frame = found.frame_bytes
    return {
        "registers": found.registers,
        "stack_bytes": frame,
        "spilled_registers": None if frame is None else frame // 4,
    }


def _of_amdgcn(metadata: Path) -> dict[str, int | None]:
    content = _bytes(metadata.with_suffix(".amdgcn"), _MAX_CODE_BYTES)
    assembly = "" if content is None else content.decode(errors="replace")
    matches = {
        field: re.findall(pattern, assembly, re.MULTILINE) for field, pattern in _AMD_FIELDS.items()
    }
    return {field: int(found[0]) for field, found in matches.items() if len(found) == 1}


def _bytes(path: Path, at_most: int) -> bytes | None:
    """A file's content; None where there is no such file, or it is too large to be Triton's."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > at_most:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _count(metadata: dict[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _arch(target: object) -> str:
    """`{"backend": "cuda", "arch": 90}` is sm_90; of HIP, the arch has its name already."""
    if not isinstance(target, dict):
        return "unknown"
    arch = target.get("arch")
    return f"sm_{arch}" if target.get("backend") == "cuda" else str(arch).partition(":")[0]
