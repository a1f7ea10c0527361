"""The walls around one worker, seen from the judge: who is inside, and how all of it ends."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil

from roofsmith.judge.sandbox.cgroup import CGROUP, Cgroup
from roofsmith.judge.sandbox.isolation import TASKS_PER_WORKER, Isolation
from roofsmith.namespaces import PROCESS

MEMORY_SHARE = 0.8
"""Of the machine's memory that a worker and all that it starts may use."""


class Enclosure:
    """A worker's process group, process namespace and control group, as far as there are any.

    With a process namespace there are three processes: the one that was started, which waits
    outside; the namespace's first, which takes all others with it when it ends; and the worker.
    """

    def __init__(self, leader: int, isolation: Isolation) -> None:
        """Put a process that was just started, and runs nothing of a candidate's yet, in a group.

        Args:
            leader: its number, and that of its process group.
            isolation: which walls there will be.
        """
        self._leader = leader
        self._has_namespace = PROCESS in isolation.layers
        self._first: int | None = None
        self._worker = leader
        self._is_ending = False
        self._group: Cgroup | None = None
        if CGROUP in isolation.layers:
            memory = int(psutil.virtual_memory().total * MEMORY_SHARE)
            self._group = Cgroup.create(memory_bytes=memory, tasks=TASKS_PER_WORKER)
            with contextlib.suppress(ProcessLookupError):
                self._group.add(leader)

    def find_worker(self) -> int:
        """The worker's number, once its walls are up."""
        if self._has_namespace and self._first is None:
            first = _children(self._leader)
            inner = _children(first[0]) if first else []
            if inner:
                self._first, self._worker = first[0], inner[0]
        return self._worker

    def detached(self) -> list[str]:
        """What runs in the namespace, but as nobody's child any more: its first process has it."""
        if self._first is None:
            return []
        orphans = [pid for pid in _children(self._first) if pid != self._worker]
        return [_name(pid) for pid in orphans if state_of(pid) not in ("Z", "X")]

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed something in the group because it used too much."""
        return self._group is not None and self._group.out_of_memory()

    def kill(self) -> None:
        """Begin to kill all that is inside. The outer process ends when everything else has.

        Killed itself, it would end at once, while the worker still gives its memory back, a
        device's above all. So a second time changes nothing.
        """
        if self._is_ending:
            return
        self._is_ending = True
        self.find_worker()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._first is None:
                os.killpg(self._leader, signal.SIGKILL)
                return
            os.kill(self._first, signal.SIGKILL)
            os.kill(self._leader, signal.SIGCONT)
        self._first = None  # its number may soon be another's

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None


def state_of(pid: int) -> str:
    """A process's state, in the kernel's letters; Z, as if a zombie, if it is gone.

    The file has the thread's name in it, which may be any bytes.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return told.rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return "Z"


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped, or it is gone."""
    try:
        tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return True
    return all(state_of(task) in ("T", "t", "Z", "X") for task in tasks)


def _children(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in listed.split()]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"
