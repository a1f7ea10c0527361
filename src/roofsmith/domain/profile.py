"""Counters with units, and the bottleneck that they point to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.kernel import KernelResources
from roofsmith.domain.values import Value

BottleneckKind = Literal["memory", "compute", "latency", "occupancy", "launch", "tail", "unknown"]
"""latency: neither ceiling is near, so waiting and overhead are (dependency chains, calls,
branches, synchronization). On a GPU also occupancy (too few warps, for want of registers or shared
memory), launch (the work is over before the next kernel is launched) and tail (blocks that fill
the last wave badly)."""


CounterCategory = Literal[
    "speed of light",
    "memory",
    "compute",
    "occupancy",
    "launch",
    "scheduler",
    "stalls",
    "divergence",
]
"""What a GPU's counter is about; reports group by it, in this order."""


KERNEL_TIME = "kernel_time_s"
"""The counter that holds a profiler's own time of all kernels of one call."""
KERNELS_PER_CALL = "kernels_per_call"
"""The counter that says how many those are."""


class Counter(Value):
    """One named counter. What a tool doesn't give is absent, never 0."""

    name: str
    """Such as cycles, instructions, ipc, llc_miss_rate, branch_miss_rate, vector_fraction."""
    value: float
    unit: str
    source: str | None = None
    """The tool's own name for it, where that is another."""
    category: CounterCategory | None = None
    """None for a CPU's counters."""


class Hotspot(Value):
    """One instruction of a kernel at which much of the waiting happens."""

    source: str | None
    """`file:line`, where the kernel was built with line information."""
    instruction: str
    stall_share: float = Field(ge=0, le=1)
    """Of all stalled cycles of the kernel."""
    hits: int = Field(ge=0)
    """How often it was executed while it was traced."""
    idle_share: float = Field(default=0.0, ge=0, le=1)
    """Of all cycles between the kernel's instructions, those right before it: a bubble."""


_LIMITERS = {
    "block_limit_registers": "registers",
    "block_limit_scalar_registers": "scalar registers",
    "block_limit_shared": "shared memory",
    "block_limit_warps": "block size",
    "block_limit_blocks": "blocks at a time",
    "block_limit_barriers": "barriers",
}


class ProfiledKernel(Value):
    """One kernel of a whole run, all of its launches together."""

    name: str
    launches: int = Field(ge=0)
    """0: of a processor's function, which perf sampled."""
    time_s: float = Field(ge=0)
    """Of all launches."""
    busy_s: float = Field(ge=0)
    """In which at least one of them ran; the same where none overlap."""
    share: float = Field(ge=0, le=1)
    """Of the time of all kernels and copies of the run."""
    counters: tuple[Counter, ...] = ()
    """Of its longest launch."""
    hotspots: tuple[Hotspot, ...] = ()
    is_copy: bool = False
    """A copy or a fill of memory, by the driver."""
    operator: str | None = None
    """Of PyTorch, where it launched the kernel."""
    source: str | None = None
    """The file that it was compiled from, where the trace says so."""
    least_bytes: float | None = None
    """That all launches together have to move, by their operators' shapes."""

    @property
    def mean_s(self) -> float:
        """Of a launch."""
        return self.time_s / max(self.launches, 1)

    def get(self, name: str) -> float | None:
        """The counter's value; None where it isn't known."""
        return next((c.value for c in self.counters if c.name == name), None)

    @property
    def limiters(self) -> tuple[str, ...]:
        """What lets no more blocks onto a multiprocessor; nothing where that isn't known."""
        limits = {word: self.get(name) for name, word in _LIMITERS.items()}
        known = {word: limit for word, limit in limits.items() if limit is not None}
        return tuple(word for word, limit in known.items() if limit == min(known.values()))


class Profile(Value):
    """What a profiler saw of one kernel on one workload."""

    tool: Literal["perf", "valgrind", "ncu", "rocprofv3", "torch", "nsys", "command", "none"]
    workload: str
    kernel: str | None = None
    """On a GPU: the kernel that the counters are of, the one that takes most of the time."""
    counters: tuple[Counter, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    """The worst first, where the tool sees single instructions."""
    resources: tuple[KernelResources, ...] = ()
    """What the compiler gave every GPU kernel of the candidate, whatever the tool; of an autotuned
    one, each configuration that was tried."""
    notes: tuple[str, ...] = ()
    """What was used, what could not be, and why; a reduced workload says so."""
    kernels: tuple[ProfiledKernel, ...] = ()
    """Of a repository's benchmark: every kernel of its run, the hottest first."""

    def get(self, name: str) -> float | None:
        """The counter's value; None if the tool didn't give it."""
        return next((c.value for c in self.counters if c.name == name), None)


class Bottleneck(Value):
    """What limits a kernel, with the lines of evidence that led there."""

    kind: BottleneckKind
    confidence: float = Field(ge=0, le=1)
    evidence: tuple[str, ...]
    roofline_fraction: float | None
    """Floor time over measured time; None if the bound is UNKNOWN."""
