"""Which GPU a command gets: all are watched, and the idlest one is leased; or one waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace

from roofsmith.domain.fleet import GpuStatus
from roofsmith.errors import MachineError, RoofsmithError
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.idle import busy_reasons, idlest, lasting_reasons
from roofsmith.machine.lease import FileLease, Holder
from roofsmith.machine.plugged import NAMES, Vendor
from roofsmith.machine.waiting import (
    SETTLING_LOOKS,
    GateParts,
    Obstacle,
    Patience,
    name_of,
    never_idle,
)

LookedAhead = Callable[[], FileLease | None]
"""The lease that a look ahead came to; None: none was idle."""
Windows = Mapping[str, Sequence[GpuStatus]]
"""Readings by UUID, oldest first."""


@contextmanager
def admission(parts: GateParts, kind: Vendor, product: str | None = None) -> Iterator[GpuGate]:
    """The gate of the idlest GPU, on which this process takes turns as long as the block lasts.

    The first turn has begun already, and ends with `let_go`, at the latest with the block. A
    process that holds a GPU already gets the same.

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
    gate = GpuGate(parts, lease.uuid)
    gate.begin(lease)
    with parts.leases.turns(lease.uuid), closing(gate):
        yield gate


@contextmanager
def looked_ahead(parts: GateParts, kind: Vendor) -> Iterator[LookedAhead]:
    """Look for an idle GPU once beside the block, and hold it: who asks next gets it at once.

    What is in the way is found again by whoever asks, who can wait.

    Yields:
        Waits until it is held, or wasn't idle; whoever asks lets the lease go once it has its own.
    """
    leases: list[FileLease] = []
    is_over = threading.Event()

    def look() -> None:
        with suppress(RoofsmithError):
            parts.fleet()  # the first answer may show the driver's own awakening
            found = _look(parts, kind, None)
            if isinstance(found, FileLease):
                leases.append(found)
                if is_over.is_set():
                    found.release()

    beside = threading.Thread(target=look, name="looking ahead", daemon=True)
    beside.start()

    def waited_for() -> FileLease | None:
        beside.join()
        return leases[0] if leases else None

    try:
        yield waited_for
    finally:
        is_over.set()
        for lease in leases:
            lease.release()


def _held_already(parts: GateParts) -> FileLease | None:
    for uuid in sorted(parts.leases.held()):
        if any(status.uuid == uuid for status in parts.fleet()):
            lease = parts.leases.take(uuid)
            return None if isinstance(lease, Holder) else lease
    return None


def _waited_for(parts: GateParts, kind: Vendor, product: str | None) -> FileLease:
    parts.observer.stage("gate", "")
    _require_any(parts, kind, product)
    patience, settling = Patience(parts), SETTLING_LOOKS
    with ExitStack() as line:
        while isinstance(found := _look(parts, kind, product), dict):
            leased = [obstacle.leased for obstacle in found.values() if obstacle.leased]
            if settling and len(leased) < len(found):
                settling -= 1
                continue
            if all(obstacle.lasting for obstacle in found.values()):
                raise never_idle(found)
            left = line.pop_all()
            line.enter_context(parts.leases.line(leased))
            left.close()  # only now: our place is kept
            patience.until_next_look(found, lambda: _is_free(parts, found))
            settling = SETTLING_LOOKS
        return found


def _require_any(parts: GateParts, kind: Vendor, product: str | None) -> None:
    """Nobody waits for what isn't there.

    Raises:
        MachineError: there is no such GPU.
    """
    names = sorted({status.name for status in parts.fleet() if status.kind == kind})
    if not names:
        raise MachineError(
            f"the driver shows this process no {NAMES[kind]} GPU",
            hint="see CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES",
        )
    if product is not None and product not in names:
        raise MachineError(
            f"this campaign began on {product}; here are only: {', '.join(names)}",
            hint="resume where it began, or show it that GPU if CUDA_VISIBLE_DEVICES"
            " (ROCR_VISIBLE_DEVICES) hides it, or start a new campaign here with"
            " `roofsmith optimize`",
        )


def _look(parts: GateParts, kind: Vendor, product: str | None) -> FileLease | dict[str, Obstacle]:
    """Watch the fleet, then lease the idlest GPU that nobody else has."""
    began_s = parts.clock.now().timestamp()
    try:
        windows = _windows(parts, kind, product)
    except MachineError as error:
        return {"the driver": Obstacle(error.message)}
    if not windows:
        return {"the driver": Obstacle("it lists no GPU any more")}
    own = set[int]()
    for uuid, window in windows.items():
        pids = {process.pid for status in window for process in status.processes}
        ours = parts.own(pids)
        own.update(ours, parts.resting(uuid, pids.difference(ours), began_s))
    candidates = dict(windows)
    while (best := idlest(candidates, parts.policy, own)) is not None:
        taken = parts.leases.take(best)
        if not isinstance(taken, Holder):
            return taken
        del candidates[best]
    return {name_of(window[-1]): _obstacle(parts, window, own) for window in windows.values()}


def _obstacle(parts: GateParts, window: Sequence[GpuStatus], own: Collection[int]) -> Obstacle:
    uuid = window[-1].uuid
    taken = parts.leases.take(uuid)
    if isinstance(taken, Holder):
        return Obstacle(taken.standing, leased=uuid)
    taken.release()
    if lasting := lasting_reasons(window, parts.policy, own):
        return Obstacle(f"{'; '.join(lasting)} (no waiting changes that)", lasting)
    busy = busy_reasons(window, parts.policy, own)
    return Obstacle("; ".join(busy) or "it was leased until just now")


def _windows(parts: GateParts, kind: Vendor, product: str | None) -> Windows:
    policy = parts.policy
    windows: dict[str, list[GpuStatus]] = {}
    for sample in range(policy.samples):
        if sample:
            parts.clock.sleep(policy.window_s / (policy.samples - 1))
        for status in parts.fleet():
            if status.kind == kind and product in (None, status.name):
                windows.setdefault(status.uuid, []).append(status)
    return windows


def _is_free(parts: GateParts, obstacles: dict[str, Obstacle]) -> bool:
    """Whether it is our turn on a GPU that somebody had; else, who has it now."""
    for name, obstacle in obstacles.items():
        if obstacle.leased is None:
            continue
        taken = parts.leases.take(obstacle.leased)
        if not isinstance(taken, Holder):
            taken.release()
            return True
        obstacles[name] = replace(obstacle, why=taken.standing)
    return False
