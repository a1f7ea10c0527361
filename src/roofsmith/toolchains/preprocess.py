"""One kernel as its compiler reads it: `gcc -E` over the candidate's own files.

The headers of the system are left out: whatever a signature takes from them, the reader knows by
name or refuses. nvcc and hipcc aren't asked, since they take seconds: the C++ compiler beside them
is told what they define.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.scratch import scratch_directory
from roofsmith.toolchains import nvcc_flags
from roofsmith.toolchains.cache import storage_errors, write_sources
from roofsmith.toolchains.compilers import compiler_environment, find_compiler
from roofsmith.toolchains.flags import is_allowed, joined
from roofsmith.toolchains.gpu_dialect import blank_launches, gpu_macros
from roofsmith.toolchains.limits import CompilerLimits, run_limited

LIMITS = CompilerLimits(deadline_s=60.0, memory_bytes=2 * 1024**3)
LONGEST_BLOCKS = 8000
"""Of preprocessed text, in 512 bytes each: macros in macros make any length."""
_DIALECT: Mapping[str, str] = {
    # Spellings that the grammars don't know, and what they mean.
    "__const": "const", "__const__": "const", "__volatile": "volatile",
    "__volatile__": "volatile", "__signed": "signed", "__signed__": "signed",
    "__inline": "inline", "__inline__": "inline", "__extension__": "",
    "__restrict": "__restrict__", "_Thread_local": "",
    "__attribute__(...)": "", "__attribute(...)": "",
}  # fmt: skip
_CHOOSES = ("-D", "-U", "-I", "-std=", "-m", "-f", "-O")
"""Flags that decide what the preprocessor sees."""
_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include|include_next|import)\b(?:[ \t]*["<]([^">\n]+))?.*$', re.MULTILINE
)
_MARKER = re.compile(r'# (\d{1,9}) "((?:[^"\\]|\\.)*)"')


class _UnreadableError(Exception):
    """There is nothing to read; the message says why. Not remembered: a machine may be busy."""


class _TooLongError(_UnreadableError):
    """There is more than anybody wants to build."""


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """What is left of a candidate's files: code, without comments and directives."""

    text: str
    """Each file where it is included."""
    lines: tuple[tuple[str, int], ...] = ()
    """Path and number of each line."""
    complaint: str = ""
    """Why there is no text."""
    is_too_long: bool = False
    """Whether that is because there is more than anybody wants to build."""

    @property
    def visited(self) -> frozenset[str]:
        """The candidate's files that were read."""
        return frozenset(path for path, _ in self.lines)

    def place(self, row: int) -> str:
        """`kernel.c:12` of a line, from 0."""
        path, number = self.lines[row]
        return f"{path}:{number}"


def preprocess(candidate: Candidate) -> Preprocessed:
    """The kernel file and those of its own that it includes.

    What else the compiler complains of is left to the build.

    Raises:
        ToolMissingError: there is no compiler.
        StorageError: the files can't be written.
    """
    kind = "c" if candidate.language == "c" else "c++"
    command = (_program(candidate), "-E", "-x", kind, "-w", "-I.", *_macros(candidate))
    try:
        return _preprocessed(command, candidate.sources)
    except _UnreadableError as error:
        return Preprocessed("", complaint=str(error), is_too_long=isinstance(error, _TooLongError))


def _program(candidate: Candidate) -> str:
    language, build = candidate.language, candidate.build
    chosen = {
        "cuda": os.environ.get("NVCC_CCBIN", ""),
        "hip": os.environ.get("ROCM_PATH", "/opt/rocm") + "/llvm/bin/clang++",
    }
    if found := shutil.which(chosen.get(language, "")):
        return found
    spec = build if build.compiler in ("gcc", "clang") else BuildSpec()
    return str(find_compiler(spec, "c" if language == "c" else "cpp").path)


def _macros(candidate: Candidate) -> list[str]:
    """The flags that decide what is read; of a GPU's compiler its macros and folders alone."""
    language, flags = candidate.language, candidate.build.flags
    dialect = {**_DIALECT, **gpu_macros(language)}
    if language != "c":
        dialect["restrict"] = "__restrict__"
    words = nvcc_flags.for_host(flags) if language == "cuda" else joined(flags)
    kinds = _CHOOSES[:3] if language == "hip" else _CHOOSES
    chosen = [word for word in words if word.startswith(kinds) and is_allowed(word)]
    return [*(f"-D{name}={value}" for name, value in dialect.items()), *chosen]


@lru_cache(maxsize=64)
def _preprocessed(command: tuple[str, ...], sources: tuple[SourceFile, ...]) -> Preprocessed:
    files = {source.path: _own_includes(source.text, sources) for source in sources}
    found = list(_own_lines(_run(command, sources[0].path, files), files))
    text = blank_launches("\n".join(line for line, *_ in found))
    return Preprocessed(text, tuple((path, number) for _, path, number in found))


def _own_includes(text: str, sources: Sequence[SourceFile]) -> str:
    """A text with the includes left out that aren't of the candidate's files."""

    def kept(found: re.Match[str]) -> str:
        wanted = "/" + posixpath.normpath(found[1] or "").replace("../", "")
        return found[0] if any(f"/{s.path}".endswith(wanted) for s in sources) else ""

    return _INCLUDE.sub(kept, text)


def _run(command: Sequence[str], kernel: str, files: Mapping[str, str]) -> str:
    """What the preprocessor prints, even if it complains.

    Raises:
        _UnreadableError: it prints nothing of use.
    """
    folder = scratch_directory("preprocess")
    made, output, log = folder / "tmp", folder / "tmp" / "output", folder / "log"
    shell = f'ulimit -f {LONGEST_BLOCKS}; exec "$@" > "$TMPDIR/{output.name}"'
    try:
        with storage_errors(folder):
            made.mkdir()
            output.touch()
            write_sources(files, folder / "src")
            ended = run_limited(
                ["/bin/sh", "-c", shell, "sh", *command, f"./{kernel}"],
                directory=folder / "src",
                environment=compiler_environment(made),
                limits=LIMITS,
                log=log,
            )
            printed = output.read_bytes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if ended.past_deadline:
        raise _TooLongError(f"its macros come to no end in {LIMITS.deadline_s:g} s")
    if len(printed) >= LONGEST_BLOCKS * 512:
        raise _TooLongError(f"its macros make more than {LONGEST_BLOCKS * 512 / 1e6:.0f} MB")
    if not printed:
        raise _UnreadableError(ended.output.strip().partition("\n")[0])
    return printed.decode(errors="replace")


def _own_lines(printed: str, files: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """Lines of code of the candidate's own files, each with its path and number."""
    path, number = "", 0
    for line in printed.split("\n"):
        if marker := _MARKER.match(line):
            path, number = posixpath.normpath(_unescaped(marker[2])), int(marker[1])
            continue
        if path in files:
            yield ("" if line.startswith("#") else line), path, number
        number += 1


def _unescaped(path: str) -> str:
    """A path as it was before bytes beyond ASCII became octal numbers."""

    def meant(found: re.Match[bytes]) -> bytes:
        octal = found[1]
        return bytes([int(octal, 8) % 256]) if len(octal) == 3 else octal

    return re.sub(rb"\\([0-7]{3}|.)", meant, path.encode()).decode(errors="replace")
