"""Writes the target file of a repository, after its commands ran once and its columns were read."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from roofsmith.analysis.statistics import least_observations
from roofsmith.api.first_runs import UNKNOWN, FirstRuns, first_runs, section_of
from roofsmith.api.subjects import checked_family
from roofsmith.config import Settings
from roofsmith.domain.command import CommandSection, CommandSpec, direction_of
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import default_keep, plain_name
from roofsmith.errors import BaselineError, TargetError
from roofsmith.ports import Observer
from roofsmith.repository.checkouts import (
    Repository,
    editable_sources,
    open_repository,
    require_clean,
    tracked_files,
)
from roofsmith.repository.column_guess import (
    guess_gate,
    guess_keys,
    guess_metric,
    guess_own_rows,
    guess_path,
    nearly_gate,
    result_columns,
    rows_of,
    tells_apart,
)
from roofsmith.repository.column_names import bracketed, meaning_of, rivalry
from roofsmith.repository.expressions import (
    DECIMAL_COMMAS,
    ExpressionError,
    Row,
    condition,
    formula,
    has_comma,
    holds,
    names,
)
from roofsmith.repository.judging.runs import Runs
from roofsmith.repository.named_paths import read_first
from roofsmith.repository.rows import BadRowsError, Reader, failing, summary_within
from roofsmith.targets.file import load_text
from roofsmith.targets.init import write_target
from roofsmith.targets.place import FILE_NAME
from roofsmith.targets.repository_init import Draft, repository_target

_UNKNOWN = "not-known-yet"
_METRIC_NAME = "the metric's name"
HEAVY_BUILD_S = 30.0
"""A build that takes longer, and longer than the benchmark, is what rounds wait for. Chosen."""
_BUILD_FILES = ("", ".mk", ".cmake", ".txt", ".sh", ".build", ".toml")
"""Suffixes of files that name what is built."""


@dataclass(frozen=True, slots=True)
class RepositoryInit:
    """What somebody says of a repository; what isn't said is guessed from its benchmark."""

    folder: Path
    said: Mapping[str, Any]
    """Keys of the target's `command` section."""
    name: str | None = None
    family: str | None = None
    threads: int | None = None
    """Which the commands are given as OMP_NUM_THREADS; None: all processors."""
    workspace: bool = False
    """Whether changes are to be tried with the files alone that the commands need."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Where changes are best tried: in the repository, or in a workspace of a few files."""

    mode: Literal["repo", "workspace"]
    reason: str
    files: tuple[str, ...]
    """That commands and kernel name, include or import: what a workspace would hold."""


@dataclass(frozen=True, slots=True)
class Initialized:
    """The file that was written, and what it means."""

    path: Path
    rows: int
    run_s: float
    """What one run of the benchmark took."""
    guessed: Mapping[str, str]
    """Keys that nobody said, and from what they were guessed."""
    values: Mapping[str, Any]
    """All keys that stand in it."""
    execution: Execution
    remarks: tuple[str, ...] = ()
    """What wasn't guessed, and is left to the reader."""

    @property
    def least_runs(self) -> int:
        """Runs of the benchmark that keeping a change takes at least: two sides, measured twice."""
        keep = default_keep("command")
        return 2 * sum(least_observations(one.error_rate) for one in (keep.first, keep))


def initialize_repository(
    wanted: RepositoryInit, force: bool, settings: Settings, observer: Observer
) -> Initialized:
    """Write `target.yaml` into a repository's folder.

    Raises:
        UsageError: there is no such family.
        TargetError: there is a target already; a value can't be used; what the benchmark writes
            can't be understood.
        BaselineError: a command fails.
        NoIdleGpuError: the commands use a GPU, and none is idle.
    """
    repository = open_repository(wanted.folder)
    path = repository.folder / FILE_NAME
    if path.exists() and not force:
        raise TargetError(f"{path} exists already", hint="--force replaces it")
    require_clean(repository, but=(path,))
    family = checked_family(wanted.family)
    told, marks = _directed(wanted.said)
    name = wanted.name or plain_name(Path(os.path.abspath(repository.folder)).name)  # noqa: PTH100
    first = first_runs(repository, name, told, settings, observer, wanted.threads)
    tables = [rows_of(run.table) for run in first.runs]
    execution = _execution(wanted, repository, first)
    said, guessed = _completed(first.values, {**marks, **first.sources}, tables, first.own)
    if wanted.workspace:
        said = {**said, "workspace": execution.files}
        _tried_alone(wanted, repository, name, said, settings, observer)
    section = section_of({"repo": ".", **said})
    readings = _understood(section, first.runs[0].texts)
    remarks = _remarks(said, tables[0])
    text = repository_target(Draft(name, section, family, guessed, remarks, wanted.threads))
    load_text(text, path)
    write_target(path, text, force=force)
    told_too = (*first.remarks, *remarks.values())
    return Initialized(path, readings, first.run_s, guessed, said, execution, told_too)


