"""Runs a compiler on a candidate and keeps what comes out: once per content, under limits."""

from __future__ import annotations

import os
import posixpath
import resource
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from roofsmith.domain.kernel import Built, Candidate, KernelResources
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.errors import SignatureError
from roofsmith.job_limits import granted, memory_limit
from roofsmith.toolchains.cache import (
    LIBRARY,
    LOG,
    SOURCES,
    TEMPORARY,
    BuildCache,
    BuildRecord,
    prove_writable,
    storage_errors,
    write_sources,
)
from roofsmith.toolchains.compilers import Compiler, compiler_environment
from roofsmith.toolchains.diagnostics import diagnose, is_out_of_space, warnings_of
from roofsmith.toolchains.elf import exported_functions
from roofsmith.toolchains.flags import is_shell_safe
from roofsmith.toolchains.limits import CompilerLimits, Finished, run_limited
from roofsmith.toolchains.preprocess import preprocess
from roofsmith.toolchains.signature import read_signature
from roofsmith.toolchains.surroundings import asking, surroundings

Result = TypeVar("Result")
Work = Callable[[int | None], Result]
"""Gets a descriptor that can be read from once the work has to end; None: nobody will say so."""

HEARD_AFTER_S = 0.5
"""Python's handler of a signal runs between two instructions of the main thread: one that comes
right before that thread waits for a lock is not heard until the waiting is over. Chosen."""
_LOOK_S = 1e-3
"""Between looks at whether a thread has ended. Chosen."""
_CANARY = "roofsmith_canary.h"
"""A random word compiled into a library: proof that it was made from the sources at hand, now. The
header is included before every source, so that ccache and the like have to compile anew; it adds a
constant to the library's data, and nothing to its code."""
_CANARY_TEXT = """\
#ifdef __cplusplus
extern "C" {
#endif
extern __attribute__((weak, visibility("default"))) const char roofsmith_canary[];
__attribute__((used)) const char roofsmith_canary[] = "%s";
#ifdef __cplusplus
}
#endif
"""


def side_by_side(works: Sequence[Work[Result]], at_once: int) -> tuple[Result, ...]:
    """The results of all works, in their order; up to `at_once` run at the same time.

    Each runs in a thread that is gone when this returns. If one raises, or this call is
    interrupted, those that wait aren't begun and those that run are told to end; then that is
    raised. Signals are Python's main thread's alone: a work in another one hears of Ctrl-C only by
    its descriptor. A single work, or one at a time, runs in the calling thread.
    """
    if min(at_once, len(works)) <= 1:
        return tuple(work(None) for work in works)
    stop = os.eventfd(0, os.EFD_CLOEXEC)
    name = f"roofsmith-build-{stop}"
    pool = ThreadPoolExecutor(min(at_once, len(works)), thread_name_prefix=name)
    try:
        running = [pool.submit(work, stop) for work in works]
        waiting = set(running)
        while waiting:
            ended, waiting = wait(waiting, HEARD_AFTER_S, FIRST_COMPLETED)
            for done in ended:
                done.result()  # the first that raises ends them all
        return tuple(done.result() for done in running)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        os.eventfd_write(stop, 1)  # nobody reads it, so everybody sees it
        pool.shutdown()
        # Interrupted while it starts a thread, the pool doesn't know of it: nobody joins that one.
        while any(thread.name.startswith(f"{name}_") for thread in threading.enumerate()):
            time.sleep(_LOOK_S)
        os.close(stop)


DEFER_WAITS = Path(__file__).with_name("defer_waits.h")
"""Included before every CUDA and HIP kernel: lets the judge queue many calls; see its text."""
FORMAT = 3
"""Part of every key: raise it when the same content would be built or recorded differently."""
_REPEATABLE = frozenset({"compile_error", "link_error", "no_entry", "too_much_shared_memory"})
"""Failures that the same content meets again, however busy the machine is, unless something is
installed: they are remembered by one builder, and never kept."""
TIMES_FIRST, LEAST_SHARE = 10.0, 1 / 3
"""Times the first build's time that a later one may take, and the share of the usual deadline that
it may take at least. Chosen: other builds beside it, and a busy machine, make a build some times
slower, and who is unrolled without end takes hundreds of times as long."""
_FEWER = "fewer templates, macros or unrolled lines would build faster"
_SOME_BYTES, _AMPLE_BYTES = 1024**2, 64 * 1024**2
"""Free space that clears the disk of having failed a build: always, and where it was accused."""
_MAX_NAME_BYTES = 255
"""NAME_MAX of the file systems of Linux."""


def _nothing(_output: str) -> tuple[KernelResources, ...]:
    return ()


