"""Holding a GPU's clocks still for as long as a run lasts, and letting go on every way out.

The record of a lock is on disk before the lock is set and goes after it was taken back, so that
whoever finds a record without its process knows what to do: `restore_abandoned`.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from roofsmith.domain.clocks import ClockClaim, ClockSettings, LockedClocks
from roofsmith.errors import MachineError
from roofsmith.machine.clock_claims import BusyError, Slot, boot_id, recorded, slot_of, this_process
from roofsmith.machine.plugged import Vendor

ENDING: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Tell = Callable[[str], None]
"""Says something to the user at once."""


class ClockDriver(Protocol):
    """Holds a GPU's clocks still, the only part of a machine that changes a device's settings.

    Every method raises MachineError, with what to do, where the driver doesn't know the GPU.
    """

    def require_lockable(self, uuid: str) -> None:
        """See whether `lock` may be called; changes nothing.

        Raises:
            MachineError: not permitted, not supported, MIG, or somebody else's setting would get
                lost.
        """
        ...

    def settings(self, uuid: str) -> ClockSettings:
        """What is set now, as far as the driver tells."""
        ...

    def lock(self, uuid: str) -> LockedClocks:
        """Hold the clocks at a frequency that the GPU sustains; memory's too, where it can.

        Raises:
            MachineError: the driver refused, and nothing was changed.
        """
        ...

    def restore(self, uuid: str, before: ClockSettings) -> None:
        """Let go, and have set again what was set before; harmless where nothing is locked.

        Raises:
            MachineError: the clocks may be locked still.
        """
        ...

    def by_hand(self, uuid: str) -> str:
        """The shell command that lets go of the clocks."""
        ...


DriverOf = Callable[[Vendor], ClockDriver]


@contextmanager
def held_clocks(
    driver: ClockDriver,
    vendor: Vendor,
    uuid: str,
    folder: Path,
    *,
    strangers: Callable[[str], Sequence[str]],
    tell: Tell,
) -> Iterator[LockedClocks]:
    """Lock a GPU's clocks; they are let go when the block, or this process, ends.

    Args:
        driver: of the GPU.
        vendor: of the GPU.
        uuid: of the GPU.
        folder: where records are.
        strangers: who else uses a GPU, in words.
        tell: hears of a lock that could not be taken back; that raises nothing.

    Raises:
        MachineError: the clocks can't be locked, another process holds them, or the GPU is shared;
            nothing was changed.
        StorageError: no record can be written; nothing was changed.
    """
    with slot_of(folder, uuid) as slot:
        _restore_recorded(driver, slot, tell)
        driver.require_lockable(uuid)
        _refuse_shared(uuid, strangers(uuid))
        claim = ClockClaim(
            uuid=uuid, vendor=vendor, before=driver.settings(uuid), owner=this_process()
        )
        slot.write(claim)
        release = _Release(driver, claim, slot, tell)
        # An interrupt may come between two lines of this very function.
        atexit.register(release)
        try:
            yield _locked(driver, uuid, release)
        finally:
            with undisturbed():
                release()
                atexit.unregister(release)


def restore_abandoned(driver_of: DriverOf, folder: Path, tell: Tell) -> frozenset[str]:
    """Let go of the clocks of every GPU whose run was killed.

    Args:
        driver_of: who holds clocks of a vendor's GPUs.
        folder: where records are, which are all of this user's.
        tell: hears what was done, or could not be.

    Returns:
        UUIDs of GPUs that may be locked still: a run holds their clocks, or letting go failed.
    """
    held = set()
    for path in recorded(folder):
        name = path.stem
        try:
            with slot_of(folder, name) as slot:
                claim = slot.read()
                if claim is None:
                    continue
                name = claim.uuid
                if _restore_recorded(driver_of(claim.vendor), slot, tell):
                    continue
        except BusyError:
            pass
        except MachineError as error:
            tell(str(error))
        held.add(name)
    return frozenset(held)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait until the block is over. Only the main thread can do this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    before = {number: signal.signal(number, remember) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: somebody's handler that isn't Python's, which can't be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    for number in waiting:
        signal.raise_signal(number)


@dataclass(slots=True)
class _Release:
    """Takes one lock back, once."""

    driver: ClockDriver
    claim: ClockClaim
    slot: Slot
    tell: Tell
    over: bool = False

    def __call__(self) -> None:
        if not self.over:
            self.over = True
            _restore(self.driver, self.claim, self.slot, self.tell)

    def forget(self) -> None:
        """Nothing was locked."""
        self.over = True
        self.slot.clear()


def _locked(driver: ClockDriver, uuid: str, release: _Release) -> LockedClocks:
    try:
        return driver.lock(uuid)
    except MachineError:
        release.forget()
        raise


def _restore_recorded(driver: ClockDriver, slot: Slot, tell: Tell) -> bool:
    """Undo what a record says; whether nothing is locked any more."""
    claim = slot.read()
    if claim is None:
        return True
    if claim.owner.boot_id != boot_id():  # the driver was loaded anew since
        slot.clear()
        return True
    restored = _restore(driver, claim, slot, tell)
    if restored:
        tell(
            f"let go of the clocks of {claim.uuid}, which a killed run had left locked"
            f" ({claim.owner.sentence})"
        )
    return restored


def _restore(driver: ClockDriver, claim: ClockClaim, slot: Slot, tell: Tell) -> bool:
    try:
        driver.restore(claim.uuid, claim.before)
    except MachineError as error:
        tell(
            f"THE CLOCKS OF {claim.uuid} MAY STILL BE LOCKED: {error.message}\n"
            f"by hand: {driver.by_hand(claim.uuid)}\n"
            f"the next run on any GPU tries again, because of {slot.path}"
        )
        return False
    slot.clear()
    return True


def _refuse_shared(uuid: str, strangers: Sequence[str]) -> None:
    if strangers:
        raise MachineError(
            f"the clocks of {uuid} are not touched while others use it: {', '.join(strangers)}",
            hint="wait for them, choose another GPU (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES),"
            " or run without --lock-clocks",
        )
