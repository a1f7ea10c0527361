"""One run of a repository's test or benchmark in a checkout, and what it came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed, Failure, Incorrect, TimedOut, Unstable
from roofsmith.domain.workload import Workload
from roofsmith.repository.column_names import is_count
from roofsmith.repository.dialects import matched
from roofsmith.repository.printed_table import NoTableError, csv_of_file, csv_within
from roofsmith.repository.rows import (
    BadRowsError,
    Reader,
    Reading,
    changed_keys,
    changed_rows,
    failing,
)
from roofsmith.result_files import NoResultError, ResultFiles, leave, read
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
    few: tuple[Workload, ...] = ()
    """Rows that are looked at alone, by the quick command; none: all, by the benchmark."""
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
        self, built: Built, expected: Sequence[Workload] | None = None, *, is_baseline: bool = False
    ) -> Benchmarked | Failure:
        """Run the benchmark once.

        Args:
            built: the candidate.
            expected: the rows that there must be; None: any rows will do.
            is_baseline: whether nothing was changed, so that other rows are the target's mistake.
        """
        ran, texts = self.written(built)
        if failure := not_ended(ran):
            return failure
        try:
            if isinstance(texts, BadRowsError):
                raise texts
            readings = self.reader.read(self.table(texts))
        except BadRowsError as error:
            if not ran.passed:
                return Crashed(reason="benchmark_failed", detail=ran.told(), log=ran.log)
            what = f"`{ran.command}` ended well, but its results can't be used: {error}"
            return Crashed(reason="bad_results", detail=what, log=ran.log)
        if wrong := failing(readings):
            return Incorrect(reason="gate_failed", detail=wrong, log=ran.log)
        if not ran.passed:
            return Crashed(reason="benchmark_failed", detail=ran.told(), log=ran.log)
        labels = [workload.label for workload in self.few or expected or ()]
        if self.few:  # it may print more than it was asked for
            readings = tuple(one for one in readings if one.label in labels)
        if expected is not None and (other := changed_rows(labels, readings)):
            changed = changed_keys(expected, readings)
            if is_baseline or (changed and all(is_count(key) for key in changed)):
                detail = (
                    f"`rows` names {', '.join(changed)}, which changes from run to run: {other}"
                )
                return Unstable(reason="wrong_key", detail=detail, log=ran.log)
            return Cheated(reason="rows_changed", detail=other, log=ran.log)
        return Benchmarked(readings, ran.wall_s)

    def written(self, built: Built) -> tuple[ShellRan, tuple[str, ...] | BadRowsError]:
        """Run the benchmark once; its file, or what it printed on stdout and stderr."""
        files = None
        if self.spec.results is not None:
            files = ResultFiles(built.library, self.spec.results, "results")
        command, deadline_s = self.spec.benchmark, self.spec.benchmark_deadline_s
        if self.few and self.spec.quick is not None:
            command = self.spec.quick
        ran = self._run(built, command, "benchmark", deadline_s)
        try:
            if files is None:
                return ran, (read(ran.output), _errors(ran))
            leave(self.logs, built.candidate_id, "benchmark.csv", text := files.text())
            return ran, (text,)
        except NoResultError as error:
            return ran, BadRowsError(str(error))

    def table(self, texts: Sequence[str]) -> str:
        """The CSV in what a run wrote: in the first text that has the columns.

        Raises:
            BadRowsError: there is none, or more than one.
        """
        if self.spec.pattern is not None:
            if found := matched(self.spec.pattern, "\n".join(texts)):
                return found
            raise BadRowsError(f"no line matches `pattern`, {self.spec.pattern!r}")
        keys, columns = self.spec.keys, self.reader.columns
        if self.spec.results is not None:
            return csv_of_file(texts[0], keys, columns)
        missing = list[NoTableError]()
        for text in texts:
            try:
                return csv_within(text, keys, columns)
            except NoTableError as error:
                missing.append(error)
        raise missing[0]

    def _run(self, built: Built, command: str, what: str, deadline_s: float) -> ShellRan:
        folder = self.logs / built.candidate_id
        prints_rows = what == "benchmark" and self.spec.results is None
        return run_shell(
            command, directory=built.library, environment=built.environment | self._asked(),
            deadline_s=deadline_s, log=folder / f"{what}.log",
            output=folder / f"{what}.csv" if prints_rows else None,
        )  # fmt: skip

    def _asked(self) -> dict[str, str]:
        rows = [{**row.dims, **row.tags} for row in self.few]
        return {"ROOFSMITH_ROWS": json.dumps(rows)} if self.few else {}


def _errors(ran: ShellRan) -> str:
    """What it printed on stderr, where a few benchmarks print results and many print far more."""
    try:
        return read(ran.log)
    except NoResultError:
        return ""


def not_ended(ran: ShellRan, *, is_test: bool = False) -> Failure | None:
    """Of a test or benchmark that was stopped, or ended and left others running."""
    if ran.stopped:
        reason = "test_deadline" if is_test else "benchmark_deadline"
        return TimedOut(reason=reason, detail=ran.told(), log=ran.log)
    if ran.left:
        detail = f"`{ran.command}` had ended, and left {ran.leftovers}"
        return Cheated(reason="leftover_process", detail=detail, log=ran.log)
    return None
