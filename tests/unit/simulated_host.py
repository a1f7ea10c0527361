"""A host whose GPUs, leases and clock are a test's."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from simulated_fleet import Life, Outage, SimulatedFleet, always, fake_uuid

from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.machine.admission import admission
from roofsmith.machine.lease import FileLease, FileLeases
from roofsmith.machine.waiting import GateParts
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.observer import SilentObserver

MINUTE = 60.0
POLICY = GatePolicy()
OWN_PID = 7
BOB = "roofsmith optimize b.yaml"


_folders = ExitStack()
atexit.register(_folders.close)


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
    folder: Path = field(default_factory=lambda: Path(_folders.enter_context(TemporaryDirectory())))
    """Of the leases."""
    nobody: int = -1
    """A process that the driver lists and that isn't there."""

    def __post_init__(self) -> None:
        self.ours = self.process("roofsmith test")

    def process(self, command: str) -> FileLeases:
        """Leases of another process of this host."""
        return FileLeases(self.clock, command, self.folder, {})

    def leased_by(self, command: str, *indexes: int) -> list[FileLease]:
        """Somebody holds these GPUs."""
        found = [self.process(command).take(fake_uuid(index)) for index in indexes]
        return [lease for lease in found if isinstance(lease, FileLease)]

    def parts(self, leases: FileLeases | None = None) -> GateParts:
        return GateParts(
            fleet=SimulatedFleet(self.lives, self.clock, self.outages),
            leases=leases or self.ours,
            clock=self.clock,
            observer=self.observer,
            policy=self.policy,
            own=lambda pids: {OWN_PID} & set(pids),
            nobody=lambda pids: {self.nobody} & set(pids),
            waits=self.waits,
        )

    def chosen(self, product: str | None = None) -> str:
        with admission(self.parts(), "nvidia", product) as gate:
            assert self.ours.held() == {gate.uuid}
            uuid = gate.uuid
        assert not self.ours.held()
        return uuid

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic()


def host(*lives: Life | GpuStatus, **more: object) -> Host:
    scripts = [always(life) if isinstance(life, GpuStatus) else life for life in lives]
    return Host(scripts, **more)  # type: ignore[arg-type]
