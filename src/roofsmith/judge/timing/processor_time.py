"""What the scheduler says of a worker's threads: how long they ran, and waited to run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.domain.outcome import Cheated

STIR_S = 1e-3
"""Processor time that a process may seem to have used while it was stopped. What isn't woken uses
none."""
LEAVING_S = 1e-4
"""Between two looks at whether a thread has left its processor."""
ENDED_S = 1e-5
"""Processor time beyond that of the threads that a process has: of one that ended. Both are read
while it is stopped, and exact then."""
SPARE_S, SPARE_SHARE = 1e-3, 0.05
"""By how much threads' processor time may exceed what their processors have."""


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


def await_stillness(pid: int, until: float) -> None:
    """Wait until no thread of a stopped process is on a processor any more.

    A thread is said to be stopped shortly before it leaves its processor. Where a host takes that
    processor away in between, it leaves milliseconds later, and all of them count as its own then.

    Args:
        pid: all of whose threads are said to be stopped.
        until: by `time.monotonic`; after that it isn't waited for.
    """
    with contextlib.suppress(OSError):  # it is gone
        for task in os.scandir(f"/proc/{pid}/task"):
            while _is_on_processor(Path(task.path)) and time.monotonic() < until:
                time.sleep(LEAVING_S)


def _is_on_processor(task: Path) -> bool:
    """Whether a thread is; False where that may not be asked.

    The file says `running` until the thread has left: proc_pid_syscall in Linux' fs/proc/base.c.
    """
    try:
        return task.joinpath("syscall").read_text(encoding="ascii").startswith("running")
    except OSError:
        return False


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


@dataclass(frozen=True, slots=True)
class Awake:
    """What a process had from one stop to the next."""

    own_s: float | None
    """The most that it can have taken without others: all but the time in which none of its threads
    ran and one waited, which nobody but others can have made. None: it may have started a process,
    or the system doesn't tell."""
    least_s: float
    """What its only thread ran; 0: it had several, which may have run at the same time."""
    unused_s: float
    """Processor time that its processors had and it didn't take, be it that others did. Where a
    thread waits for others, a processor isn't its own: no more than this is lost to them, however
    long more threads than processors waited for one another."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Both clocks at one moment of a process's life."""

    pid: int
    wall_s: float
    ran_s: float
    threads: Mapping[str, Thread] = field(default_factory=dict)
    """Where it is stopped, by their ids."""

    def until(self, stop: Spent, processors: int, *, is_alone: bool) -> Awake:
        """What the process had since.

        Args:
            stop: the later moment; it was stopped at both.
            processors: that it may use.
            is_alone: whether it can't have started a process.
        """
        wall_s, ran_s = stop.wall_s - self.wall_s, stop.ran_s - self.ran_s
        unused_s = max(processors * wall_s - ran_s, 0.0)
        if not is_alone or not stop.threads:
            return Awake(None, 0.0, unused_s)
        # Where none runs, a thread waits or sleeps. All of them run for no longer than `ran_s`
        # together, so that a thread waits for at least its waiting and its running less that while
        # none runs.
        kept_s = max(map(self._was_ready_s, stop.threads.items())) - ran_s
        is_lone = len(stop.threads) == 1 and stop.threads.keys() == self.threads.keys()
        own_s = min(max(wall_s - kept_s, 0.0), wall_s)
        if not is_lone or ran_s > self._ran_s(stop) + ENDED_S:
            return Awake(own_s, 0.0, unused_s)
        return Awake(own_s, ran_s, unused_s)

    def _ran_s(self, stop: Spent) -> float:
        """Processor time since of the threads that there are at both moments."""
        return sum(now.ran_s - self.threads[name].ran_s for name, now in stop.threads.items())

    def _was_ready_s(self, later: tuple[str, Thread]) -> float:
        """How long a thread ran or waited since."""
        name, now = later
        then = self.threads.get(name, Thread(0.0, 0.0))
        return now.ran_s + now.waited_s - then.ran_s - then.waited_s

    def worked_s(self) -> float:
        """How long it has worked since: not longer than has passed, nor than its threads ran."""
        now = spent(self.pid)
        return max(min(now.wall_s - self.wall_s, now.ran_s - self.ran_s), 0.0)

    def stirred(self) -> Cheated | None:
        """None if it stood still since, as what is stopped does."""
        ran = ran_s(self.pid) - self.ran_s
        if ran <= STIR_S:
            return None
        detail = f"it ran for {ran * 1e3:.1f} ms while it was stopped for the other side"
        return Cheated(reason="ran_out_of_turn", detail=detail)

    def beyond_processors(self, most: int) -> Cheated | None:
        """None if its threads had no more time since than this many processors have.

        This process may be held up between its looks at the two clocks: the wall's encloses the
        other. Both must be looked at while the process is stopped.
        """
        ran = ran_s(self.pid) - self.ran_s
        wall_s = time.perf_counter() - self.wall_s
        if ran <= most * wall_s * (1 + SPARE_SHARE) + SPARE_S:
            return None
        detail = (
            f"its threads had {ran * 1e3:.1f} ms of processor time in {wall_s * 1e3:.1f} ms on"
            f" {most} processor{'s' if most > 1 else ''}"
        )
        return Cheated(reason="extra_processors", detail=detail)


def spent(pid: int) -> Spent:
    """The clocks now."""
    return Spent(pid, time.perf_counter(), ran_s(pid))


def spent_at_stop(pid: int) -> Spent:
    """The same of a process that is stopped, with its threads."""
    return Spent(pid, time.perf_counter(), ran_s(pid), threads_of(pid))