def _as_printed(output: str, _temporary: Path) -> str:
    return output


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Everything that decides what a build comes to, and how to read what the compiler prints."""

    candidate: Candidate
    compiler: Compiler
    arguments: tuple[str, ...]
    """The command line behind the program and the output's name, relative to the sources."""
    key: str
    settled: bool = False
    """Whether sources lie where they will stay while they are compiled, because the compiler
    writes their place into the code. Otherwise a flag of gcc and clang is told of it."""
    keep_temporary: Callable[[Path], tuple[str, ...]] = lambda _: ()
    """Flags that leave the compiler's intermediate files in a folder, for `explain`."""
    explain: Callable[[str, Path], str] = _as_printed
    """The compiler's output in words that `diagnose` understands, from it and that folder."""
    resources: Callable[[str], tuple[KernelResources, ...]] = _nothing
    """What the output says of each GPU kernel."""
    canary: str | None = None
    """What the library must hold besides, see `_CANARY`."""


class LibraryBuilder:
    """Compiles candidates to shared libraries.

    Args:
        cache_dir: folder of finished builds; may be shared by processes and, on a network file
            system, by machines.
        limits: of one build.
        at_once: compilers that may run at the same time.
        is_fixed: whether the deadline holds whatever the first build takes.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    def __init__(
        self, cache_dir: Path, limits: CompilerLimits, at_once: int = 1, *, is_fixed: bool = False
    ) -> None:
        self._cache = BuildCache(cache_dir.expanduser().absolute())
        self._limits, self._is_fixed = limits, is_fixed
        self._failed: dict[str, BuildFailed] = {}
        self._first_s = 0.0
        """What the first build took, the baseline's; 0: there was none yet."""
        self.at_once = at_once

    def build_all(
        self, plans: Sequence[BuildPlan | BuildFailed]
    ) -> tuple[Built | BuildFailed, ...]:
        """Compile side by side, or take the same content from the cache.

        Args:
            plans: of the builds, in whose order the outcomes come; what failed before there was a
                plan stays as it is.

        Raises:
            StorageError: the cache can't be written.
        """
        wanted = [plan for plan in plans if isinstance(plan, BuildPlan)]
        made = iter(side_by_side([partial(self._build, p) for p in wanted], self.at_once))
        return tuple(next(made) if isinstance(plan, BuildPlan) else plan for plan in plans)

    def _build(self, plan: BuildPlan, stop: int | None) -> Built | BuildFailed:
        """One build; safe in any thread: what it writes is its own until it is published."""
        known = self._failed.get(plan.key)
        if known is not None:
            return known
        folder, record = self._cache.current(plan.key)
        if record is not None:
            self._first_s = self._first_s or record.build_time_s
            return self._outcome(plan, record, folder, cached=True)
        if (read := preprocess(plan.candidate)).is_too_long:
            detail = f"too much code to build: {plan.candidate.kernel.path}: {read.complaint}"
            return BuildFailed(reason="compiler_timeout", detail=f"{detail}; {_FEWER}")
        return self._compile(plan, folder, stop)

    def differs(self, plan: BuildPlan) -> bool:
        """Whether the cache holds another library than compiling gives now.

        False where it holds none, or where compiling twice doesn't give the same (`__TIME__`).

        Raises:
            StorageError: the cache can't be written.
        """
        folder, record = self._cache.current(plan.key)
        if record is None or self._anew(plan, folder) == record.files:
            return False
        return self._anew(plan, folder) == self._anew(plan, folder)

    def _anew(self, plan: BuildPlan, folder: Path) -> Mapping[str, str]:
        """The files of a build that is thrown away."""
        with self._cache.workspace() as workspace:
            made = self._made(plan, workspace, folder)
            return {} if isinstance(made, BuildFailed) else made.files

    def _compile(self, plan: BuildPlan, folder: Path, stop: int | None) -> Built | BuildFailed:
        with self._cache.workspace() as workspace:
            made = self._made(plan, workspace, folder, stop)
            if isinstance(made, BuildFailed):
                log = self._cache.keep_log(workspace, plan.key)
                failure = made.model_copy(update={"log": log})
                if failure.reason in _REPEATABLE:
                    self._failed[plan.key] = failure
                return failure
            folder, record = self._cache.publish(workspace, plan.key, made)
        self._first_s = self._first_s or record.build_time_s
        return self._outcome(plan, record, folder, cached=False)

    def _made(
        self, plan: BuildPlan, workspace: Path, folder: Path, stop: int | None = None
    ) -> BuildRecord | BuildFailed:
        """What compiling in a workspace comes to that will be that folder."""
        temporary = workspace / TEMPORARY
        started_s = time.time()
        with storage_errors(workspace):
            sources = self._lay_out(plan, workspace)
            finished = run_limited(
                self._command(plan, workspace, sources, self._stays(plan, folder)),
                directory=sources,
                environment=compiler_environment(temporary) | asking(temporary, sources),
                limits=replace(self._limits, deadline_s=self._deadline_s),
                log=workspace / LOG,
                stop=stop,
            )
        if finished.returncode != 0:  # a full disk swallows the compiler's message, too
            said_so = is_out_of_space(finished.output, finished.returncode)
            prove_writable(workspace, _AMPLE_BYTES if said_so else _SOME_BYTES)
        output = plan.explain(finished.output, temporary)
        for inner in (workspace / SOURCES, temporary, self._stays(plan, folder)):
            output = output.replace(f"{inner}/", "")  # the user's names, not our copies' places
        failure = self._failure(plan, finished, output)
        if failure is not None:
            return failure
        with storage_errors(workspace):
            library = (workspace / LIBRARY).read_bytes()
        return _missing_entry(plan.candidate, library) or BuildRecord(
            files={LIBRARY: content_id(library)},
            command=shlex.join([plan.compiler.program, *plan.arguments]),
            warnings=warnings_of(output),
            resources=plan.resources(output),
            build_time_s=finished.wall_s,
            surroundings=surroundings(temporary, sources, workspace, started_s),
        )

    def _lay_out(self, plan: BuildPlan, workspace: Path) -> Path:
        """Write the sources; returns the folder to compile in."""
        files = {source.path: source.text for source in plan.candidate.sources}
        files |= header(plan.canary)
        if plan.settled:
            return self._cache.settle(plan.key, files)
        write_sources(files, workspace / SOURCES)
        return workspace / SOURCES

    def _command(self, plan: BuildPlan, workspace: Path, sources: Path, stay: Path) -> list[str]:
        moved = () if plan.settled else _debug_paths(sources, stay)
        return [
            str(plan.compiler.path),
            *moved,
            *plan.keep_temporary(workspace / TEMPORARY),
            *("-o", str(workspace / LIBRARY)),
            *plan.arguments,
        ]

    def _stays(self, plan: BuildPlan, folder: Path) -> Path:
        """Where the sources lie once the build is finished in its folder."""
        return self._cache.settled(plan.key) if plan.settled else folder / SOURCES

    @property
    def _deadline_s(self) -> float:
        """Of a build: going by the baseline's, where it may."""
        if self._is_fixed or not self._first_s:
            return self._limits.deadline_s
        return max(TIMES_FIRST * self._first_s, LEAST_SHARE * self._limits.deadline_s)

    def _failure(self, plan: BuildPlan, finished: Finished, output: str) -> BuildFailed | None:
        if finished.past_deadline:
            return BuildFailed(
                reason="compiler_timeout",
                detail=f"too much code to build in {self._deadline_s:.3g} s{self._why_so_long}:"
                f" {plan.compiler.program} was stopped; {_FEWER}",
            )
        if finished.returncode == 0:
            return None
        texts = {source.path: source.text for source in plan.candidate.sources}
        diagnosis = diagnose(output, texts, finished.returncode)
        detail = diagnosis.detail
        if diagnosis.reason == "compiler_memory":
            most = granted(resource.RLIMIT_AS, self._limits.memory_bytes)
            detail += f" of {most / 1024**3:.2g} GiB"
            if most < self._limits.memory_bytes:
                detail += f": {memory_limit()}"
        return BuildFailed(reason=diagnosis.reason, detail=detail)

    @property
    def _why_so_long(self) -> str:
        if self._is_fixed or not self._first_s:
            return ""
        return f" (the first build here took {self._first_s:.2g} s)"

    def _outcome(
        self, plan: BuildPlan, record: BuildRecord, folder: Path, *, cached: bool
    ) -> Built | BuildFailed:
        try:
            signature = read_signature(plan.candidate)
        except SignatureError as error:
            detail = f"{error.message}; {error.hint}"
            return BuildFailed(reason="bad_signature", detail=detail, log=folder / LOG)
        again = f"{record.command} -o {shlex.quote(str(folder / LIBRARY))}"
        return Built(
            candidate_id=plan.candidate.id,
            language=plan.candidate.language,
            library=folder / LIBRARY,
            library_sha256=record.files[LIBRARY],
            signature=signature,
            environment=plan.candidate.build.environment,
            candidate=plan.candidate,
            command=f"cd {shlex.quote(str(self._stays(plan, folder)))} && {again}",
            log=folder / LOG,
            warnings=record.warnings,
            resources=record.resources,
            build_time_s=record.build_time_s,
            cached=cached,
            canary=plan.canary,
            names_streams=plan.candidate.names_streams,
            names_tuning=plan.candidate.names_tuning,
        )


