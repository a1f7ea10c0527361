"""First runs of a repository's commands: those that were said, else what its build files give."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from roofsmith.api.hardware import leased_machine
from roofsmith.api.repositories import (
    RepositoryParts,
    noticing_gpu_use,
    open_target_repository,
    pass_through,
    unfit,
)
from roofsmith.config import Settings
from roofsmith.domain.command import CommandSection, CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import HOST_LANGUAGES, Target, device_language
from roofsmith.errors import BaselineError, TargetError
from roofsmith.ports import Gate, Observer
from roofsmith.repository.build_files import Key, proposals
from roofsmith.repository.checkouts import Repository, editable_sources, tracked_files
from roofsmith.repository.column_guess import guess_metric, rows_of
from roofsmith.repository.column_names import words_of
from roofsmith.repository.judging.runs import Runs, not_ended
from roofsmith.repository.line_patterns import nearest_lines
from roofsmith.repository.printed_table import csv_within, is_csv, tables_within
from roofsmith.repository.rows import BadRowsError
from roofsmith.repository.submodules import absent_submodules
from roofsmith.targets.command import unreadable

UNKNOWN: Final = "not-known-yet"
_GUESSED_TEST_S: Final = 300.0
"""A test that nobody named is taken only if it ends in this time: every candidate is to pass it.
Chosen."""
_NOT_BUILT: Final = (
    "commands run in a clean checkout of the commit, where nothing is built: --build COMMAND"
)


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One run of the benchmark."""

    texts: tuple[str, ...]
    """Its file, or what it printed."""
    table: str
    """What is probably its table, as a CSV."""
    wall_s: float
    build_s: float
    """Of the build before it."""


@dataclass(frozen=True, slots=True)
class FirstRuns:
    """What was run, and gave."""

    values: Mapping[str, Any]
    """Keys of the `command` section: what was said, and the proposals that work."""
    sources: Mapping[str, str]
    """Keys of proposals among them, and the files that these are from."""
    remarks: tuple[str, ...]
    """Proposals that don't work."""
    runs: Sequence[TrialRun]
    run_s: float
    """What one run of the benchmark takes."""
    build_s: float
    own: Collection[str]
    """Words of what the repository and its kernels are called."""


class _FailingError(Exception):
    """A command fails; which one."""

    def __init__(self, key: Key, error: BaselineError | TargetError) -> None:
        super().__init__(key)
        self.key: Key = key
        self.error = error


def section_of(values: Mapping[str, Any]) -> CommandSection:
    """The target's section.

    Raises:
        TargetError: a value can't be used.
    """
    try:
        return CommandSection.model_validate(values)
    except ValidationError as error:
        complaint = error.errors()[0]
        where = ".".join(map(str, complaint["loc"]))
        said = complaint["msg"].removeprefix("Value error, ")
        raise TargetError(f"{where}: {said}" if where else said) from error


def first_runs(
    repository: Repository,
    name: str,
    said: Mapping[str, Any],
    settings: Settings,
    observer: Observer,
    threads: int | None = None,
) -> FirstRuns:
    """Build, test, and run the benchmark twice; proposals are tried in turn.

    Raises:
        TargetError: a value can't be used; nothing names a benchmark; what it writes can't be
            understood.
        BaselineError: a command fails.
        NoIdleGpuError: the commands use a GPU, and none is idle.
    """
    offers = proposals(repository.folder, tracked_files(repository), said)
    if "benchmark" not in said and "benchmark" not in offers:
        raise TargetError(
            f"--benchmark is missing, and nothing in {repository.folder} gives one: no Makefile,"
            " CMakeLists.txt, Cargo.toml, meson.build or pyproject.toml, and no script's name",
            hint="--benchmark COMMAND measures and prints a table; --build COMMAND comes before",
        )
    values, sources, remarks = dict(said), dict[str, str](), list[str]()
    first: BaselineError | TargetError | None = None

    def take(key: Key) -> None:
        values.pop(key, None)
        sources.pop(key, None)
        if offers.get(key):
            offer = offers[key].pop(0)
            values[key], sources[key] = offer.command, offer.source

    for key in offers:
        take(key)
    while True:
        try:
            runs, own = _tried(repository, name, values, sources, settings, observer, threads)
        except _FailingError as failing:
            key = failing.key
            if key == "benchmark":
                first = first or failing.error
            if key not in sources or (key == "benchmark" and not offers[key]):
                error = first or failing.error
                error.hint = absent_submodules(repository.top) or error.hint
                raise error from failing
            why = failing.error.message.partition("\n")[0]
            remarks.append(f"not taken: {key} `{values[key]}`, from {sources[key]}: {why}")
            take(key)
        else:
            wall_s = min(run.wall_s for run in runs)
            return FirstRuns(values, sources, tuple(remarks), runs, wall_s, runs[0].build_s, own)


