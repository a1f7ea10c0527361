"""Holding a GPU's clocks still for as long as a run lasts, and letting go on every way out.

The record of a lock is on disk before the lock is set and goes after it was taken back, so that
whoever finds a record without its process knows what to do: `restore_abandoned`.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from roofsmith.domain.clocks import ClockClaim, ClockOwner, LockedClocks
from roofsmith.errors import MachineError, StorageError
from roofsmith.machine import probes, processes
from roofsmith.machine.clocks_nvidia import NvmlClocks

ENDING: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Tell = Callable[[str], None]
"""Says something to the user at once."""


class BusyError(MachineError):
    """Another process that lives has this GPU's record."""


def boot_id(root: Path = Path("/")) -> str:
    """Another one with every boot."""
    return (probes.text(root / "proc/sys/kernel/random/boot_id") or "unknown").strip()


def this_process() -> ClockOwner:
    return ClockOwner(
        pid=os.getpid(),
        started_ticks=processes.started_ticks(os.getpid()) or 0,
        pid_namespace=processes.pid_namespace(),
        boot_id=boot_id(),
        command=shlex.join(sys.argv) or "python",
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )


def is_alive(owner: ClockOwner) -> bool:
    """Whether that very process runs here; one of another container can't be seen: False."""
    same_place = owner.boot_id == boot_id() and owner.pid_namespace == processes.pid_namespace()
    return same_place and processes.is_alive(owner.pid, owner.started_ticks)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one GPU's record, which nobody else touches meanwhile."""

    path: Path

    def read(self) -> ClockClaim | None:
        """What is recorded; None where nothing is.

        Raises:
            MachineError: something is, but it can't be read.
        """
        try:
            return ClockClaim.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise MachineError(
                f"{self.path} says that a run held a GPU's clocks, but it can't be read",
                hint="see that the clocks aren't locked (nvidia-smi -rgc), then remove that file",
            ) from error

    def write(self, claim: ClockClaim) -> None:
        """Record, durably: it is on disk when this returns.

        Raises:
            StorageError: it isn't.
        """
        staged = self.path.with_suffix(".new")
        try:
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                os.write(descriptor, claim.model_dump_json(indent=2).encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            staged.replace(self.path)
            self._sync_folder()
        except OSError as error:
            raise StorageError(
                f"can't write {self.path}: {error.strerror or error}",
                hint="clocks are locked only if a record of it is on disk: free some space, or"
                " export ROOFSMITH_CACHE=/some/writable/folder",
            ) from error

    def clear(self) -> None:
        """Forget; a record that can't be removed is looked at again by the next run."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def slot_of(folder: Path, uuid: str) -> Iterator[Slot]:
    """Have a GPU's record for oneself, by a file lock that dies with the process.

    Raises:
        BusyError: another process has it.
        StorageError: the folder can't be written.
    """
    slot = Slot(folder / f"{_file_name(uuid)}.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(slot.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(
            f"can't write in {folder}: {error.strerror or error}",
            hint="export ROOFSMITH_CACHE=/some/writable/folder",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(slot) from error
        claim = slot.read() if slot.path.exists() else None
        # Some network file systems grant every lock: then the process itself must be gone.
        if claim is not None and claim.owner.pid != os.getpid() and is_alive(claim.owner):
            raise _busy(slot)
        yield slot
    finally:
        os.close(descriptor)


def recorded(folder: Path) -> tuple[Path, ...]:
    """Files of GPUs whose clocks are or may be locked, sorted."""
    return tuple(sorted(folder.glob("*.json")))


def _busy(slot: Slot) -> BusyError:
    claim = None
    with suppress(MachineError):
        claim = slot.read()
    holder = "another process" if claim is None else claim.owner.sentence
    return BusyError(
        f"this GPU's clocks are held by {holder}",
        hint="wait until it is over, or run without --lock-clocks",
    )


def _file_name(uuid: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in uuid)


@contextmanager
def held_clocks(
    driver: NvmlClocks,
    uuid: str,
    folder: Path,
    *,
    strangers: Callable[[str], Sequence[str]],
    tell: Tell,
) -> Iterator[LockedClocks]:
    """Lock a GPU's clocks; they are let go when the block, or this process, ends.

    Args:
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
        claim = ClockClaim(uuid=uuid, before=driver.settings(uuid), owner=this_process())
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


def restore_abandoned(driver: NvmlClocks, folder: Path, tell: Tell) -> frozenset[str]:
    """Let go of the clocks of every GPU whose run was killed.

    Args:
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
                if _restore_recorded(driver, slot, tell):
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

    driver: NvmlClocks
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


def _locked(driver: NvmlClocks, uuid: str, release: _Release) -> LockedClocks:
    try:
        return driver.lock(uuid)
    except MachineError:
        release.forget()
        raise


def _restore_recorded(driver: NvmlClocks, slot: Slot, tell: Tell) -> bool:
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


def _restore(driver: NvmlClocks, claim: ClockClaim, slot: Slot, tell: Tell) -> bool:
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
            hint="wait for them, choose another GPU (CUDA_VISIBLE_DEVICES),"
            " or run without --lock-clocks",
        )
