"""Correctness of a kernel on every workload, before it is timed and while it is."""

from __future__ import annotations

from collections.abc import Callable

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure, Outcome, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.judge.checking import Checker, Finding
from roofsmith.judge.lineup import Lineup, SegmentPlan, SideDiedError, Station
from roofsmith.judge.oracle import Draws, ReferenceOracle

CHECKS = 2
"""Fresh draws per workload that must be right before anything is timed."""
FIRST_DEADLINE_S = 60.0
"""For a call of a kernel that nothing is known about yet."""
DEADLINE_FACTOR = 30.0
"""A candidate may take this many times as long as the slowest kernel seen before it is killed."""
LEAST_DEADLINE_S = 3.0

Progress = Callable[[float, str], None]


class Examiner:
    """Checks kernels of one target, and remembers how long they took."""

    def __init__(self, target: Target, oracle: ReferenceOracle, threads: int) -> None:
        self._target = target
        self._oracle = oracle
        self._threads = threads
        self._checker = Checker(target.tolerance)
        self._time_s: dict[tuple[str, str], float] = {}

    def examine(self, built: Built, progress: Progress) -> tuple[Outcome, tuple[ErrorReport, ...]]:
        """Run every workload on fresh draws; the first failure ends it."""
        reports: list[ErrorReport] = []
        workloads = self._target.workloads
        try:
            with Lineup([built], self._threads) as lineup:
                for done, workload in enumerate(workloads):
                    with self._oracle.draws(workload, 1) as draws:
                        found = self._examine_workload(built, lineup, draws)
                        reports += self._checker.reports(draws, found)
                    if (failure := found[-1].failure) is not None:
                        return failure, tuple(reports)
                    progress((done + 1) / len(workloads), workload.label)
        except SideDiedError as error:
            return error.outcome, tuple(reports)
        return Passed(), tuple(reports)

    def knows(self, built: Built) -> bool:
        """Whether a kernel has passed an examination here."""
        return all(
            (built.library_sha256, workload.label) in self._time_s
            for workload in self._target.workloads
        )

    def time_s(self, built: Built, workload: Workload) -> float | None:
        """Rough seconds per call, from the examination; None if there was none."""
        return self._time_s.get((built.library_sha256, workload.label))

    def deadline_s(self, workload: Workload) -> float:
        """How long a call may take on a workload, going by the slowest kernel seen on it."""
        known = [time for (_, label), time in self._time_s.items() if label == workload.label]
        if not known:
            return FIRST_DEADLINE_S
        return min(max(DEADLINE_FACTOR * max(known), LEAST_DEADLINE_S), FIRST_DEADLINE_S)

    def spot_check(self, station: Station) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        if not self._checker.knows(station.draws):
            self._checker.learn(station.draws, 0)
        for slot in range(station.plan.calls):
            station.draws.expect(slot, exact=False)
            for side, arena in enumerate(station.arenas):
                failure = self._checker.spot_check(station.draws, arena, slot).failure
                if failure is not None:
                    return side, failure
        return None

    def _examine_workload(self, built: Built, lineup: Lineup, draws: Draws) -> list[Finding]:
        """Findings of fresh draws, up to the first failure."""
        station = lineup.station(draws, SegmentPlan(1, warm=False))
        found: list[Finding] = []
        for _ in range(CHECKS):
            turn = station.turn([0], self.deadline_s(draws.workload))
            if self._checker.knows(draws):
                draws.expect(0, exact=True)
            else:
                self._checker.learn(draws, 0)
            found.append(self._checker.check(draws, station.arenas[0], 0))
            if found[-1].failure is not None:
                return found
            last_s = turn.segments[0].times_s[-1]
            self._time_s[built.library_sha256, draws.workload.label] = last_s
        return found
