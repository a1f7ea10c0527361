"""The ceiling kernels of a GPU: how they are built, called and read.

A GPU is measured as a whole: `threads` is 1. A figure of 0 says that the device can't do it, such
as fp8 products before compute capability 8.9; it becomes no measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.ports import Arguments, KernelSession
from roofsmith.specs.benches import Sample, source_of

GpuLanguage = Literal["cuda", "hip"]

WHOLE_DEVICE = 1
"""A GPU's kernels always have all of it."""

PATTERNS = ("read", "copy", "triad")
STYLES = ("persistent blocks", "a block per tile")
"""In the order of the enumerations in bandwidth.cu."""
FMA_TYPES = ("float32", "float64", "float16", "bfloat16", "int32")
"""In the order of `enum Type` in fma.cu."""
MMA_TYPES: Final[Mapping[GpuLanguage, tuple[str, ...]]] = {
    "cuda": ("float16", "bfloat16", "tfloat32", "int8", "float8", "float64"),
    "hip": ("float16", "bfloat16", "tfloat32", "int8", "float8", "float64", "float32"),
}
"""In the order of `enum Type` in mma.cu and mma.hip; tensor cores have no products of float32."""

BANDWIDTH_US = 2000
"""Least time of one measurement; a pass over an L2 takes ten microseconds."""
BURST_US = 1000
"""Of arithmetic: short, so that the clocks are those of a kernel and not of a furnace, but long
enough that launching and filling tiles, some microseconds, don't count."""
BURSTS = 5
LAUNCHES = 500

MIB = 1 << 20
FALLBACK_BYTES = (16 * MIB, 1024 * MIB)
"""Where the size of the last cache isn't known."""
MEMORY_SHARE = 8
"""At most this fraction of memory is taken."""


def gpu_working_sets(device: Device) -> tuple[int, ...]:
    """Working sets in bytes, ascending: well inside the last cache, and well outside of it.

    A quarter and a half of it, eight times it, and 32 times it, where what is left in the cache
    from the pass before no longer counts.
    """
    cache = device.last_level_cache_bytes
    if cache is None:
        return FALLBACK_BYTES
    sizes = {cache // 4, cache // 2, 8 * cache, 32 * cache}
    limit = device.memory_bytes // MEMORY_SHARE if device.memory_bytes else 32 * cache
    return tuple(sorted(size for size in sizes if size <= limit))


def gpu_language(device: Device) -> GpuLanguage:
    """What the kernels of a GPU are written in."""
    return "hip" if device.kind == "amd" else "cuda"


def _candidate(language: GpuLanguage, kernel: str) -> Candidate:
    """What to build: a source in CUDA, which HIP reads as well, or one in HIP alone."""
    source = source_of(kernel)
    if language == "hip":
        source = SourceFile(path=kernel.replace(".cu", ".hip"), text=source.text)
    return Candidate(
        language=language,
        sources=(source, source_of("gpu.h")),
        build=BuildSpec(flags=("-O3",), link=()),
    )


@dataclass(frozen=True, slots=True)
class GpuBandwidthBench:
    """Every access pattern at several working sets."""

    language: GpuLanguage
    sizes: tuple[int, ...]
    """All arrays of a working set together; bytes, ascending."""
    threads: int = WHOLE_DEVICE

    @property
    def candidate(self) -> Candidate:
        return _candidate(self.language, "bandwidth.cu")

    def arguments(self) -> Arguments:
        return {
            "rates": np.zeros(len(self.sizes) * len(PATTERNS) * len(STYLES), dtype=np.float64),
            "set_kib": np.array([size // 1024 for size in self.sizes], dtype=np.int32),
            "sets": len(self.sizes),
            "microseconds": BANDWIDTH_US,
        }

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: per size and pattern, the better style."""
        session.call(1)
        shape = (len(self.sizes), len(PATTERNS), len(STYLES))
        rates = session.outputs()["rates"].reshape(shape)
        samples: list[Sample] = []
        for size, row in zip(self.sizes, rates, strict=True):
            for pattern, styles in zip(PATTERNS, row, strict=True):
                rate, style = max(zip(map(float, styles), STYLES, strict=True))
                samples.append((("bandwidth", pattern, self.threads, size), rate, style))
        return samples


@dataclass(frozen=True, slots=True)
class GpuArithmeticBench:
    """Peak arithmetic of several types, by multiply-adds or by matrix products."""

    language: GpuLanguage
    kind: Literal["fma", "mma"]
    threads: int = WHOLE_DEVICE

    @property
    def types(self) -> Sequence[str]:
        """What the kernel measures, in its order."""
        return FMA_TYPES if self.kind == "fma" else MMA_TYPES[self.language]

    @property
    def candidate(self) -> Candidate:
        if self.kind == "mma" and self.language == "hip":
            return _candidate(self.language, "mma.hip")
        return _candidate(self.language, f"{self.kind}.cu")

    def arguments(self) -> Arguments:
        rates = np.zeros(len(self.types), dtype=np.float64)
        return {"rates": rates, "bursts": BURSTS, "microseconds": BURST_US}

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: its best burst of every type that the device has."""
        session.call(1)
        rates = session.outputs()["rates"]
        how = "register-resident chains" if self.kind == "fma" else "operands on chip"
        return [
            ((self.kind, dtype, self.threads, 0), float(rate), how)
            for dtype, rate in zip(self.types, rates, strict=True)
            if rate > 0
        ]


@dataclass(frozen=True, slots=True)
class SharedMemoryBench:
    """What all multiprocessors together read from shared memory (AMD: LDS)."""

    language: GpuLanguage
    threads: int = WHOLE_DEVICE

    @property
    def candidate(self) -> Candidate:
        return _candidate(self.language, "shared.cu")

    def arguments(self) -> Arguments:
        rates = np.zeros(1, dtype=np.float64)
        return {"rates": rates, "bursts": BURSTS, "microseconds": BURST_US}

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: its best burst."""
        session.call(1)
        (rate,) = (float(rate) for rate in session.outputs()["rates"])
        return [(("shared", "read", self.threads, 0), rate, "16 bytes per thread and load")]


@dataclass(frozen=True, slots=True)
class LaunchBench:
    """How many empty kernels run per second."""

    language: GpuLanguage
    threads: int = WHOLE_DEVICE

    @property
    def candidate(self) -> Candidate:
        return _candidate(self.language, "launch.cu")

    def arguments(self) -> Arguments:
        rates = np.zeros(2, dtype=np.float64)
        return {"rates": rates, "bursts": BURSTS, "launches": LAUNCHES}

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: queued launches, and launches that are waited for."""
        session.call(1)
        queued, waited = (float(rate) for rate in session.outputs()["rates"])
        return [
            (("launch", "queued", self.threads, 0), queued, "back to back"),
            (("launch", "waited", self.threads, 0), waited, "an event waited for after each"),
        ]


GpuBench = GpuBandwidthBench | SharedMemoryBench | GpuArithmeticBench | LaunchBench


def gpu_benches(device: Device, _threads: int) -> list[GpuBench]:
    language = gpu_language(device)
    return [
        LaunchBench(language),
        SharedMemoryBench(language),
        GpuArithmeticBench(language, "fma"),
        GpuBandwidthBench(language, gpu_working_sets(device)),
        GpuArithmeticBench(language, "mma"),
    ]
