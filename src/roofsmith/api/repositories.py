"""What a command target is wired of, and its first look: frozen files, and the rows there are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.api.clocks import say
from roofsmith.config import Settings
from roofsmith.domain.command import CommandSpec, EditableShare
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Cheated, Failure, TimedOut, Unstable
from roofsmith.domain.profile import KERNEL_TIME, ProfiledKernel
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.records import wrong_key
from roofsmith.engine.survey import Survey
from roofsmith.errors import BaselineError, MachineError, StorageError, TargetError
from roofsmith.machine.idle import sampled
from roofsmith.machine.processes import GPU_FILES, OwnProcesses
from roofsmith.ports import Formatter, Gate, Merger, Observer
from roofsmith.repository.builds import CommandToolchain
from roofsmith.repository.checkouts import GitCheckouts, require_clean
from roofsmith.repository.judging.judge import CommandJudge, Whole
from roofsmith.repository.judging.oracle import RowOracle
from roofsmith.repository.judging.runs import Benchmarked, Runs
from roofsmith.repository.merge_hook import HookMerger
from roofsmith.repository.named_paths import read_first
from roofsmith.repository.profiler import CommandProfiler
from roofsmith.repository.reach import who_notices
from roofsmith.repository.rows import Reader, summary_within
from roofsmith.repository.share import by_kernels, editable_share
from roofsmith.repository.submodules import absent_submodules
from roofsmith.scratch import noexec_mount, scratch_directory
from roofsmith.store.files import storage_errors
from roofsmith.targets.place import FILE_NAME
from roofsmith.toolchains.formatting import SourceFormatter
from roofsmith.wording import some_of

_READ_FIRST = ("test", "benchmark", "quick")
"""Commands whose files say what a change has to keep to."""


@dataclass(frozen=True, slots=True)
class RepositoryParts:
    """The parts of one command target."""

    spec: CommandSpec
    checkouts: GitCheckouts
    """Of the workspace, where the target has one."""
    whole: GitCheckouts | None
    """Of the whole repository, where the others are a workspace."""
    toolchain: CommandToolchain
    runs: Runs
    profiler: CommandProfiler
    oracle: RowOracle
    merger: Merger
    root: Path
    """Of checkouts; removed at the end."""

    def formatter(self, target: Target) -> Formatter | None:
        """What formats candidates; the repository's own command does so in checkouts of its own."""
        if target.format is None:
            return None
        checkouts = GitCheckouts(self.spec, self.root / "formatted")
        return SourceFormatter(target.format, lambda one: checkouts.make(one)[0]).format

    def judge(self, target: Target, known: Survey) -> CommandJudge:
        """Who decides about candidates."""
        timer = None if self.spec.profile is None else self.profiler
        whole = None
        if self.whole is not None:
            whole = Whole(self.toolchain.in_repository, self.whole)
        return CommandJudge(
            target, self.runs, self.checkouts, known.classes, known.bounds, timer, whole
        )

    def surveyed(
        self, target: Target, observer: Observer, gate: Gate | None = None
    ) -> tuple[Target, EditableShare | None]:
        """The target with its workloads, and with what is frozen; as it is if it has them. And how
        much of its benchmark may be edited; None where that is in the campaign's first record.

        Builds the repository as it is, and runs its test and its benchmark once.

        Args:
            target: whose repository it is.
            observer: hears what runs.
            gate: in front of the GPU that the commands use; None: they use none.

        Raises:
            NoIdleGpuError: others stayed on the GPU for too long.
            TargetError: the repository has changes that aren't committed.
            BaselineError: a command fails, or what the benchmark writes can't be used.
            StorageError: the repository isn't what it was when the campaign began.
        """
        if self.spec.frozen:
            self._require_unchanged(target)
            return target, None
        whole = self.whole or self.checkouts
        require_clean(whole.repository, but=(whole.repository.folder / FILE_NAME,))
        observer.stage("build", self.spec.build or "nothing to build")
        extracted = _passed(self.toolchain.build(target.baseline))
        run = self._first_run(_passed(self.toolchain.in_repository(extracted)), observer, gate)
        workloads = tuple(reading.workload for reading in run.readings)
        observer.stage("check", "the benchmark, once more, sampled")
        kernels = self._profiled(extracted, workloads, gate)
        share = self._share(target, extracted, kernels, run.wall_s)
        say(share.sentence)
        volatile = set(whole.changed(target.baseline.id))
        if self.whole is not None:
            observer.stage("check", "the same in the workspace")
            self._first_run(extracted, observer, gate, workloads)
            volatile |= set(self.checkouts.changed(target.baseline.id))
        noticed_by = self._noticed(target, extracted, workloads, observer, gate)
        files = self.checkouts.files() if self.whole is not None else ()
        known = {
            "volatile": tuple(sorted(volatile)), "extracted": files, "noticed_by": noticed_by,
        }  # fmt: skip
        spec = self.spec.model_copy(update=known)
        self._adopt(spec)
        spec = spec.model_copy(update={"frozen": whole.frozen_hash()})
        self._adopt(spec)
        # Through validation: two rows may differ in more than the keys allow.
        first = read_first(
            extracted.library, self.checkouts.inside(),
            [spec.commands[key] for key in _READ_FIRST if key in spec.commands],
            target.baseline.sources,
        )  # fmt: skip
        found = dict(target) | {
            "command": spec, "workloads": workloads, "reference_files": first,
        }  # fmt: skip
        return Target.model_validate(found), share

    def _profiled(
        self, built: Built, rows: Sequence[Workload], gate: Gate | None
    ) -> Sequence[ProfiledKernel]:
        """The kernels of a run under the target's own profiler, where it names one.

        Raises:
            TargetError: it gives no time, so that it could confirm no gain.
        """
        if self.spec.profile is None:
            return ()
        pass_through(gate)
        found = self.profiler.profile(built, rows[0])
        if found.get(KERNEL_TIME) is not None:
            return found.kernels
        raise TargetError(
            f"the target's profiler gives no kernel time, so nothing could be kept:"
            f" {found.notes[0]}",
            hint="have `command.profile` work by hand here, its profiler in PATH; or take it out of"
            " the target, and the script's number decides alone",
        )

    def _share(
        self, target: Target, built: Built, kernels: Sequence[ProfiledKernel], wall_s: float
    ) -> EditableShare:
        log, sources = self.root / "share.log", target.baseline.sources
        of_gpu = by_kernels(kernels, [source.text for source in sources])
        if self.spec.device != "cpu":
            return of_gpu
        found = editable_share(built, self.spec.benchmark, sources, wall_s, log)
        # A target that leaves its GPU unsaid is profiled all the same.
        return of_gpu if found.unknown and not of_gpu.unknown else found

    def _noticed(
        self,
        target: Target,
        built: Built,
        rows: Sequence[Workload],
        observer: Observer,
        gate: Gate | None,
    ) -> str:
        """Which command fails once the editable files are broken.

        Raises:
            TargetError: none does, so that nothing of what is edited is measured.
        """
        pass_through(gate)
        observer.stage("check", "the benchmark with the editable files broken: it has to fail")
        parts = self.toolchain, self.checkouts, self.runs
        noticed_by = who_notices(target.baseline, built, *parts, rows)
        editable = some_of([source.path for source in target.baseline.sources])
        if noticed_by is None:
            raise TargetError(
                f"with {editable} broken, `{self.spec.benchmark}` gives the same rows: it measures"
                " something else, such as an installed copy, a binary built before, or files that"
                " the build doesn't name",
                hint="have the commands run what lies in the checkout: `PYTHONPATH=src` or an"
                " install in `build`, the program by its path there, the file in the Makefile; or"
                " name the files that are measured under `editable`",
            )
        if noticed_by == "test":
            say(
                f"WARNING: with {editable} broken only the test fails, and `{self.spec.benchmark}`"
                " gives the same rows: does it measure them?"
            )
        return noticed_by

    def _first_run(
        self,
        built: Built,
        observer: Observer,
        gate: Gate | None,
        expected: Sequence[Workload] | None = None,
    ) -> Benchmarked:
        pass_through(gate)
        observer.stage("check", "the test")
        if failure := self.runs.test(built):
            raise unfit(failure)
        pass_through(gate)
        observer.stage("check", "the benchmark, once")
        run = self.runs.benchmark(built, expected, is_baseline=True)
        if not isinstance(run, Benchmarked):
            raise wrong_key(run) if run.reason == "wrong_key" else unfit(run)
        if wrong := summary_within([one.row for one in run.readings], self.spec.keys):
            raise TargetError(f"the benchmark's rows can't be workloads: {wrong}")
        return run

    def _adopt(self, spec: CommandSpec) -> None:
        for checkouts in filter(None, (self.checkouts, self.whole)):
            checkouts.adopt(spec)

    def _require_unchanged(self, target: Target) -> None:
        whole = self.whole or self.checkouts
        whole.make(target.baseline)
        if whole.frozen_hash() != self.spec.frozen:
            raise StorageError(
                f"{self.spec.repo} gives other files for commit {self.spec.commit[:12]} than when"
                " the campaign began",
                hint="a submodule, a git attribute or what is sparse changed; restore it, or start"
                " a new campaign",
            )


