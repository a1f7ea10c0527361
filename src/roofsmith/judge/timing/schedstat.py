"""How long threads ran, and waited to run, by the scheduler. Standard library only."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thread:
    """What one had so far; seconds."""

    ran_s: float
    waited_s: float
    """For a processor, whoever had it, or until a cgroup's quota came round again."""


def threads_of(pid: int | str) -> dict[str, Thread]:
    """What the scheduler says of a process's threads now, by their ids; none: it is gone, or the
    system doesn't tell.

    The first two fields of schedstat, in ns: Linux Documentation/scheduler/sched-stats.rst.
    """
    found = {}
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError, IndexError),
                open(f"{task.path}/schedstat", encoding="ascii") as file,
            ):
                ran, waited = file.read().split()[:2]
                found[task.name] = Thread(int(ran) * 1e-9, int(waited) * 1e-9)
    return found


def waited_s(pid: int) -> float:
    """Seconds that a process's threads, those that it has now, waited for a processor so far."""
    return sum(thread.waited_s for thread in threads_of(pid).values())


def own_waiting_s() -> float:
    """Seconds that the thread that asks has waited for a processor so far; 0 if nobody knows."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError):
        return 0.0


def ran_s(pid: int) -> float:
    """Seconds of processor time of a process so far, of threads that ended too; 0 if it is gone.

    What its threads had since the last tick (up to 10 ms) counts only once they are off their
    processors: exact while it is stopped.

    The clock of another process: `MAKE_PROCESS_CPUCLOCK` and `CPUCLOCK_SCHED` in Linux'
    include/linux/posix-timers.h.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0
