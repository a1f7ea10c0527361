"""One run of a repository's test or benchmark in a checkout, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed, Failure, Incorrect, TimedOut
from roofsmith.repository.printed_table import csv_within
from roofsmith.repository.rows import BadRowsError, Reader, Reading, changed_rows, failing
from roofsmith.result_files import NoResultError, ResultFiles, read
from roofsmith.shell import ShellRan, run_shell


@dataclass(frozen=True, slots=True)
class Benchmarked:
    """A run of the benchmark whose rows all pass."""

    readings: tuple[Reading, ...]
    wall_s: float
    """Of the whole command, by our own clock."""


@dataclass(slots=True)
class Runs:
    """Runs the frozen commands of one target."""

    spec: CommandSpec
    reader: Reader
    logs: Path
    """A folder in it for each candidate."""
    _tested: set[Path] = field(default_factory=set)
    """Checkouts whose test has passed; they don't change."""

    def test(self, built: Built) -> Failure | None:
        """Run the test; how it failed, if it did."""
        if self.spec.test is None or built.library in self._tested:
            return None
        ran = self._run(built, self.spec.test, "test", self.spec.test_deadline_s)
        if failure := not_ended(ran, is_test=True):
            return failure
        if ran.passed:
            self._tested.add(built.library)
            return None
        return Incorrect(reason="test_failed", detail=ran.told(), log=ran.log)

    def benchmark(
        self, built: Built, expected: Sequence[str] | None = None
    ) -> Benchmarked | Failure:
        """Run the benchmark once.

        Args:
            built: the candidate.
            expected: labels of the rows that there must be; None: any rows will do.
        """
        ran, text = self.printed(built)
        if failure := not_ended(ran):
            return failure
        try:
            if isinstance(text, BadRowsError):
                raise text
            readings = self.reader.read(text)
        except BadRowsError as error:
            if not ran.passed:
                return Crashed(reason="benchmark_failed", detail=ran.told(), log=ran.log)
            what = f"`{ran.command}` ended well, but its results can't be used: {error}"
            return Crashed(reason="bad_results", detail=what, log=ran.log)
        if wrong := failing(readings):
            return Incorrect(reason="gate_failed", detail=wrong, log=ran.log)
        if not ran.passed:
            return Crashed(reason="benchmark_failed", detail=ran.told(), log=ran.log)
        if expected is not None and (other := changed_rows(expected, readings)):
            return Cheated(reason="rows_changed", detail=other, log=ran.log)
        return Benchmarked(readings, ran.wall_s)

    def printed(self, built: Built) -> tuple[ShellRan, str | BadRowsError]:
        """Run the benchmark once; the CSV that it gave, or why there is none."""
        files = None
        if self.spec.results is not None:
            files = ResultFiles(built.library, self.spec.results, "results")
        command, deadline_s = self.spec.benchmark, self.spec.benchmark_deadline_s
        ran = self._run(built, command, "benchmark", deadline_s)
        try:
            return ran, self._results(files, ran)
        except BadRowsError as error:
            return ran, error

    def _run(self, built: Built, command: str, what: str, deadline_s: float) -> ShellRan:
        folder = self.logs / built.candidate_id
        prints_rows = what == "benchmark" and self.spec.results is None
        return run_shell(
            command, directory=built.library, environment=built.environment,
            deadline_s=deadline_s, log=folder / f"{what}.log",
            output=folder / f"{what}.csv" if prints_rows else None,
        )  # fmt: skip

    def _results(self, files: ResultFiles | None, ran: ShellRan) -> str:
        try:
            if files is not None:
                return files.text()
            printed = read(ran.output)
        except NoResultError as error:
            raise BadRowsError(str(error)) from error
        return csv_within(printed, self.spec.keys, self.reader.columns)


def not_ended(ran: ShellRan, *, is_test: bool = False) -> Failure | None:
    """Of a test or benchmark that was stopped, or ended and left others running."""
    if ran.stopped:
        reason = "test_deadline" if is_test else "benchmark_deadline"
        return TimedOut(reason=reason, detail=ran.told(), log=ran.log)
    if ran.left:
        detail = f"`{ran.command}` had ended, and left {ran.leftovers}"
        return Cheated(reason="leftover_process", detail=detail, log=ran.log)
    return None