@contextmanager
def open_target_repository(target: Target, settings: Settings) -> Iterator[RepositoryParts]:
    """The parts of a command target; its checkouts are removed at the end.

    Raises:
        TargetError: the repository is gone.
    """
    spec = target.command
    assert spec is not None, "only for command targets"
    if target.threads is not None:
        wanted = {"OMP_NUM_THREADS": str(target.threads)}
        spec = spec.model_copy(update={"environment": wanted | spec.environment})
    root = scratch_directory("checkout", settings.private_dir or _runnable(settings.cache_dir))
    logs = settings.left_dir
    try:
        checkouts = GitCheckouts(spec, root / "all")
        toolchain, whole = CommandToolchain(spec, checkouts, logs), None
        if spec.workspace:
            whole, checkouts = checkouts, GitCheckouts(spec, root / "few", whole=False)
            toolchain = CommandToolchain(spec, checkouts, logs, toolchain)
        parts = RepositoryParts(
            spec=spec,
            checkouts=checkouts,
            whole=whole,
            toolchain=toolchain,
            runs=Runs(spec, Reader.of(spec), logs),
            profiler=CommandProfiler(spec, logs),
            oracle=RowOracle(spec),
            merger=HookMerger(spec, checkouts, logs).merge,
            root=root,
        )
        try:
            yield parts
        except (BaselineError, TargetError) as error:
            error.hint = absent_submodules(checkouts.repository.top) or error.hint
            raise
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _runnable(cache: Path) -> Path | None:
    """Where checkouts lie: the cache if the temporary folder is mounted noexec; None: there.

    Raises:
        MachineError: so is the cache.
    """
    temporary = Path(tempfile.gettempdir())
    if (mount := noexec_mount(temporary)) is None:
        return None
    if noexec_mount(cache) is not None:
        raise MachineError(
            f"{mount} is mounted noexec, and so is the cache {cache}: nothing of a checkout could"
            " be run",
            hint="export TMPDIR=/some/writable/folder",
        )
    with storage_errors("make", cache):
        cache.mkdir(parents=True, exist_ok=True)
    return cache