def header(canary: str | None) -> dict[str, str]:
    """The file to lay beside the sources; none without a canary."""
    return {} if canary is None else {_CANARY: _CANARY_TEXT % canary}


def included(canary: str | None, *, by_nvcc: bool = False) -> tuple[str, ...]:
    """The flags that include it."""
    if canary is None:
        return ()
    return (f"-include={_CANARY}",) if by_nvcc else ("-include", _CANARY)


def content_key(
    candidate: Candidate,
    compiler: Compiler,
    arguments: Sequence[str],
    canary: str | None,
    **further: str,
) -> str:
    """What a library is filed under: it differs where what goes into one does.

    Files outside of the candidate are known only once they were read: the library's record has
    them.

    Args:
        arguments: its, without paths of this very build.
        canary: compiled into the library.
        further: texts that the compiler reads, or that decide what it makes, by name.
    """
    content = {
        "format": FORMAT,
        "language": candidate.language,
        "entry": candidate.entry,
        "sources": [[source.path, source.text] for source in candidate.sources],
        "arguments": arguments,
        **header(canary),
        "compiler": [str(compiler.path), compiler.version],
        **further,
    }
    return content_id(canonical_json(content))[:32]


def units(candidate: Candidate, compiled: frozenset[str]) -> tuple[str, ...]:
    """The files to compile: the kernel, and other sources that nothing includes.

    Args:
        compiled: suffixes of sources that are compiled on their own; all others are there to be
            included.
    """
    wanted = [s.path for s in candidate.sources[1:] if posixpath.splitext(s.path)[1] in compiled]
    if wanted:
        included = preprocess(candidate).visited
        wanted = [path for path in wanted if path not in included]
    return tuple(_as_operand(path) for path in (candidate.kernel.path, *wanted))


