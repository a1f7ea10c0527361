"""The packed matrix product of `templates/gemm_packed.c.j2`, in sizes that fit a device."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from roofsmith.domain.device import Device
from roofsmith.proposers.recipes._code import rendered

_FIRST_LEVEL_BYTES = 32 * 1024
_SECOND_LEVEL_BYTES = 512 * 1024
"""Where the device doesn't say how large its caches are: the smallest of today's servers."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Tile and block sizes, in elements, and the values that a sweep may try for each."""

    vector_bytes: int
    mr: int
    nv: int
    kc: int
    mc: int
    nc: int = 4096

    @property
    def choices(self) -> dict[str, list[int]]:
        """Tunable name to candidate values; the chosen one is among them."""
        tiles = {16: (4, 6, 8), 32: (4, 6, 8), 64: (8, 12, 14)}[self.vector_bytes]
        return {
            "mr": sorted({*tiles, self.mr}),
            "nv": sorted({1, 2, 3, self.nv}),
            "kc": sorted({128, 192, 256, 384, 512, self.kc}),
            "mc": sorted({48, 72, 96, 144, 192, 288, self.mc}),
            "nc": sorted({1024, 2048, 4096, self.nc}),
        }


def blocking_for(device: Device, real: str) -> Blocking:
    """Sizes from the device's registers and caches, by the analytical model.

    Low et al., "Analytical Modeling Is Enough for High-Performance BLIS", ACM TOMS 43(2), 2016:
    the register tile hides the latency of the multiply-add and leaves room for one row of B and a
    broadcast; KC x NR of B fill half of the first-level cache; MC x KC of A about a third of the
    second.
    """
    vector_bytes = max(16, min(64, device.vector_bytes))
    size_bytes = 8 if real == "double" else 4
    mr, nv = {16: (8, 2), 32: (6, 2), 64: (14, 2)}[vector_bytes]
    if "neon" in device.isa or "asimd" in device.isa:
        nv = 3
    first = _cache_bytes(device, 1, _FIRST_LEVEL_BYTES)
    second = _cache_bytes(device, 2, _SECOND_LEVEL_BYTES)
    kc = _multiple_below(first // (2 * nv * vector_bytes), 64, least=128, most=512)
    mc = _multiple_below(second // (3 * kc * size_bytes), mr, least=mr, most=48 * mr)
    return Blocking(vector_bytes=vector_bytes, mr=mr, nv=nv, kc=kc, mc=mc)


def _cache_bytes(device: Device, level: int, otherwise: int) -> int:
    sizes = [c.size_bytes for c in device.caches if c.level == level and c.kind != "instruction"]
    return min(sizes) if sizes else otherwise


def _multiple_below(size: int, step: int, least: int, most: int) -> int:
    return min(most, max(least, size // step * step))


def product_code(real: str, blocking: Blocking, *, batched: bool = False) -> str:
    """The C code of `gemm()` for one element type; for batches with `gemm_spread()`."""
    choices = {f"{name}_choices": values for name, values in blocking.choices.items()}
    sizes = asdict(blocking)
    return rendered("gemm_packed", real=real, batched=batched, **sizes, **choices)
