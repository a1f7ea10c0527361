"""The records, one per GPU, that outlive a run that was killed while it held clocks."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.clocks import ClockClaim, ClockOwner
from roofsmith.errors import MachineError, StorageError
from roofsmith.machine import probes, processes


class BusyError(MachineError):
    """Another process that lives has this GPU's record."""


def boot_id(root: Path = Path("/")) -> str:
    """Another one with every boot."""
    return (probes.text(root / "proc/sys/kernel/random/boot_id") or "unknown").strip()


def this_process() -> ClockOwner:
    """The process that asks."""
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
                hint="see that the clocks aren't locked (nvidia-smi -rgc, or rocm-smi"
                " --resetperfdeterminism), then remove that file",
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
