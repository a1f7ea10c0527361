"""What this machine grants of processes, threads, files and their sizes, and who says so."""

from __future__ import annotations

import errno
import os
import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.errors import MachineError

CGROUPS = Path("/sys/fs/cgroup")
_OF_FILES = {
    errno.EFBIG: (
        "a file or shared memory can't be so large",
        resource.RLIMIT_FSIZE,
        "bytes: `ulimit -f`",
    ),
    errno.EMFILE: ("no more files can be opened", resource.RLIMIT_NOFILE, "files: `ulimit -n`"),
}
"""What can't be done, which limit that is, and what raises it."""
_NO_NEW_THREAD, _STARTS_PROCESS = "can't start new thread", "_execute_child"
"""What Python says, and where: locks and pipes raise BlockingIOError as well."""


@dataclass(frozen=True, slots=True)
class TaskLimit:
    """One bound on processes and threads together."""

    name: str
    value: int
    left: int
    """How many more there may be."""
    cure: str

    def __str__(self) -> str:
        return f"{self.name} is {self.value} here; raise it: {self.cure}"


def tightest_limit(*, raised: bool = False) -> TaskLimit | None:
    """The limit that leaves the fewest tasks; None where neither user nor group has one.

    Args:
        raised: of a process that raises its own limit as far as it may.
    """
    return min((*_of_user(raised=raised), *_of_groups()), key=lambda one: one.left, default=None)


@contextmanager
def naming_limits() -> Iterator[None]:
    """Turn what Python says where a limit is reached into an error for people: of processes and
    threads, of open files, or of a file's size, which is one of shared memory as well.

    Raises:
        MachineError: that was so; names the limit, if one is known.
    """
    try:
        yield
    except (RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _OF_FILES:
            said, kind, cure = _OF_FILES[error.errno]
            raise MachineError(
                f"{said}: {os.strerror(error.errno)}",
                hint=f"raise the limit of {resource.getrlimit(kind)[0]} {cure}",
            ) from error
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
            raise
        frames = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
        if _STARTS_PROCESS not in frames and str(error) != _NO_NEW_THREAD:
            raise
        limit = tightest_limit()
        raise MachineError(
            f"no more threads or processes can be started: {error}",
            hint="end some that run, or give them memory" if limit is None else str(limit),
        ) from error


def tasks_of_user() -> int:
    """Processes and threads that this user has now, where the kernel counts them together."""
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == os.geteuid():
                    total += sum(1 for _ in os.scandir(f"{entry.path}/task"))
            except OSError:
                continue  # it ended
    return total


def _of_user(*, raised: bool) -> Iterator[TaskLimit]:
    most = resource.getrlimit(resource.RLIMIT_NPROC)[raised]
    if os.geteuid() != 0 and most != resource.RLIM_INFINITY:  # the kernel doesn't hold root to it
        left = most - tasks_of_user()
        yield TaskLimit("RLIMIT_NPROC", most, left, "ulimit -u, or nproc in limits.conf")


def _of_groups() -> Iterator[TaskLimit]:
    """Of this process's control group and those above it, of either version."""
    cure = "docker run --pids-limit, or TasksMax= of its systemd unit"
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for _, controllers, own in (line.split(":", 2) for line in lines):
        if controllers in ("", "pids"):
            root = CGROUPS / controllers
            place = root / own.lstrip("/")
            for group in (place, *place.parents):
                if group.is_relative_to(root):
                    yield from _of_group(group, cure)


def _of_group(group: Path, cure: str) -> Iterator[TaskLimit]:
    try:
        most, current = (int((group / f"pids.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # the root has none, and `max` is no number
        return
    yield TaskLimit("pids.max", most, most - current, cure)
