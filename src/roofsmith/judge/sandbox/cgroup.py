"""Control groups: a bound on the memory and the tasks of a worker and all that it starts.

See the kernel's Documentation/admin-guide/cgroup-v2.rst, where the files' names are from.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path

from roofsmith.scratch import is_stale, scratch_prefix

CGROUP = "cgroup"
ROOT = Path("/sys/fs/cgroup")
NEEDED = frozenset(("memory", "pids"))
GONE_S = 2.0
"""For a group's processes to be gone after they were killed."""


class Cgroup:
    """One worker's group."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, *, memory_bytes: int, tasks: int) -> Cgroup:
        """A new group below the one whose controllers are delegated.

        Raises:
            OSError: it isn't allowed.
        """
        parent = _parent()
        if parent is None:
            raise PermissionError(cgroup_refusal())
        name = f"{scratch_prefix('worker')}{time.monotonic_ns()}"
        group = cls(parent / name)
        group.path.mkdir()
        try:
            group._write("memory.max", str(memory_bytes))
            group._write("pids.max", str(tasks))
            if (group.path / "memory.swap.max").exists():
                group._write("memory.swap.max", "0")
        except OSError:
            group.close()
            raise
        return group

    def add(self, pid: int) -> None:
        """Put a process in, and with it all that it will start."""
        self._write("cgroup.procs", str(pid))

    def kill(self) -> None:
        """Kill all that is in it, at once (Linux 5.14)."""
        with contextlib.suppress(OSError):
            self._write("cgroup.kill", "1")

    def out_of_memory(self) -> bool:
        """Whether something in it was killed for its use of memory."""
        try:
            events = (self.path / "memory.events").read_text(encoding="ascii").split()
        except OSError:
            return False
        counts = dict(zip(events[::2], events[1::2], strict=False))
        return int(counts.get("oom_kill", "0")) > 0

    def close(self) -> None:
        self.kill()
        until = time.monotonic() + GONE_S
        while self.path.exists() and time.monotonic() < until:
            try:
                self.path.rmdir()
            except OSError:
                time.sleep(0.001)

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="ascii")


def remove_stale_groups() -> tuple[Path, ...]:
    """Remove groups of judges that were killed, with what is left in them; which."""
    parent = _parent()
    found = parent.glob("roofsmith-*") if parent is not None else ()
    stale = tuple(path for path in found if is_stale(path.name))
    for path in stale:
        Cgroup(path).close()
    return stale


@functools.cache
def cgroup_refusal() -> str | None:
    """Why no group can be made here; None if it can."""
    if not (ROOT / "cgroup.controllers").exists():
        return f"no cgroup v2 at {ROOT}"
    if _parent() is None:
        return "memory and pids aren't delegated to this user"
    return None


@functools.cache
def _parent() -> Path | None:
    """The nearest group above this process in which groups with both controllers can be made."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("0::")[2].strip()
    except OSError:
        return None
    place = ROOT / own.lstrip("/")
    for group in (place, *place.parents):
        if not group.is_relative_to(ROOT):
            return None
        if _delegates(group) and os.access(group, os.W_OK):
            return group
    return None


def _delegates(group: Path) -> bool:
    try:
        enabled = (group / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return False
    return set(enabled) >= NEEDED
