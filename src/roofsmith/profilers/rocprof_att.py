"""Where waves stall, instruction by instruction: rocprofv3's decoded thread trace. Pure.

Built against AMD's documentation and the writer's source only, since no recording was at hand:
rocm.docs.amd.com, ROCprofiler-SDK, "Using thread trace", "Stats CSV"; source/lib/att-tool/code.cpp.
Each `stats_*.csv` has one row per instruction, with cycles summed over the traced waves, and one
row of zeros with `; name` where a kernel begins.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roofsmith.domain.profile import Counter, Hotspot
from roofsmith.profilers.launches import kernel_name
from roofsmith.profilers.vocabulary import vocabulary

HOTSPOTS = 10
BUBBLES = 3
LEAST_IDLE = 0.05
"""Of a kernel's idle cycles, right before one instruction. Chosen."""

_GROUPS: tuple[tuple[str, str], ...] = (
    (r"s_waitcnt\b(?=.*vmcnt)(?=.*lgkmcnt)", "waitcnt"),
    (r"s_waitcnt(_vmcnt|\b.*vmcnt|_vscnt)|s_wait_(loadcnt|storecnt)", "vmcnt"),
    (r"s_waitcnt(_lgkmcnt|\b.*lgkmcnt)|s_wait_(dscnt|kmcnt)", "lgkmcnt"),
    (r"s_barrier", "barrier"),
    (r"v_(mfma|smfmac|wmma|swmmac)", "mfma"),
    (r"(global|buffer|flat|scratch|tbuffer|image)_", "vmem"),
    (r"ds_", "lds"),
    (r"s_(buffer_)?load", "smem"),
    (r"v_", "valu"),
    (r"s_", "salu"),
)
"""First that fits. A wait is booked at the instruction that waits: `s_waitcnt vmcnt(0)` for what
memory takes, `lgkmcnt` for LDS, scalar loads and messages; names of gfx10 and gfx12 besides."""
_COMPILED = tuple((re.compile(pattern), group) for pattern, group in _GROUPS)


@dataclass(frozen=True, slots=True)
class TracedInstruction:
    """One instruction, summed over the traced waves."""

    text: str
    source: str | None
    hits: int
    latency: int
    """Stalled cycles and those of issuing."""
    stall: int
    """Cycles in which it could not be issued."""
    idle: int
    """Cycles between the end of the one before and this one's begin."""


@dataclass(frozen=True, slots=True)
class TracedKernel:
    name: str | None
    """None where the decoder didn't know it."""
    instructions: tuple[TracedInstruction, ...]

    @property
    def stall(self) -> int:
        return sum(instruction.stall for instruction in self.instructions)


def parse_att_stats(text: str) -> tuple[TracedKernel, ...]:
    """Every kernel of one `stats_*.csv`."""
    kernels: list[tuple[str | None, list[TracedInstruction]]] = []
    for row in _rows(text):
        fields = [field.strip() for field in row]
        numbers = [_count(field) for field in fields[3:7]]
        if len(fields) < 7 or any(number is None for number in numbers):
            continue
        instruction, source = fields[2], fields[7] if len(fields) > 7 else ""
        if instruction.startswith(";"):
            kernels.append((kernel_name(source or instruction.lstrip("; ")), []))
            continue
        if not kernels:
            kernels.append((None, []))
        hits, latency, stall, idle = (number or 0 for number in numbers)
        kernels[-1][1].append(
            TracedInstruction(instruction, source or None, hits, latency, stall, idle)
        )
    return tuple(TracedKernel(name, tuple(body)) for name, body in kernels if body)


def group(instruction: str) -> str:
    """The instruction group that a stall belongs to: vmcnt, lgkmcnt, barrier, mfma, valu, ..."""
    return next((name for pattern, name in _COMPILED if pattern.match(instruction)), "other")


def find(kernels: Sequence[TracedKernel], name: str) -> TracedKernel | None:
    """The kernel of that name, else the only one there is."""
    named = [kernel for kernel in kernels if kernel.name == name]
    if named:
        return max(named, key=lambda kernel: kernel.stall)
    return kernels[0] if len(kernels) == 1 else None


def counters(kernel: TracedKernel) -> tuple[Counter, ...]:
    """Shares of the stalled cycles by instruction group, and of stalling and idling in all."""
    total = kernel.stall
    cycles = sum(i.latency + i.idle for i in kernel.instructions)
    if not cycles:
        return ()
    found: dict[str, float | None] = {
        "trace_stall_share": total / cycles,
        "trace_idle_share": sum(i.idle for i in kernel.instructions) / cycles,
    }
    if idle := sum(i.idle for i in kernel.instructions):
        for name in ("mfma", "valu"):
            before = sum(i.idle for i in kernel.instructions if group(i.text) == name)
            found[f"idle_{name}_share"] = before / idle
    if total:
        stalls = {name: 0 for _, name in _GROUPS} | {"other": 0}
        for instruction in kernel.instructions:
            stalls[group(instruction.text)] += instruction.stall
        found |= {f"stall_{name}_share": stall / total for name, stall in stalls.items()}
    return vocabulary().computed(found)


def hotspots(kernel: TracedKernel) -> tuple[Hotspot, ...]:
    """The instructions at which waves stall longest, and those of the arithmetic before which they
    idle longest, with their source lines."""
    idle = sum(i.idle for i in kernel.instructions)
    stalled = [i for i in kernel.instructions if i.stall]
    worst = sorted(stalled, key=lambda i: -i.stall)[:HOTSPOTS]
    rest = [i for i in kernel.instructions if i not in worst and i.idle >= LEAST_IDLE * idle > 0]
    bubbles = [i for i in rest if group(i.text) in ("mfma", "valu")]
    return tuple(
        Hotspot(
            source=instruction.source,
            instruction=instruction.text,
            stall_share=instruction.stall / max(kernel.stall, 1),
            hits=instruction.hits,
            idle_share=instruction.idle / max(idle, 1),
        )
        for instruction in (*worst, *sorted(bubbles, key=lambda i: -i.idle)[:BUBBLES])
    )


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(text.splitlines())
    except csv.Error:  # cut off, or no CSV at all
        return


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