def _as_operand(path: str) -> str:
    """A file's name that can't be read as a flag or as a file of flags."""
    return f"./{path}" if path.startswith(("-", "@")) else path


def unfit(candidate: Candidate, *compilers: str) -> tuple[str, str] | None:
    """Why a candidate can't be handed to these compilers at all; None if it can."""
    if candidate.build.compiler not in {"auto", *compilers}:
        return "wrong_compiler", (
            f"{candidate.build.compiler} doesn't build {candidate.language}; "
            f"build.compiler may be {' or '.join(('auto', *compilers))}"
        )
    return unusable_path(candidate)


def unsafe_path(paths: Sequence[str]) -> tuple[str, str] | None:
    """Why files can't be named to nvcc or hipcc, which go through a shell; None if they can."""
    for path in paths:
        if not is_shell_safe(path):
            return "bad_source_path", (
                f"source path {path!r}: files that nvcc or hipcc compiles have names of letters, "
                "digits and _-+=./:,@%() only"
            )
    return None


def unusable_path(candidate: Candidate) -> tuple[str, str] | None:
    """Why the sources can't lie in one folder, as (reason code, sentence); None if they can."""
    paths = [source.path for source in candidate.sources]
    for path in paths:
        if any(ord(char) < 32 for char in path) or path == ".":
            return "bad_source_path", f"source path {path!r} can't be a file's name"
        if any(len(part.encode()) > _MAX_NAME_BYTES for part in path.split("/")):
            return "bad_source_path", f"source path {path!r} has a part that is too long"
        if paths.count(path) > 1 or any(other.startswith(f"{path}/") for other in paths):
            return "bad_source_path", f"source path {path!r} is given twice, or as file and folder"
    return None


def _debug_paths(sources: Path, published: Path) -> tuple[str, ...]:
    """Makes debug information name the place where the sources will stay.

    It also keeps the private folder's random name out of the library, so that the same content
    gives the same bytes.
    """
    if "=" in f"{sources}{published}":  # the flag can't express it
        return ()
    return (f"-fdebug-prefix-map={sources}={published}",)


def _missing_entry(candidate: Candidate, library: bytes) -> BuildFailed | None:
    try:
        exported = exported_functions(library)
    except ValueError as error:
        return BuildFailed(reason="link_error", detail=f"the linker wrote {error}")
    if candidate.entry in exported:
        return None
    detail = f"{candidate.kernel.path}: the library exports no function {candidate.entry}"
    try:
        read_signature(candidate)
    except SignatureError as error:
        detail = f"{error.message}; {error.hint}"
    else:
        detail += "; it must not be inline, hidden or renamed by a macro"
    return BuildFailed(reason="no_entry", detail=detail)
