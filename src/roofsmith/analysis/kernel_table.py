"""A run's kernels in a table, on pages, on screens and for models alike, and where they come from.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from roofsmith.analysis import figures as fmt
from roofsmith.domain.profile import Hotspot, ProfiledKernel

HEADERS = ("share of time", "launches", "mean", "registers", "shared", "scratch", "occupancy")


def cells(kernel: ProfiledKernel) -> tuple[str, ...]:
    """A row, without the kernel's name; what isn't known is a dash."""
    return (
        fmt.percent(kernel.share),
        str(kernel.launches or "-"),
        fmt.time(kernel.mean_s) if kernel.launches else "-",
        _registers(kernel),
        _bytes(kernel, "shared_bytes_per_block"),
        _bytes(kernel, "scratch_bytes_per_thread"),
        _occupancy(kernel),
    )


def named(kernel: ProfiledKernel) -> dict[str, str]:
    """A row by its headers, the kernel's name first."""
    return {"kernel": kernel.name, **dict(zip(HEADERS, cells(kernel), strict=True))}


def hottest(kernels: Sequence[ProfiledKernel]) -> str:
    """The kernel that takes most of a run's time, with its row; empty without any."""
    first = next((one for one in kernels if not one.is_copy), None)
    if first is None:
        return ""
    values = zip(HEADERS, cells(first), strict=True)
    return ", ".join((first.name, *(f"{name} {value}" for name, value in values)))


TABLED = (
    "registers_per_thread", "accumulation_registers", "scalar_registers",
    "shared_bytes_per_block", "scratch_bytes_per_thread", "theoretical_occupancy",
    "block_limit_registers", "block_limit_scalar_registers", "block_limit_shared",
    "block_limit_warps", "block_limit_blocks", "block_limit_barriers",
)  # fmt: skip
"""The counters that a row is made of."""


def editable_part(kernels: Sequence[ProfiledKernel], texts: Iterable[str]) -> float | None:
    """The share of GPU time of kernels that some sources define; None where nothing ran."""
    known = [*texts]
    if not kernels:
        return None
    own = [one for one in kernels if any(definition(one.name).search(text) for text in known)]
    return min(1.0, sum(one.share for one in own))


def definition(kernel: str) -> re.Pattern[str]:
    """Finds a kernel in CUDA, HIP or Triton, by the name that a profiler prints."""
    mangled = re.match(r"_Z(?:N.*?)?(\d+)", kernel)
    plain = kernel.partition("<")[0].rpartition("::")[2]
    if mangled is not None:
        plain = kernel[mangled.end() :][: int(mangled[1])]
    name = re.escape(plain)
    return re.compile(
        rf"__global__[^;{{}}]{{0,400}}?\b{name}\s*\(|^[ \t]*def[ \t]+{name}[ \t]*\(", re.MULTILINE
    )


def _registers(kernel: ProfiledKernel) -> str:
    """`128`; on AMD `128 + 160 accumulation, 112 scalar`."""
    own = kernel.get("registers_per_thread")
    more = (
        ("accumulation_registers", " + {:g} accumulation"),
        ("scalar_registers", ", {:g} scalar"),
    )
    if own is None:
        return "-"
    said = (text.format(value) for name, text in more if (value := kernel.get(name)) is not None)
    return f"{own:g}{''.join(said)}"


def _bytes(kernel: ProfiledKernel, counter: str) -> str:
    value = kernel.get(counter)
    return "-" if value is None else f"{value:,.0f} B"


def _occupancy(kernel: ProfiledKernel) -> str:
    """`38%, by registers`; on AMD by which of both kinds."""
    value = kernel.get("theoretical_occupancy")
    if value is None:
        return "-"
    by = " and ".join(_limiter(kernel, word) for word in kernel.limiters) if value < 1 else ""
    return f"{fmt.percent(value)}{f', by {by}' if by else ''}"


def _limiter(kernel: ProfiledKernel, word: str) -> str:
    """Arch and accumulation registers lie in one file (CDNA 2 and later): the kind that takes more
    of it is the one to save."""
    more, own = kernel.get("accumulation_registers"), kernel.get("registers_per_thread")
    if word != "registers" or not more or own is None:
        return word
    return f"{'accumulation' if more > own else 'arch'} registers"


def waits(spot: Hotspot) -> str:
    """`waits 60%`, with the idling right before it where there is much."""
    idle = f", idle {fmt.percent(spot.idle_share)} before it" if spot.idle_share >= 0.05 else ""
    return f"waits {fmt.percent(spot.stall_share)}{idle}"
