"""One run of a repository's test or benchmark in a checkout, and what it came to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.analysis.benchmark_rows import (
    BadRowsError,
    Reader,
    Reading,
    changed_rows,
    csv_within,
    failing,
)
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed, Failure, Incorrect, TimedOut
from roofsmith.shell import Ran, run_shell

MAX_CSV_BYTES = 64 * 1024**2
_SHOWN = 5


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
        if ran.passed:
            self._tested.add(built.library)
            return None
        if ran.stopped:
            return TimedOut(reason="test_deadline", detail=ran.told(), log=ran.log)
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
        if ran.stopped:
            return TimedOut(reason="benchmark_deadline", detail=ran.told(), log=ran.log)
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

    def printed(self, built: Built) -> tuple[Ran, str | BadRowsError]:
        """Run the benchmark once; the CSV that it gave, or why there is none."""
        before = self._clear(built.library)
        ran = self._run(built, self.spec.benchmark, "benchmark", self.spec.benchmark_deadline_s)
        try:
            return ran, self._results(built.library, before, ran)
        except BadRowsError as error:
            return ran, error

    def _run(self, built: Built, command: str, what: str, deadline_s: float) -> Ran:
        folder = self.logs / built.candidate_id
        prints_rows = what == "benchmark" and self.spec.results is None
        return run_shell(
            command, directory=built.library, environment=built.environment,
            deadline_s=deadline_s, log=folder / f"{what}.log",
            output=folder / f"{what}.csv" if prints_rows else None,
        )  # fmt: skip

    def _clear(self, folder: Path) -> dict[Path, int]:
        """Remove results of earlier runs; what can't be removed is told by its time stamp."""
        for path in self._found(folder):
            path.unlink(missing_ok=True)
        return {path: path.stat().st_mtime_ns for path in self._found(folder)}

    def _results(self, folder: Path, before: dict[Path, int], ran: Ran) -> str:
        if self.spec.results is None:
            return csv_within(_text(ran.output), self.spec.keys)
        written = [
            path for path in self._found(folder) if path.stat().st_mtime_ns != before.get(path)
        ]
        if not written:
            raise BadRowsError(f"it wrote no file {self.spec.results}{_others(folder)}")
        return _text(max(written, key=lambda path: path.stat().st_mtime_ns))

    def _found(self, folder: Path) -> list[Path]:
        glob = self.spec.results
        return [] if glob is None else [path for path in folder.glob(glob) if path.is_file()]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_CSV_BYTES:
            raise BadRowsError(f"{path.name} has more than {MAX_CSV_BYTES // 1024**2} MiB")
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise BadRowsError(f"{path} can't be read: {error.strerror}") from error


def _others(folder: Path) -> str:
    """CSVs that lie elsewhere in a checkout, for whoever wrote the wrong pattern."""
    found = list(_csvs(folder))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"; there are {', '.join(found[:_SHOWN])}{more}" if found else "; there is no CSV at all"


def _csvs(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in sorted(files):
            if name.endswith(".csv"):
                yield os.path.relpath(Path(parent, name), folder)
