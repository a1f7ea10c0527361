"""A kernel while it runs on the host's processors: where perf sees it, how many of them it uses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from roofsmith.analysis.instructions import ELSEWHERE
from roofsmith.domain.kernel import Built
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import KernelDiedError, KernelRunner, Oracle
from roofsmith.profilers import perf
from roofsmith.profilers.perf_output import Sighting

SEED = 20_250_102
"""Of the inputs that a kernel is watched on; never used for a check or a timing."""
WATCHED_S = 0.5
"""Two thousand samples on one processor: a share of 2% is seen to within a third of it."""
MAX_CALLS = 100_000
CALL_DEADLINE_S = 120.0
FEWEST_SAMPLES = 50
"""Below, nothing is said about shares."""


class UnwatchedError(Exception):
    """Nobody saw the kernel run; the message says why."""


@dataclass(frozen=True, slots=True)
class KernelUse:
    """What was seen of a kernel that was called again and again."""

    seen: tuple[Sighting, ...]
    processors_used: float
    """Time of all its threads on processors, or in wait of one, over the time that passed."""

    def inside(self, library: Path, functions: Sequence[str]) -> dict[tuple[str, int], int]:
        """Samples by function and offset. Those of other code are under an empty name, so that
        shares are of all the time."""
        counts: dict[tuple[str, int], int] = {}
        for one in self.seen:
            is_own = Path(one.module).name == library.name and one.function in functions
            place = (one.function or "", one.offset) if is_own else ELSEWHERE
            counts[place] = counts.get(place, 0) + 1
        return counts


@dataclass(frozen=True, slots=True)
class Watcher:
    """Runs a kernel for half a second under perf's eyes."""

    runner: KernelRunner
    oracle: Oracle
    threads: int
    find_perf: Callable[[], str | None] = field(default=perf.find_perf)
    _last: dict[tuple[str, str], KernelUse] = field(default_factory=dict, init=False)
    """The latest run alone, by candidate and workload."""

    def last(self, built: Built, workload: Workload) -> KernelUse:
        """What the latest run saw, if it was this kernel's on this workload; else a run of its own.

        Raises:
            UnwatchedError: as `watch`.
        """
        held = self._last.get((built.candidate_id, workload.label))
        return self.watch(built, workload) if held is None else held

    def watch(self, built: Built, workload: Workload) -> KernelUse:
        """Look where it is, some thousand times a second.

        Raises:
            UnwatchedError: there is no perf, it saw too little, or the kernel can't be run.
        """
        self._last.clear()
        program = self.find_perf()
        if program is None:
            raise UnwatchedError("perf is not installed, so nobody saw which loop is hot")
        try:
            found = self._watched(program, built, workload)
        except perf.PerfError as error:
            raise UnwatchedError(f"perf saw nothing: {error}") from error
        except KernelDiedError as died:
            raise UnwatchedError(f"the kernel did not survive being watched: {died}") from died
        except RoofsmithError as error:
            raise UnwatchedError(f"no inputs to watch it on: {error.message}") from error
        if len(found.seen) < FEWEST_SAMPLES:
            raise UnwatchedError(f"perf saw the kernel {len(found.seen)} times only")
        self._last[built.candidate_id, workload.label] = found
        return found

    def _watched(self, program: str, built: Built, workload: Workload) -> KernelUse:
        arguments = self.oracle.inputs(workload, SEED)
        with self.runner.open(
            built, arguments, threads=self.threads, call_deadline_s=CALL_DEADLINE_S
        ) as session:
            call_s = max(min(session.call(2)), 1e-9)
            calls = max(1, min(MAX_CALLS, math.ceil(WATCHED_S / call_s)))

            def work() -> float:
                before, began = _wanted_s(session.pid), time.perf_counter()
                session.call(calls)
                passed_s = time.perf_counter() - began
                return (_wanted_s(session.pid) - before) / passed_s

            used, seen = perf.sample(program, session.pid, work)
        return KernelUse(seen, used)


def _wanted_s(pid: int) -> float:
    """A process on processors, with threads that have ended, and those that it has in wait of one:
    on a busy machine two threads get less than two processors."""
    try:
        spent = psutil.Process(pid).cpu_times()
        threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
        waited_ns = sum(int(thread.read_text().split()[1]) for thread in threads)
    except (psutil.Error, OSError, IndexError, ValueError):
        return 0.0
    return float(spent.user + spent.system) + waited_ns * 1e-9
