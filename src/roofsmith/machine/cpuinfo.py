"""Readers of the kernel's descriptions of processors; pure functions of their text."""

from __future__ import annotations

import re
from collections.abc import Iterable

X86_ISA = frozenset(
    {
        *("sse2", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni"),
        *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"),
        *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    }
)
"""Flags of /proc/cpuinfo on x86 that change what a compiler can do for a kernel."""

ARM_ISA = frozenset(
    {
        *("asimd", "asimdhp", "asimddp", "asimdfhm", "fphp", "bf16", "i8mm"),
        *("sve", "sve2", "svebf16", "svei8mm", "sme"),
    }
)
"""The same for 64-bit Arm (`Features` line)."""

_ARM_IMPLEMENTERS = {
    "0x41": "Arm",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x51": "Qualcomm",
    "0x61": "Apple",
    "0xc0": "Ampere",
}
"""`CPU implementer` codes of the Linux kernel's arch/arm64/include/asm/cputype.h."""


def first_processor(cpuinfo: str) -> dict[str, str]:
    """Keys (lower case) and values of the first processor in /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            if fields:
                break
            continue
        fields.setdefault(key.strip().lower(), value.strip())
    return fields


def processor_name(fields: dict[str, str], machine: str) -> str:
    """The model as the kernel prints it; on Arm, which has no such line, maker and part number."""
    for key in ("model name", "cpu model", "processor model", "hardware", "cpu"):
        if fields.get(key):
            return re.sub(r"\s+", " ", fields[key])
    implementer = fields.get("cpu implementer")
    if implementer:
        maker = _ARM_IMPLEMENTERS.get(implementer.lower(), f"implementer {implementer}")
        return f"{maker} {machine} part {fields.get('cpu part', 'unknown')}"
    return machine or "unknown processor"


def isa_flags(fields: dict[str, str]) -> tuple[str, ...]:
    """Extensions that matter for kernels, sorted."""
    flags = set(fields.get("flags", "").split()) & X86_ISA
    features = set(fields.get("features", "").split()) & ARM_ISA
    return tuple(sorted(flags | features))


def vector_bytes(isa: Iterable[str], sve_bytes: int | None = None) -> int:
    """Width of the widest vector register: 64 AVX-512, 32 AVX, SVE as configured, else 16."""
    present = set(isa)
    if "avx512f" in present:
        return 64
    if "avx" in present:
        return 32
    if "sve" in present and sve_bytes:
        return max(sve_bytes, 16)
    return 16


def cpu_list(text: str) -> frozenset[int]:
    """The processors in a list such as `0-3,8,10-11`.

    Raises:
        ValueError: not such a list.
    """
    processors: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        processors.update(range(int(low), int(high or low) + 1))
    return frozenset(processors)


def size_bytes(text: str) -> int:
    """Bytes of a sysfs size such as `32K` or `32768K`.

    Raises:
        ValueError: not such a size.
    """
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def quota_processors(cpu_max: str) -> float | None:
    """Processors' worth of time that a cgroup v2 `cpu.max` allows; None: no limit.

    Raises:
        ValueError: not such a line.
    """
    quota, period = [*cpu_max.split(), "100000"][:2]
    if quota == "max":
        return None
    return int(quota) / int(period)