def _tried(
    repository: Repository,
    name: str,
    values: Mapping[str, Any],
    sources: Collection[str],
    settings: Settings,
    observer: Observer,
    threads: int | None,
) -> tuple[list[TrialRun], Collection[str]]:
    section = section_of({"repo": ".", "metric": UNKNOWN, "rows": (UNKNOWN,), **values})
    if fault := unreadable(section):
        key, message, hint = fault
        raise TargetError(f"--{key}: {message}", hint=hint)
    try:
        kernel, *others = editable_sources(repository, section)
    except TargetError as error:
        raise _FailingError("benchmark", error) if "benchmark" in sources else error from error
    changes = {"repo": str(repository.folder), "commit": repository.commit}
    deadline = {"test_deadline_s": _GUESSED_TEST_S} if "test" in sources else {}
    spec = CommandSpec.model_validate(section.model_dump() | changes | deadline)
    target = Target(
        name=name, language="command", kernel=kernel, includes=tuple(others), command=spec,
        threads=threads,
    )  # fmt: skip
    own = words_of((name, *(Path(source.path).stem for source in (kernel, *others))))
    with (
        gate_for(target, settings, observer) as gate,
        open_target_repository(target, settings) as parts,
        noticing_gpu_use(spec),
    ):
        return _two_runs(parts, target, observer, gate, own), own


@contextmanager
def gate_for(target: Target, settings: Settings, observer: Observer) -> Iterator[Gate | None]:
    """In front of the GPU that was leased for the commands; None where they use none."""
    language = device_language(target)
    if language in HOST_LANGUAGES:
        yield None
        return
    with leased_machine(settings, language, observer) as machine:
        yield machine.gate


def _two_runs(
    parts: RepositoryParts,
    target: Target,
    observer: Observer,
    gate: Gate | None,
    own: Collection[str],
) -> list[TrialRun]:
    """Two runs of the benchmark, once everything is built and tested."""
    observer.stage("build", parts.spec.build or "nothing to build")
    built = parts.toolchain.build(target.baseline)
    if isinstance(built, BuildFailed):
        raise _FailingError("build", unfit(built))
    pass_through(gate)
    observer.stage("check", parts.spec.test or "no test")
    if failure := parts.runs.test(built):
        raise _FailingError("test", unfit(failure))
    runs = []
    for number in (1, 2):
        pass_through(gate)
        observer.stage("check", f"{parts.spec.benchmark}, run {number} of 2")
        try:
            runs.append(_one_run(parts, built, own))
        except (BaselineError, TargetError) as error:
            raise _FailingError("benchmark", error) from error
    return runs


def _one_run(parts: RepositoryParts, built: Built, own: Collection[str]) -> TrialRun:
    ran, texts = parts.runs.written(built)
    if failure := not_ended(ran):
        raise unfit(failure)
    if not ran.passed:
        hint = None if parts.spec.build else _NOT_BUILT
        raise TargetError(f"the benchmark fails:\n{ran.told()}", log=ran.log, hint=hint)
    try:
        if isinstance(texts, BadRowsError):
            raise texts
        table = _table(parts.spec, parts.runs, texts, own)
    except BadRowsError as error:
        said = () if isinstance(texts, BadRowsError) else texts
        quoted, pattern = nearest_lines("\n".join(said))
        lines = "".join(f"\n  | {line}" for line in quoted)
        raise TargetError(
            f"`{ran.command}` ended well, but {error}{'; it printed' * bool(lines)}{lines}",
            log=ran.log,
            hint=f"--pattern {shlex.quote(pattern)} reads lines such as the first"
            if pattern
            else "--results 'results/*.csv' names the file that it writes; a line such as `us: 1.5`"
            " would do, and --pattern 'took (?P<time>[0-9.]+ ms)' finds any other",
        ) from error
    return TrialRun(texts, table, ran.wall_s, built.build_time_s)


def _table(spec: CommandSpec, runs: Runs, texts: Sequence[str], own: Collection[str]) -> str:
    """The table that has what was said, or else the user's own time or rate.

    Raises:
        BadRowsError: there is none.
    """
    if spec.pattern is not None:
        return runs.table(texts)
    wanted = () if spec.metric == UNKNOWN else runs.reader.columns
    keys = () if UNKNOWN in spec.keys else spec.keys
    found = list[str]()
    for text in texts:
        whole = (text,) if spec.results is not None and is_csv(text) else ()
        for table in chain(whole, tables_within(text)):
            rows = rows_of(table)
            if rows and {*keys, *wanted} <= {*rows[0]} and (wanted or guess_metric(rows, own=own)):
                return table
            found.append(table)
    if wanted:
        return csv_within(texts[0], keys, wanted)
    if not found:
        raise BadRowsError("printed no table" if spec.results is None else "its file holds none")
    if nearest_lines("\n".join(texts))[1] is not None:  # what has a unit stands elsewhere
        raise BadRowsError("its tables hold neither a time nor a rate")
    return found[0]
