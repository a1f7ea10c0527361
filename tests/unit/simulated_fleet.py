"""A fleet of GPUs whose lives are written beforehand.

A life says what a GPU is at each second of a fake clock; the fleet reads them like a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from roofsmith.domain.fleet import MIB, GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.ports import Clock
from roofsmith.testing.clock import FakeClock

GIB = 1024 * MIB
TOTAL_BYTES = 80 * GIB

Life = Callable[[float], GpuStatus | None]
"""What a GPU is at a time, in seconds; None while it isn't there."""


def fake_uuid(index: int) -> str:
    """`GPU-00000000-0000-0000-0000-00000000000N`."""
    return f"GPU-00000000-0000-0000-0000-{index:012x}"


def idle_gpu(index: int = 0, *, used_bytes: int = 0, temperature_c: float = 38.0) -> GpuStatus:
    """A GPU of 80 GiB on which nothing runs."""
    return GpuStatus(
        uuid=fake_uuid(index),
        index=index,
        name="NVIDIA H100 80GB HBM3",
        kind="nvidia",
        utilisation=0.0,
        memory_used_bytes=used_bytes,
        memory_total_bytes=TOTAL_BYTES,
        temperature_c=temperature_c,
        compute_mode="Default",
        at_s=0.0,
    )


def busy_gpu(
    index: int = 0, *, pid: int = 4242, user: str = "alice", name: str = "python3 train.py"
) -> GpuStatus:
    """The same GPU, three quarters of it taken by somebody's process."""
    held = 60 * GIB
    process = GpuProcess(pid=pid, name=name, user=user, memory_bytes=held)
    return idle_gpu(index, used_bytes=held, temperature_c=64.0).model_copy(
        update={"utilisation": 0.97, "processes": (process,)}
    )


def hidden_gpu(index: int = 0) -> GpuStatus:
    """Taken by a process that the driver doesn't list, as from within a container."""
    return busy_gpu(index).model_copy(update={"utilisation": 0.0, "processes": ()})


def mute_gpu(index: int = 0) -> GpuStatus:
    """A GPU whose driver tells nothing but its name."""
    return GpuStatus(
        uuid=fake_uuid(index),
        index=index,
        name="NVIDIA H100 80GB HBM3",
        kind="nvidia",
        unread=("processes", "throttle_reasons"),
        at_s=0.0,
    )


def mig_instance(parent: int = 0, place: int = 0) -> GpuStatus:
    """An idle slice of an eighth: no driver tells a slice's utilisation."""
    return idle_gpu(parent).model_copy(
        update={
            "uuid": f"MIG-00000000-0000-0000-{parent:04x}-{place:012x}",
            "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "parent_uuid": fake_uuid(parent),
            "utilisation": None,
            "memory_used_bytes": 12 * MIB,
            "memory_total_bytes": TOTAL_BYTES // 8,
        }
    )


def always(status: GpuStatus | None) -> Life:
    """Never changes."""
    return lambda _: status


def phases(*changes: tuple[float, GpuStatus | None]) -> Life:
    """Takes each status at its time, in seconds and in order; the first one also before."""

    def life(at_s: float) -> GpuStatus | None:
        begun = [status for since_s, status in changes if since_s <= at_s]
        return begun[-1] if begun else changes[0][1]

    return life


def flapping(first: GpuStatus | None, second: GpuStatus | None, period_s: float) -> Life:
    """Turns from the one to the other and back every `period_s`."""
    return lambda at_s: (first, second)[int(at_s / period_s) % 2]


@dataclass(frozen=True, slots=True)
class Outage:
    """No driver answers between two times; each question takes `hangs_s` to fail."""

    since_s: float
    until_s: float
    hangs_s: float = 0.0


@dataclass(slots=True)
class SimulatedFleet:
    """A `Fleet` over lives and a fake clock."""

    lives: Sequence[Life]
    clock: Clock = field(default_factory=FakeClock)
    outages: Sequence[Outage] = ()

    def __call__(self) -> tuple[GpuStatus, ...]:
        """Everyone that is there now."""
        now_s = self.clock.monotonic()
        for outage in self.outages:
            if outage.since_s <= now_s < outage.until_s:
                if isinstance(self.clock, FakeClock):
                    self.clock.advance(outage.hangs_s)
                raise MachineError("no GPU driver answers here", hint="is this a test?")
        there = [status for life in self.lives if (status := life(now_s)) is not None]
        return tuple(
            status.model_copy(update={"at_s": now_s})
            for status in sorted(there, key=lambda status: status.index)
        )


NOBODY_PID = 4_194_401
"""No process has it: Linux counts to 2^22 at most."""
