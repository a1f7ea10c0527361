"""C and C++ candidates to shared libraries, with gcc or clang."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.kernel import Built, Candidate, Signature
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.errors import SignatureError
from roofsmith.toolchains.cache import (
    LIBRARY,
    LOG,
    SOURCES,
    TEMPORARY,
    BuildCache,
    Record,
    prove_writable,
    storage_errors,
)
from roofsmith.toolchains.compilers import (
    Compiler,
    compiler_environment,
    find_compiler,
    resolved_target,
)
from roofsmith.toolchains.diagnostics import diagnose, is_out_of_space, warnings_of
from roofsmith.toolchains.elf import exported_functions
from roofsmith.toolchains.flags import joined, refusal
from roofsmith.toolchains.limits import Finished, Limits, run_limited
from roofsmith.toolchains.signature import preprocess, read_signature

_FORMAT = 1
"""Part of every key: raise it when the same content would be built or recorded differently."""
_COMPILED = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".C"})
"""Suffixes of sources that are compiled on their own; all others are there to be included."""
_REPEATABLE = frozenset({"compile_error", "link_error", "no_entry"})
"""Failures that the same content meets again, whatever else the machine is doing."""
_SOME_BYTES, _AMPLE_BYTES = 1024**2, 64 * 1024**2
"""Free space that clears the disk of having failed a build: always, and where it was accused."""
_MAX_NAME_BYTES = 255
"""NAME_MAX of the file systems of Linux."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything that decides what a build comes to."""

    candidate: Candidate
    compiler: Compiler
    arguments: tuple[str, ...]
    """The command line behind the program, relative to the folder of the sources."""
    key: str

    @property
    def shown(self) -> tuple[str, ...]:
        """The command as a person would type it."""
        return (self.compiler.program, *self.arguments)


