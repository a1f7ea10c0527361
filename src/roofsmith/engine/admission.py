"""Which GPU a command gets: all are watched, and the idlest one is leased; or one waits for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from roofsmith.analysis.idle import busy_reasons, idlest, lasting_reasons
from roofsmith.domain.fleet import GpuStatus
from roofsmith.engine.gate import GpuGate
from roofsmith.engine.waiting import SETTLING_LOOKS, GateParts, Patience, name_of, never_idle
from roofsmith.errors import MachineError
from roofsmith.ports import Holder, Lease

Windows = Mapping[str, Sequence[GpuStatus]]
"""Readings by UUID, oldest first."""


@dataclass(slots=True)
class _Look:
    """What one look at the fleet came to."""

    lease: Lease | None = None
    obstacles: dict[str, str] = field(default_factory=dict)
    """Why there is none, by GPU."""
    leased: list[str] = field(default_factory=list)
    """UUIDs of GPUs that others have leased."""
    lasting: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of GPUs that no waiting makes idle: why, by GPU."""


@contextmanager
def admission(
    parts: GateParts, kind: Literal["nvidia", "amd"], product: str | None = None
) -> Iterator[GpuGate]:
    """The gate of the idlest GPU, which is this process's as long as the block lasts.

    A process that holds one already gets the same.

    Args:
        parts: what the gate is made of.
        kind: whose GPUs.
        product: the name of the only ones that will do, as their driver prints it.

    Raises:
        NoIdleGpuError: there is none, and there was none for as long as one waits, or waiting
            changes nothing.
        MachineError: no driver answers, or it knows no such GPU.
    """
    lease = _held_already(parts) or _waited_for(parts, kind, product)
    try:
        yield GpuGate(parts, lease.uuid)
    finally:
        lease.release()


def _held_already(parts: GateParts) -> Lease | None:
    for uuid in sorted(parts.leases.held()):
        if any(status.uuid == uuid for status in parts.fleet.gpus()):
            lease = parts.leases.take(uuid)
            return None if isinstance(lease, Holder) else lease
    return None


def _waited_for(parts: GateParts, kind: Literal["nvidia", "amd"], product: str | None) -> Lease:
    parts.observer.stage("gate", "")
    _require_any(parts, kind, product)
    patience, settling = Patience(parts), SETTLING_LOOKS
    while True:
        found = _look(parts, kind, product)
        if found.lease is not None:
            return found.lease
        if settling and len(found.leased) < len(found.obstacles):
            settling -= 1
            continue
        if len(found.lasting) == len(found.obstacles):
            raise never_idle(found.obstacles, found.lasting)
        patience.until_next_look(
            found.obstacles,
            lambda: _is_free(parts, found.leased),  # noqa: B023
            found.lasting,
        )
        settling = SETTLING_LOOKS


def _require_any(parts: GateParts, kind: Literal["nvidia", "amd"], product: str | None) -> None:
    """Nobody waits for what isn't there.

    Raises:
        MachineError: there is no such GPU.
    """
    there = [status for status in parts.fleet.gpus() if status.kind == kind]
    if not there:
        raise MachineError(
            f"the driver shows this process no {'NVIDIA' if kind == 'nvidia' else 'AMD'} GPU",
            hint="see CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES",
        )
    names = sorted({status.name for status in there})
    if product is not None and product not in names:
        raise MachineError(
            f"this campaign began on {product}; here are only: {', '.join(names)}",
            hint="resume where it began, or show it that GPU if CUDA_VISIBLE_DEVICES"
            " (ROCR_VISIBLE_DEVICES) hides it, or start a new campaign here with"
            " `roofsmith optimize`",
        )


def _look(parts: GateParts, kind: Literal["nvidia", "amd"], product: str | None) -> _Look:
    """Watch the fleet, then lease the idlest GPU that nobody else has."""
    try:
        windows = _windows(parts, kind, product)
    except MachineError as error:
        return _Look(obstacles={"the driver": error.message})
    found = _Look()
    readings = chain.from_iterable(windows.values())
    own = parts.own({process.pid for status in readings for process in status.processes})
    candidates = dict(windows)
    while (best := idlest(candidates, parts.policy, own)) is not None:
        taken = parts.leases.take(best)
        if not isinstance(taken, Holder):
            found.lease = taken
            return found
        del candidates[best]
    for window in windows.values():
        found.obstacles[name_of(window[-1])] = _obstacle(parts, window, own, found)
    if not windows:
        found.obstacles["the driver"] = "it lists no GPU any more"
    return found


def _obstacle(
    parts: GateParts, window: Sequence[GpuStatus], own: Collection[int], found: _Look
) -> str:
    uuid = window[-1].uuid
    taken = parts.leases.take(uuid)
    if isinstance(taken, Holder):
        found.leased.append(uuid)
        return f"leased by {taken.who}"
    taken.release()
    if lasting := lasting_reasons(window, parts.policy, own):
        found.lasting[name_of(window[-1])] = lasting
        return f"{'; '.join(lasting)} (no waiting changes that)"
    return "; ".join(busy_reasons(window, parts.policy, own)) or "it was leased until just now"


def _windows(parts: GateParts, kind: Literal["nvidia", "amd"], product: str | None) -> Windows:
    policy = parts.policy
    windows: dict[str, list[GpuStatus]] = {}
    for sample in range(policy.samples):
        if sample:
            parts.clock.sleep(policy.window_s / (policy.samples - 1))
        for status in parts.fleet.gpus():
            if status.kind == kind and product in (None, status.name):
                windows.setdefault(status.uuid, []).append(status)
    return windows


def _is_free(parts: GateParts, leased: Sequence[str]) -> bool:
    """Whether somebody has let go of a GPU."""
    for uuid in leased:
        taken = parts.leases.take(uuid)
        if not isinstance(taken, Holder):
            taken.release()
            return True
    return False