def pass_through(gate: Gate | None) -> None:
    """Before a command that uses a GPU; where none does, nobody is waited for.

    Raises:
        NoIdleGpuError: others stayed on the GPU for too long.
    """
    if gate is not None:
        gate.pass_through()


def without_family(target: Target) -> Target:
    """The target without its operator's formulas: no bound in seconds holds for its metric."""
    return target.model_copy(update={"family": None})


def _passed(built: Built | BuildFailed) -> Built:
    if isinstance(built, BuildFailed):
        raise unfit(built)
    return built


_ITS_OWN = (Cheated, TimedOut, Unstable)
"""Failures that speak of the commands, not of the kernel."""


def unfit(failure: Failure) -> BaselineError | TargetError:
    """The repository as it is fails: say how. Nobody cheats who is only held against itself."""
    what = f"{failure.kind.replace('_', ' ')} ({failure.reason})"
    if isinstance(failure, Cheated):
        what = failure.reason.replace("_", " ")
    error = TargetError if isinstance(failure, _ITS_OWN) else BaselineError
    return error(
        f"the repository as it is can't be the baseline: {what}\n{failure.detail}",
        log=failure.log,
        hint=_CURES.get(
            failure.reason,
            "run the command there by hand; `roofsmith kernel check TARGET` tries all of them"
            " again",
        ),
    )


_LONGER = "let it end sooner, or give it longer: `{0}` under `command`, `init --{1}`"
_CURES = {
    "leftover_process": "have the command end what it starts, a server too, before it ends itself",
    "test_deadline": _LONGER.format("test_deadline_s", "test-deadline"),
    "benchmark_deadline": _LONGER.format("benchmark_deadline_s", "benchmark-deadline"),
    "build_deadline": _LONGER.format("build_deadline_s", "build-deadline"),
}


LOOK_S = 0.2
"""From one look at the processes to the next: importing torch takes longer, one that is on a GPU
for less isn't noticed."""


@contextmanager
def noticing_gpu_use(
    spec: CommandSpec,
    tell: Callable[[str], None] = say,
    files: Sequence[str] = GPU_FILES,
    every_s: float = LOOK_S,
) -> Iterator[None]:
    """Say so, once the block is over, if commands of a `device: cpu` have had a GPU open in it.

    Args:
        spec: whose commands run in the block.
        tell: takes the warning.
        files: how the names of a GPU's device files begin.
        every_s: from one look to the next.
    """
    if spec.device == "gpu" or not any(_is_there(beginning) for beginning in files):
        yield
        return
    own, names = OwnProcesses(), set[str]()
    with sampled(lambda: names.update(own.with_open(files)), every_s):
        yield
    if names:
        tell(
            f"WARNING: commands of this repository use a GPU ({', '.join(sorted(names))}), but its"
            " target says `device: cpu`. So no GPU is leased for them and nothing waits until one"
            " is idle: others may disturb what is measured, and are disturbed\n"
            "try: `device: gpu` under `command`, or `roofsmith init --repo ... --device gpu`"
        )


def _is_there(beginning: str) -> bool:
    """Whether any file's name begins like this; a folder has to have something in it."""
    path = Path(beginning)
    if beginning.endswith("/"):
        return path.is_dir() and any(path.iterdir())
    return any(path.parent.glob(f"{path.name}*"))
