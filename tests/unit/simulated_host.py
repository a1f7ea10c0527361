"""A host whose GPUs, leases and clock are a test's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.engine.admission import admission
from roofsmith.engine.waiting import GateParts
from roofsmith.ports import LeaseSource
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.fleet import (
    Life,
    Outage,
    SimulatedFleet,
    always,
)
from roofsmith.testing.leases import MemoryHost, MemoryLeases
from roofsmith.testing.observer import SilentObserver

MINUTE = 60.0
POLICY = GatePolicy()
OWN_PID = 7
BOB = "pid 9 (bob): roofsmith optimize b.yaml, since 10:31 UTC"


@dataclass
class Watcher(SilentObserver):
    """Keeps what is shown of a wait."""

    stages: list[tuple[str, str]] = field(default_factory=list)
    countdown: list[tuple[float, str]] = field(default_factory=list)

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))

    def progress(self, fraction: float, detail: str = "") -> None:
        self.countdown.append((fraction, detail))


@dataclass
class Host:
    """GPUs, leases and a clock; several processes may share them."""

    lives: Sequence[Life]
    outages: Sequence[Outage] = ()
    policy: GatePolicy = POLICY
    waits: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    observer: Watcher = field(default_factory=Watcher)
    leased: MemoryHost = field(default_factory=MemoryHost)
    nobody: int = -1
    """A process that the driver lists and that isn't there."""

    def parts(self, leases: LeaseSource | None = None) -> GateParts:
        return GateParts(
            fleet=SimulatedFleet(self.lives, self.clock, self.outages),
            leases=leases or MemoryLeases(self.leased),
            clock=self.clock,
            observer=self.observer,
            policy=self.policy,
            own=lambda pids: {OWN_PID} & set(pids),
            nobody=lambda pids: {self.nobody} & set(pids),
            waits=self.waits,
        )

    def chosen(self, product: str | None = None) -> str:
        with admission(self.parts(), "nvidia", product) as gate:
            assert self.leased.holders[gate.uuid] == MemoryLeases().process
            uuid = gate.uuid
        assert uuid not in self.leased.holders
        return uuid

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic()


def host(*lives: Life | GpuStatus, **more: object) -> Host:
    scripts = [always(life) if isinstance(life, GpuStatus) else life for life in lives]
    return Host(scripts, **more)  # type: ignore[arg-type]
