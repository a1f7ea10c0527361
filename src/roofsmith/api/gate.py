"""The GPU that a command gets: leased, pinned, and with a gate in front of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from roofsmith.config import Settings
from roofsmith.errors import MachineError, NoIdleGpuError
from roofsmith.machine.admission import admission
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.fleet_visible import pinned_environment
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.lease import FileLeases
from roofsmith.machine.lock_files import usual_folder
from roofsmith.machine.nvml import NvmlHealth
from roofsmith.machine.plugged import Vendor
from roofsmith.machine.processes import OwnProcesses, nobody
from roofsmith.machine.waiting import GateParts
from roofsmith.ports import Clock, DeviceSource, Observer


def made_by(devices: DeviceSource) -> Vendor:
    """Whose GPUs a source finds."""
    return "amd" if isinstance(devices, AmdSource) else "nvidia"


@contextmanager
def leased_gpu(
    parts: GateParts,
    kind: Vendor,
    devices: DeviceSource,
    product: str | None = None,
) -> Iterator[GpuGate]:
    """The idlest GPU: this process and its children see no other as long as the block lasts.

    The first turn on it has begun; others take theirs once the gate lets it go.

    Args:
        parts: what the gate is made of.
        kind: whose GPU.
        devices: knows better than a fleet's driver why there is no GPU at all.
        product: the only one that will do.

    Raises:
        NoIdleGpuError: there is none, or it went away within the block.
        MachineError: there is no such GPU, or none that answers.
    """
    with ExitStack() as stack:
        try:
            gate = stack.enter_context(admission(parts, kind, product))
        except NoIdleGpuError:
            raise
        except MachineError:
            devices.device()
            raise
        with exported(pinned_environment(parts.gpu(gate.uuid))), gate.blamed():
            yield gate


def gate_parts(settings: Settings, kind: Vendor, clock: Clock, observer: Observer) -> GateParts:
    """What gates of this host are made of."""
    parts = GateParts(
        fleet=HostFleet(kind).gpus,
        leases=FileLeases(clock, _command(), settings.lease_dir or usual_folder()),
        clock=clock,
        observer=observer,
        policy=settings.gate,
        own=OwnProcesses(settings.asked_by).among,
        nobody=nobody,
        waits=settings.waits,
    )
    if kind != "nvidia":
        return parts
    health = NvmlHealth()
    return replace(parts, sensors=health.sample, worked=health.worked)


@contextmanager
def exported(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process, and so of all that it starts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _command() -> str:
    program, *arguments = sys.argv or ["python"]
    return shlex.join([Path(program).name or "python", *arguments])
