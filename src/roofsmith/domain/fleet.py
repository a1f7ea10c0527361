"""The GPUs of this machine at one instant, and what it takes to call one of them idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from roofsmith.domain.health import ThrottleReason
from roofsmith.domain.values import Value

MIB = 1 << 20


class GpuProcess(Value):
    """A process that has a GPU open."""

    pid: int
    """As this machine or container numbers it; from another container it may be unknown here."""
    name: str | None = None
    """Path or name of its program."""
    user: str | None = None
    memory_bytes: int | None = None
    """Of the GPU's memory; None where the driver doesn't tell."""
    drawing: bool = False
    """It only draws (type G of nvidia-smi): display servers and the windows on them."""


class GpuStatus(Value):
    """One GPU, or one MIG instance, that kernels can be pinned to; None is what nobody tells."""

    uuid: str
    """As the driver prints it. An AMD GPU's is what ROCR_VISIBLE_DEVICES takes; one that has none
    is named by its place, `PCI-0000:c1:00.0`."""
    index: int
    """NVML's number of the GPU (of a MIG instance: of its parent); HIP's of an AMD GPU."""
    name: str
    kind: Literal["nvidia", "amd"]
    parent_uuid: str | None = None
    """The GPU that a MIG instance is a slice of; None for a whole GPU."""
    utilisation: float | None = None
    """Share of the driver's last sampling period (1/6 s to 1 s) in which any kernel ran."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    """Of the core; where a card has several sensors, of the hottest."""
    throttle_reasons: tuple[str, ...] = ()
    """Why clocks are held down, sorted; each a `domain.health.ThrottleReason`."""
    processes: tuple[GpuProcess, ...] = ()
    """By pid. Of other containers, drivers list none, or only bare numbers."""
    compute_mode: str | None = None
    """NVIDIA: Default, Exclusive_Process, Exclusive_Thread or Prohibited."""
    unread: tuple[Literal["processes", "throttle_reasons"], ...] = ()
    """The lists above that the driver didn't give: their emptiness means nothing."""
    at_s: float
    """Monotonic clock of the process that read it."""


Fleet = Callable[[], tuple[GpuStatus, ...]]
"""Reads every GPU now, by index; a GPU in MIG mode is its instances.

A GPU that doesn't answer is left out; a field that can't be read is None or in `unread`. Answers in
bounded time, whatever the driver does, and raises MachineError where none answers. The first answer
may show the driver's own awakening as utilisation.
"""


class GatePolicy(Value):
    """When a GPU counts as idle, and how long to wait for one; docs/gate.md has the reasons."""

    window_s: float = Field(3.0, ge=0)
    """A GPU is watched this long. NVIDIA's utilisation covers the last 1/6 s to 1 s (NVML,
    nvmlUtilization_t), so `samples` readings a second apart leave no gap."""
    samples: int = Field(4, ge=1)
    """Readings in the window; a GPU must be idle in each."""
    max_utilisation: float = Field(0.05, ge=0, le=1)
    """An idle GPU reads 0; a desktop that is drawn on it, a few hundredths."""
    max_memory_share: float = Field(0.005, ge=0, le=1)
    """Of memory that no listed process accounts for. Drivers keep up to 0.15% for themselves
    (MI300X: 283 MiB of 192 GiB); a process with a CUDA context holds 0.6% of an H100 or more."""
    max_memory_growth_bytes: int = Field(64 * MIB, ge=0)
    """Of the same memory, within the window: somebody is just starting."""
    max_drawing_bytes: int = Field(1024 * MIB, ge=0)
    """Held together by processes that only draw. A desktop takes a few hundred MiB; more is a
    game, a video or a renderer, and they compute."""
    max_temperature_c: float | None = Field(80.0)
    """Of a GPU that does nothing. GeForce cards lower their clocks from 83 °C, an H100 from 87 °C
    (its T.Limit); above this bound a measurement would begin next to it. None: not looked at."""
    blocking_throttle_reasons: tuple[ThrottleReason, ...] = (
        "hw_power_brake",
        "hw_slowdown",
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
    )
    """Heat and power supply, which last. sw_power_cap follows from load of one's own, and some
    cards report it at rest; sync_boost and display_clocks are settings. Empty: not looked at."""
    must_list_processes: bool = True
    """False: where a driver lists no processes at all, as under WSL or on some virtual GPUs,
    memory without an owner and utilisation decide, as they do about other containers'."""
    wait_s: float = Field(600.0, gt=0)
    """From one look to the next, while no GPU is idle."""
    give_up_s: float = Field(3600.0, ge=0)
    """After the first look."""
    tries: int = Field(3, ge=1)
    """Of a measurement that was disturbed: a neighbour who comes and goes all the time makes none
    of the next ones better."""
