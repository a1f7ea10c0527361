"""One holder per GPU among all processes and users of this host; they take turns.

A lease is an flock on a file named after the GPU, in a folder where everybody may create files and
nobody may replace another's. Who comes while others wait gets it after them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from roofsmith.errors import MachineError
from roofsmith.machine.lock_files import (
    MAX_TEXT_BYTES,
    is_still,
    lock_name,
    locked,
    opened,
    require_safe,
    short,
    told,
    unusable,
    usual_folder,
)
from roofsmith.machine.processes import descended, pid_namespace, started_ticks, user_name
from roofsmith.machine.seats import Seat, Seated, seated
from roofsmith.ports import Clock

ATTEMPTS = 20
"""A lock file may be created or cleared away between two calls, but not for ever."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody else who holds the lease of a GPU, or whose turn is before ours."""

    who: str
    """For people: `pid 123 (alice): roofsmith optimize target.yaml, since 10:31 UTC`."""
    place: int = 1
    """Ours among those who wait, were we one of them."""
    waiting: int = 1
    """How many these are, with us."""

    @property
    def standing(self) -> str:
        """`leased by pid 123 (alice): roofsmith judge, since 10:31 UTC; place 2 of 3 in line`."""
        return f"leased by {self.who}; place {self.place} of {self.waiting} in line"


@dataclass(slots=True)
class _Part:
    uuid: str
    lock: int | None = None
    """Descriptor of the lock file, while it holds the lease."""
    depth: int = 0
    """Parts of this process that hold the lease."""
    seat: Seat | None = None
    seats: int = 0
    """Parts of this process that take turns on it."""
    waiting: int = 0
    """Those that wait for one."""


_parts: dict[Path, _Part] = {}
"""By lock file. Of the whole process, as locks are: a second descriptor would wait for the first.
"""
_guard = threading.RLock()


@dataclass(slots=True)
class FileLease:
    """As long as it isn't released, and this process lives, the GPU is this process's."""

    uuid: str
    _part: _Part
    _released: bool = False

    def release(self) -> None:
        """Let others have it, unless an outer part of this command still needs it."""
        with _guard:
            if self._released:
                return
            self._released = True
            part = self._part
            part.depth -= 1
            if part.depth == 0 and part.lock is not None:
                with contextlib.suppress(OSError):  # opened only for reading
                    os.ftruncate(part.lock, 0)
                # Said, not left to closing: a child between fork and exec has a copy.
                fcntl.flock(part.lock, fcntl.LOCK_UN)
                os.close(part.lock)
                part.lock = None