def _execution(wanted: RepositoryInit, repository: Repository, first: FirstRuns) -> Execution:
    """By what the build and the benchmark took; a sentence or an option decides otherwise."""
    section = section_of({"repo": ".", "metric": UNKNOWN, "rows": (UNKNOWN,), **first.values})
    tracked, own = frozenset(tracked_files(repository)), editable_sources(repository, section)
    naming, found = [*section.commands.values()], tuple[SourceFile, ...]()
    for _ in range(2):  # what the commands name, and what the build files among that name
        found = read_first(repository.folder, tracked, naming, own)
        naming += [one.text for one in found if Path(one.path).suffix in _BUILD_FILES]
    files, took = tuple(sorted(one.path for one in found)), f"the build took {first.build_s:.2g} s"
    if wanted.workspace:
        return Execution("workspace", f"asked for; {took}", files)
    if first.build_s > max(HEAVY_BUILD_S, first.run_s) and files:
        return Execution("workspace", f"{took}, a run of the benchmark {first.run_s:.2g} s", files)
    return Execution("repo", took, files)


def _tried_alone(
    wanted: RepositoryInit,
    repository: Repository,
    name: str,
    said: Mapping[str, Any],
    settings: Settings,
    observer: Observer,
) -> None:
    """Build, test and run the benchmark in a workspace: its files were guessed."""
    try:
        first_runs(repository, name, said, settings, observer, wanted.threads)
    except (BaselineError, TargetError) as error:
        alone = f"the files that the commands name don't do alone: {', '.join(said['workspace'])}"
        raise TargetError(
            f"{alone}: {error.message}", log=error.log,
            hint="leave --workspace out, and name what is missing in `command.workspace`",
        ) from error  # fmt: skip