class CToolchain:
    """Builds C and C++ candidates, each content once, under a deadline and a memory limit.

    Args:
        cache_dir: folder of finished builds; may be shared by processes and, on a network file
            system, by machines.
        deadline_s: wall time that one build may take.
        memory_bytes: address space that each process of a build may take.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    def __init__(
        self, cache_dir: Path, *, deadline_s: float = 60.0, memory_bytes: int = 4 * 1024**3
    ) -> None:
        self._cache = BuildCache(cache_dir.expanduser().absolute())
        self._limits = Limits(deadline_s, memory_bytes)

    def signature(self, candidate: Candidate) -> Signature:
        """Read the entry's parameters from the source; nothing is compiled.

        Raises:
            SignatureError: no such function, or a parameter outside the contract.
        """
        return read_signature(candidate)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile, or take the same content from the cache.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        refused = refusal(candidate.build) or _unusable_path(candidate)
        if refused is not None:
            return BuildFailed(reason=refused[0], detail=refused[1])
        plan = _plan(candidate)
        record = self._cache.load(plan.key)
        cached = record is not None
        if record is None:
            record = self._compile(plan)
        return self._outcome(plan, record, cached=cached)

    def _compile(self, plan: _Plan) -> Record:
        with self._cache.workspace() as workspace:
            sources = workspace / SOURCES
            with storage_errors(workspace):
                _write_sources(plan.candidate, sources)
                moved = _debug_paths(sources, self._cache.folder(plan.key) / SOURCES)
                finished = run_limited(
                    [str(plan.compiler.path), *moved, *plan.arguments],
                    directory=sources,
                    environment=compiler_environment(workspace / TEMPORARY),
                    limits=self._limits,
                    log=workspace / LOG,
                )
            if finished.returncode != 0:  # a full disk swallows the compiler's message, too
                said_so = is_out_of_space(finished.output)
                prove_writable(workspace, _AMPLE_BYTES if said_so else _SOME_BYTES)
            record = self._record(plan, finished, workspace)
            if record.failure is None or record.failure.reason in _REPEATABLE:
                return self._cache.publish(workspace, plan.key, record)
            log = self._cache.keep_log(workspace, plan.key)
            failure = record.failure.model_copy(update={"log": log})
            return record.model_copy(update={"failure": failure})

    def _record(self, plan: _Plan, finished: Finished, workspace: Path) -> Record:
        output = finished.output
        for inner in (SOURCES, TEMPORARY):  # the user's names, not the places of our copies
            output = output.replace(f"{workspace / inner}/", "")
        failure = self._failure(plan, finished, output)
        library_sha256 = ""
        if failure is None:
            with storage_errors(workspace):
                library = (workspace / LIBRARY).read_bytes()
            library_sha256 = content_id(library)
            failure = _missing_entry(plan.candidate, library)
        return Record(
            failure=failure,
            library_sha256=library_sha256,
            command=shlex.join(plan.shown),
            warnings=warnings_of(output),
            build_time_s=finished.wall_s,
        )

    def _failure(self, plan: _Plan, finished: Finished, output: str) -> BuildFailed | None:
        if finished.past_deadline:
            return BuildFailed(
                reason="compiler_timeout",
                detail=f"{plan.compiler.program} was stopped after {self._limits.deadline_s:g} s; "
                "fewer templates, macros or unrolled lines would build faster",
            )
        if finished.returncode == 0:
            return None
        texts = {source.path: source.text for source in plan.candidate.sources}
        diagnosis = diagnose(output, texts, finished.returncode)
        detail = diagnosis.detail
        if diagnosis.reason == "compiler_memory":
            detail += f" of {self._limits.memory_bytes / 1024**3:g} GiB"
        return BuildFailed(reason=diagnosis.reason, detail=detail)

    def _outcome(self, plan: _Plan, record: Record, *, cached: bool) -> Built | BuildFailed:
        folder = self._cache.folder(plan.key)
        if record.failure is not None:
            log = record.failure.log or folder / LOG
            return record.failure.model_copy(update={"log": log})
        try:
            signature = read_signature(plan.candidate)
        except SignatureError as error:
            detail = f"{error.message}; {error.hint}"
            return BuildFailed(reason="bad_signature", detail=detail, log=folder / LOG)
        return Built(
            candidate_id=plan.candidate.id,
            library=folder / LIBRARY,
            library_sha256=record.library_sha256,
            signature=signature,
            environment=plan.candidate.build.environment,
            command=f"cd {shlex.quote(str(folder / SOURCES))} && {record.command}",
            log=folder / LOG,
            warnings=record.warnings,
            build_time_s=record.build_time_s,
            cached=cached,
        )


def _plan(candidate: Candidate) -> _Plan:
    compiler = find_compiler(candidate.build, candidate.language)
    flags = joined(candidate.build.flags)
    kind = "c" if candidate.language == "c" else "c++"
    quiet = (
        ("-fno-color-diagnostics", "-ferror-limit=50")
        if compiler.program.startswith("clang")
        else ("-fdiagnostics-color=never", "-fmax-errors=50")
    )
    arguments = (
        *flags, "-shared", "-fPIC", "-I.", *quiet,
        "-o", f"../{LIBRARY}",
        "-x", kind, *_units(candidate), "-x", "none",
        *joined(candidate.build.link), "-Wl,-z,defs",
    )  # fmt: skip
    content = {
        "format": _FORMAT,
        "language": candidate.language,
        "entry": candidate.entry,
        "sources": [[source.path, source.text] for source in candidate.sources],
        "arguments": arguments,
        "compiler": [str(compiler.path), compiler.version],
        "target": resolved_target(compiler, flags),
    }
    return _Plan(candidate, compiler, arguments, key=content_id(canonical_json(content))[:32])


def _units(candidate: Candidate) -> tuple[str, ...]:
    """The files to compile: the kernel, and other sources that nothing includes."""
    included = preprocess(candidate).visited
    others = (source.path for source in candidate.sources[1:])
    wanted = [p for p in others if posixpath.splitext(p)[1] in _COMPILED and p not in included]
    return tuple(_as_operand(path) for path in (candidate.kernel.path, *wanted))


def _as_operand(path: str) -> str:
    """A file's name that can't be read as a flag or as a file of flags."""
    return f"./{path}" if path.startswith(("-", "@")) else path


def _unusable_path(candidate: Candidate) -> tuple[str, str] | None:
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


def _write_sources(candidate: Candidate, folder: Path) -> None:
    for source in candidate.sources:
        path = folder / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.text.encode())


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
