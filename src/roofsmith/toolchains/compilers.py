"""Finds compilers, and finds out which ones they are and what they build for."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofsmith.domain.kernel import BuildSpec, Language
from roofsmith.domain.values import content_id
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.programs import asked

_PROGRAMS: dict[tuple[str, Language], tuple[str, ...]] = {
    ("auto", "c"): ("gcc", "clang"), ("auto", "cpp"): ("g++", "clang++"),
    ("gcc", "c"): ("gcc",), ("gcc", "cpp"): ("g++",),
    ("clang", "c"): ("clang",), ("clang", "cpp"): ("clang++",),
}  # fmt: skip
_QUESTION_DEADLINE_S = 20.0
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "CCACHE_DISABLE")
"""What a compiler may see of our environment: where programs, a compiler cache's settings and the
compiler's own libraries are. Variables that change what it builds (CPATH, LIBRARY_PATH,
GCC_EXEC_PREFIX, ...) or where it writes are left out."""


@dataclass(frozen=True, slots=True)
class Compiler:
    program: str
    """Such as gcc or clang++."""
    path: Path
    version: str
    """First line of `--version`."""


def find_compiler(build: BuildSpec, language: Language) -> Compiler:
    """The compiler that a build spec asks for; `auto` is gcc, else clang.

    Raises:
        ToolMissingError: it isn't installed.
    """
    programs = _PROGRAMS[build.compiler, language]
    for program in programs:
        found = shutil.which(program)
        if found is not None:
            return Compiler(program, Path(found), _version(found, changed_at(found)))
    packages = "clang" if build.compiler == "clang" else "gcc g++"
    raise ToolMissingError(
        f"no compiler for {'C++' if language == 'cpp' else 'C'}: {' or '.join(programs)} "
        "not found on PATH",
        hint=f"install one: `apt-get install {packages}` (Debian, Ubuntu), "
        f"`dnf install {packages.replace('g++', 'gcc-c++')}` (Fedora)",
    )


def compiler_versions() -> dict[str, str]:
    """Program to version line, of each of gcc, g++, clang and clang++ that is installed."""
    found = {name: shutil.which(name) for name in ("gcc", "g++", "clang", "clang++")}
    return {name: _version(path, changed_at(path)) for name, path in found.items() if path}


def compiler_version(path: Path) -> str:
    """First line of `--version`."""
    return _version(str(path), changed_at(path))


def compiler_environment(temporary: Path) -> dict[str, str]:
    """The environment that a compiler runs in; its temporary files go to `temporary`."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(temporary)}


def resolved_target(compiler: Compiler, flags: Sequence[str]) -> str:
    """A hash of what `-march=native` and the like stand for on this machine; empty without them.

    Keeps a cache on a shared home directory from handing one machine's code to another.
    """
    native = tuple(flag for flag in flags if flag.startswith("-m") and flag.endswith("=native"))
    if not native:
        return ""
    return _target(str(compiler.path), native, compiler.version)


@cache
def _target(path: str, native: tuple[str, ...], _version: str) -> str:
    # -### prints the commands with every native option spelled out, cache sizes too.
    command = [path, *native, "-###", "-S", "-o", "/dev/null", "-x", "c", "/dev/null"]
    return content_id(ask_compiler(command).stderr)


def changed_at(path: str | Path) -> int:
    """When a program was last replaced, so that an upgrade is noticed by a running process."""
    return Path(path).stat().st_mtime_ns


@cache
def _version(path: str, _changed_at: int) -> str:
    lines = ask_compiler([path, "--version"]).stdout.splitlines()
    return lines[0].strip() if lines else "unknown version"


_hung: set[tuple[str, int]] = set()
"""Programs that didn't answer, and when they were last replaced: nobody waits for them again."""


def ask_compiler(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a quick command, such as `gcc --version`, whatever it returns.

    One that hangs is killed with all that it started. While this process runs, its program is asked
    nothing more.

    Raises:
        MachineError: it can't be started, or hangs.
    """
    try:
        program = command[0], changed_at(command[0])
        if program in _hung:
            raise _silence(command)
        environment = compiler_environment(Path("/tmp"))
        with asked(command, stderr=subprocess.PIPE, cwd="/", env=environment) as process:
            printed, complaints = process.communicate(timeout=_QUESTION_DEADLINE_S)
    except subprocess.TimeoutExpired:
        _hung.add(program)
        raise _silence(command) from None
    except OSError as error:
        raise MachineError(
            f"`{shlex.join(command)}` can't be started: {os.strerror(error.errno or 0)}",
            hint="run that command by hand; reinstall the compiler if it fails there too",
        ) from error
    words = (printed.decode(errors="replace"), complaints.decode(errors="replace"))
    return subprocess.CompletedProcess(command, process.returncode, *words)


def _silence(command: Sequence[str]) -> MachineError:
    return MachineError(
        f"`{shlex.join(command)}` gave no answer within {_QUESTION_DEADLINE_S:g} seconds, "
        "so it was stopped",
        hint="run that command by hand; reinstall the compiler if it hangs there too",
    )