def _directed(said: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """What was said, with direction and unit of a metric that was; from what they were guessed.

    Raises:
        TargetError: nothing says which way the metric is better.
    """
    values, guessed = dict(said), dict[str, str]()
    way = direction_of(values.get("unit", ""))
    if "direction" not in values and way is not None:
        values["direction"], guessed["direction"] = way, "the unit"
    if "metric" not in values:
        return values, guessed
    values["metric"] = metric = _as_column(values["metric"])
    meaning = meaning_of(metric)
    if "direction" not in values:
        if meaning is None:
            raise TargetError(
                f"--metric {said['metric']!r} doesn't say which way it is better",
                hint="--direction lower if less is better, --direction higher if more is",
            )
        values["direction"], guessed["direction"] = meaning.direction, _METRIC_NAME
    agrees = meaning is not None and meaning.direction == values["direction"]
    if "unit" not in values and meaning is not None and meaning.unit and agrees:
        values["unit"], guessed["unit"] = meaning.unit, _METRIC_NAME
    return values, guessed


def _as_column(metric: str) -> str:
    """A column's bare name as an expression names it: where it is no formula, or a label such as
    `time/ms` and `GB/s`.

    Raises:
        TargetError: it is a formula that can't be read.
    """
    try:
        parts = [found.name for found in names(formula(metric))]
    except ExpressionError as error:
        if "`" in metric or re.search(r"\s[-+*/]|[*(]\s*\[", metric):  # it was meant as one
            raise TargetError(f"--metric: {error}") from error
        return bracketed(metric[1:-1] if metric[0] + metric[-1] == "[]" else metric)
    is_label = len(parts) == 2 and re.fullmatch(r"[A-Za-z]+ */ *[A-Za-zµμ]+", metric)
    return f"[{metric}]" if is_label and meaning_of(f"[{metric}]") else metric


def _completed(
    said: Mapping[str, Any], marks: Mapping[str, str], runs: list[list[Row]], own: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """What was said, with guesses for the rest; and from what those and earlier ones were made.

    Raises:
        TargetError: there is nothing to guess from.
    """
    rows, again = runs
    if not rows:
        raise TargetError("the benchmark's CSV has no rows")
    if wrong := summary_within(rows, rows[0]):
        raise TargetError(f"the benchmark's rows can't be workloads: {wrong}")
    columns = ", ".join(rows[0])
    values, guessed = dict(said), dict(marks)
    is_open = not {"only", "rows", "classes"} & {*values}
    if is_open and (whose := guess_own_rows(rows, own)) is not None:
        if whose.own is None:
            raise TargetError(
                f"the column {whose.column!r} says whose result a row is:"
                f" {', '.join(whose.values)}; nobody can tell which of them is yours",
                hint=f"--only {shlex.quote(whose.condition)}, or --rows with {whose.column} in it"
                " if all of them are",
            )
        others = ", ".join(one for one in whose.values if one != whose.own)
        values["only"], guessed["only"] = whose.condition, f"its name; others: {others}"
    if "only" in values:
        rows, again = _counting(values["only"], rows), _counting(values["only"], again)
    if "metric" not in values:
        metric = guess_metric(rows, values.get("direction"), own)
        if metric is None:
            times = [name for name in rows[0] if meaning_of(bracketed(name))]
            if any(has_comma(row[name]) for row in rows for name in times):
                raise TargetError(f"a row is {', '.join(rows[0].values())}: {DECIMAL_COMMAS}")
            raise TargetError(
                f"no column looks like a time or a rate: {columns}",
                hint=f"--metric {_likely(rows, own)} --unit s for a time, or --unit GB/s for a"
                " rate; --direction says which way it is better where no unit does",
            )
        values["metric"] = bracketed(metric.column)
        for key, value in (("direction", metric.direction), ("unit", metric.unit)):
            if key not in values and value:
                values[key], guessed[key] = value, _METRIC_NAME
        others = f"; others: {', '.join(metric.others)}" if metric.others else ""
        guessed["metric"] = f"its name{others}"
    if "gate" not in values and (gate := guess_gate(rows)):
        values["gate"], guessed["gate"] = gate, "its name, and because all rows meet it"
    if not {"path", "classes", "rows"} & {*values} and (path := guess_path(rows, again)):
        values["path"], guessed["path"] = path, "its name: it says which kernel a row went to"
    if "rows" not in values and not tells_apart(rows, values.get("classes", ())):
        taken = result_columns(rows, values["metric"], values.get("gate"))
        taken += (values["path"],) if "path" in values else ()
        classes = values.get("classes", ())
        keys = guess_keys(rows, again, taken)
        values["rows"] = tuple(key for key in keys if key not in classes)
        if len(rows) > 1 and not tells_apart(rows, (*classes, *keys)):
            raise TargetError(
                f"no columns pair the rows of two runs: {columns}",
                hint="--rows A,B names those that tell rows apart",
            )
        guessed["rows"] = "columns that two runs have in common"
        if not keys:
            guessed["rows"] = "there being one row"
    return values, guessed


def _counting(only: str, rows: list[Row]) -> list[Row]:
    """Rows that meet a condition.

    Raises:
        TargetError: it can't be read, or no row meets it.
    """
    try:
        parsed = condition(only)
        found = [row for row in rows if holds(parsed, row)]
    except ExpressionError as error:
        raise TargetError(f"--only: {error}") from error
    if not found:
        raise TargetError(
            f"no row meets --only {only!r}", hint=f"a row is {', '.join(rows[0].values())}"
        )
    return found


def _likely(rows: list[Row], own: Collection[str]) -> str:
    """Of columns whose names say nothing, the one that most probably is the user's result."""
    measured = [name for name in rows[0] if any("." in row[name] for row in rows)]
    name = min(reversed(measured or [*rows[0]]), key=lambda one: rivalry(one, own))
    return shlex.quote(bracketed(name))


def _remarks(said: Mapping[str, Any], rows: list[Row]) -> dict[str, str]:
    """What may be meant, and is too uncertain to guess."""
    if "gate" in said or (found := nearly_gate(rows)) is None:
        return {}
    name, largest = found
    return {
        "gate": f"no gate: {name} is at most {largest:g}; if it is the error of results, one such"
        f" as `gate: {bracketed(name)} <= {2 * largest:.1g}` sees to it that it stays so"
    }


def _understood(section: CommandSection, texts: Sequence[str]) -> int:
    """How many rows there are, read as the target says.

    Raises:
        TargetError: they can't be read so, or don't pass.
    """
    try:
        spec = CommandSpec.model_validate(section.model_dump())
        reader = Reader.of(spec)
        readings = reader.read(Runs(spec, reader, Path()).table(texts))
    except ExpressionError as error:
        raise TargetError(str(error)) from error
    except BadRowsError as error:
        raise TargetError(f"the benchmark's CSV doesn't fit: {error}") from error
    if fault := failing(readings):
        raise TargetError(
            f"the repository as it is can't be a baseline: {fault}",
            hint="every row has to meet --gate, and --metric to be a positive number in each",
        )
    return len(readings)
