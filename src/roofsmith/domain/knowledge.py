"""What the library says is worth a try, and for which kernels it says so."""

from __future__ import annotations

from typing import Final, Literal

from roofsmith.domain.device import Device
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Told, Value


class KnownDirection(Value):
    """One change that a page of the library describes; material, never an instruction."""

    page: str
    """Its id, such as `ops/softmax`: `roofsmith knowledge show ID` prints it."""
    answers: tuple[BottleneckKind, ...]
    """The bottlenecks that it relieves."""
    side: Literal["host", "gpu"] | None = None
    """Where it can be done; None: on both."""
    title: Told
    change: Told
    """What to do."""
    moves: Told
    """Which counter moves, which way, and by how much."""
    hurts: Told
    """When it does harm, or nothing."""
    measured: Told = ""
    """What our own benchmarks saw of it, with their file."""
    source: Told
    """Keys of the page's sources."""


class PageFinding(Value):
    """What is wrong with a page of the library."""

    code: Literal[
        "unreadable", "too_large", "front_matter", "direction", "unknown_source", "broken_link",
    ]  # fmt: skip
    path: str
    line: int | None = None
    """1-based; None: the whole file is meant."""
    detail: Told

    def __str__(self) -> str:
        """`file:line: code: detail`."""
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.code}: {self.detail}"


_BY_ISA: Final = {
    "avx512f": "x86-64-avx512", "avx2": "x86-64-avx2", "sse2": "x86-64",
    "sve": "aarch64-sve", "asimd": "aarch64",
}  # fmt: skip
"""A processor's widest vectors, the first of them that it has."""


def library_arch(device: Device) -> str:
    """What the library calls a device's architecture: sm_90, gfx942, x86-64-avx512."""
    if device.kind != "cpu":
        return device.arch or device.kind
    return next((arch for flag, arch in _BY_ISA.items() if flag in device.isa), "cpu")