@dataclass(frozen=True, slots=True)
class FileLeases:
    """One holder per GPU among all processes and users of the host, by lock files that they share.

    A process may take a lease that it holds already: it is let go with its last release.
    """

    clock: Clock
    command: str
    """Of this process, as others will see it."""
    folder: Path = field(default_factory=lambda: usual_folder())
    _ours: dict[Path, _Part] = field(default_factory=lambda: _parts, repr=False)

    def take(self, uuid: str) -> FileLease | Holder:
        """Lease a GPU, or hear who is before us; never waits.

        Raises:
            MachineError: the lock file can't be opened, or is not what it should be.
        """
        with _guard:
            part = self._part(uuid)
            if not part.depth:
                before = self._before(part)
                part.lock = None if before else self._lock(uuid)
                if part.lock is None:
                    return self._holder(part, before)
            part.depth += 1
            return FileLease(uuid, part)

    def held(self) -> frozenset[str]:
        """GPUs that this process holds."""
        with _guard:
            return frozenset(part.uuid for part in self._ours.values() if part.depth)

    @contextlib.contextmanager
    def turns(self, uuid: str) -> Iterator[None]:
        """This process takes turns on a GPU as long as the block lasts.

        What it has on the GPU meanwhile is in nobody's way, unless it computes out of turn.
        """
        self._sit(uuid)
        try:
            yield
        finally:
            self._rise(uuid)

    @contextlib.contextmanager
    def line(self, uuids: Iterable[str]) -> Iterator[None]:
        """Wait for the next turn on any of some GPUs: who comes later gets it later."""
        with contextlib.ExitStack() as stack:
            for uuid in uuids:
                seat = self._sit(uuid)
                stack.callback(self._rise, uuid)
                stack.callback(self._wait, uuid, seat, -1)
                self._wait(uuid, seat, 1)
            yield

    def partners(self, uuid: str, pids: Collection[int]) -> frozenset[int]:
        """Which of some processes belong to others who take turns on a GPU."""
        if not pids:
            return frozenset()
        with _guard:
            others = self._others(self._part(uuid))
        return descended(pids, {one.pid for one in others if one.pid is not None})

    def _part(self, uuid: str) -> _Part:
        return self._ours.setdefault(self._path(uuid), _Part(uuid))

    def _path(self, uuid: str) -> Path:
        return self.folder / lock_name(uuid)

    def _sit(self, uuid: str) -> Seat:
        with _guard:
            part = self._part(uuid)
            if part.seat is None:
                require_safe(self.folder)
                part.seat = Seat(self._path(uuid), self._name())
            part.seats += 1
            return part.seat

    def _wait(self, uuid: str, seat: Seat, one_more: int) -> None:
        with _guard:
            part = self._part(uuid)
            part.waiting += one_more
            if not part.waiting:
                seat.wait(None)
            elif seat.since_s is None:
                seat.wait(self.clock.monotonic())

    def _rise(self, uuid: str) -> None:
        with _guard:
            part = self._part(uuid)
            part.seats -= 1
            if not part.seats and part.seat is not None:
                part.seat.close()
                part.seat = None

    def _others(self, part: _Part) -> tuple[Seated, ...]:
        own = () if part.seat is None else (part.seat.path,)
        return seated(self._path(part.uuid), own)

    def _before(self, part: _Part) -> tuple[Seated, ...]:
        seat = part.seat
        own = (float("inf"), "")
        if seat is not None and seat.since_s is not None:
            own = (seat.since_s, seat.path.name)
        return tuple(one for one in self._others(part) if (one.waits_since_s, one.file) < own)

    def _lock(self, uuid: str) -> int | None:
        """A descriptor of the lock file, which is locked; None: somebody holds it."""
        require_safe(self.folder)
        path = self._path(uuid)
        for _ in range(ATTEMPTS):
            try:
                descriptor = opened(path)
            except OSError as error:
                raise unusable(path, error.strerror or str(error)) from error
            if descriptor is None:
                continue
            if not locked(descriptor):
                os.close(descriptor)
                return None
            if is_still(descriptor, path):
                _write(descriptor, self._name())
                return descriptor
            os.close(descriptor)  # cleared away before it was locked
        raise MachineError(
            f"the lock file {path} comes and goes: no GPU can be leased",
            hint="see what clears that folder, or export ROOFSMITH_LEASES=/another/folder",
        )

    def _holder(self, part: _Part, before: tuple[Seated, ...]) -> Holder:
        """Who has the lease; between two turns, whose is the next."""
        text = b""
        with contextlib.suppress(OSError, MachineError):
            if (descriptor := opened(self._path(part.uuid))) is not None:
                with os.fdopen(descriptor, "rb") as file:
                    text = file.read(MAX_TEXT_BYTES)
        who = before[0].who if before and not text else told(text)
        waiting = sum(one.waits for one in self._others(part))
        return Holder(who, place=len(before) + 1, waiting=waiting + 1)

    def _name(self) -> Mapping[str, Any]:
        pid = os.getpid()
        return {
            "pid": pid,
            "started": started_ticks(pid),
            "space": pid_namespace(),
            "user": user_name(os.getuid()),
            "command": short(self.command),
            "since": f"{self.clock.now().astimezone(UTC):%Y-%m-%d %H:%M}",
        }


def _write(descriptor: int, name: Mapping[str, Any]) -> None:
    """Leave the holder's name; a lock without one holds as well."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(name).encode(), 0)
