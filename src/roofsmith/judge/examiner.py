"""Correctness of a kernel on every workload, before it is timed and while it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.judge.bench import Bench, Inputs, Lineup, SideDiedError
from roofsmith.judge.budgets import Finding

CHECKS = 2
"""Fresh draws per workload that must be right before anything is timed."""
DEADLINE_FACTOR = 30.0
"""A candidate may take this many times as long as the slowest kernel seen before it is killed."""
LEAST_DEADLINE_S = 3.0

Progress = Callable[[float, str], None]


class Examiner:
    """Checks kernels of one target, and remembers how long they took."""

    def __init__(self, target: Target, bench: Bench[Any]) -> None:
        self._target = target
        self._bench = bench
        self._time_s: dict[tuple[str, str], float] = {}

    def examine(self, built: Built, progress: Progress) -> tuple[Outcome, tuple[ErrorReport, ...]]:
        """Run every workload on fresh draws; the first failure ends it."""
        reports: list[ErrorReport] = []
        workloads = self._target.workloads
        try:
            with self._bench.lineup([built]) as lineup:
                for done, workload in enumerate(workloads):
                    with self._bench.inputs(workload, self._bench.examination.slots) as inputs:
                        found = self._examine_workload(built, lineup, inputs)
                        reports += self._bench.reports(workload, found)
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
            return self._bench.first_deadline_s
        longest_s = self._bench.first_deadline_s
        return min(max(DEADLINE_FACTOR * max(known), LEAST_DEADLINE_S), longest_s)

    def _examine_workload(self, built: Built, lineup: Lineup[Any], inputs: Inputs) -> list[Finding]:
        """Findings of fresh draws, up to the first failure."""
        station = lineup.station(inputs, self._bench.examination)
        found: list[Finding] = []
        for _ in range(CHECKS):
            turn = station.turn([0], self.deadline_s(inputs.workload))
            found.append(station.examine())
            if found[-1].failure is not None:
                return found
            last_s = turn.segments[0].times_s[-1]
            self._time_s[built.library_sha256, inputs.workload.label] = last_s
        return found
