"""Which files a compiler may see, and which folders it may write to: what it needs, by its command.

A candidate's source names files, too (`#include`, `#embed`, `.incbin`), and what the compiler can
read of them goes into the kernel or into a message.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofsmith import landlock
from roofsmith.errors import MachineError
from roofsmith.programs import answer
from roofsmith.toolchains.compilers import compiler_environment

SYSTEM = (
    *landlock.PROGRAMS, "/gnu/store", "/etc/ccache.conf", "/etc/clang", "/etc/env.d", "/etc/perl",
    "/proc/cpuinfo", "/proc/filesystems", "/proc/meminfo", "/proc/stat", "/proc/sys",
    "/proc/version", "/sys/devices/system",
)  # fmt: skip
"""Programs, libraries, headers, and what describes the machine; not what describes its processes,
whose command lines everybody may read."""

_TOOLS = (
    "gcc", "g++", "cc", "c++", "clang", "clang++", "nvcc", "hipcc", "as", "ld", "ld.lld", "lld",
)  # fmt: skip
"""Programs that are compilers, or started by them, wherever they lie on PATH."""
_FOLDERS = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH")
_ROOTS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH")
_OF_A_TOOLKIT = ("bin", "lib", "lib32", "lib64", "libexec", "include")
"""What may be seen of a folder that holds more than a compiler, such as ~/.local."""

_NAMES_PATH = re.compile(
    r"--?(?:I|L|B|isystem|iquote|idirafter|include|imacros|isysroot|sysroot|include-path|"
    r"system-include|library-path|pre-include|rocm-path|hip-path|gcc-toolchain)=?(/.*)",
    re.DOTALL,
)
"""Not macros, whose values a candidate chooses."""
_KEEPS_IN = re.compile(r"--?keep-dir=?(/.*)", re.DOTALL)
_STARTS = re.compile(r"--?(?:ccbin|compiler-bindir)=?(.+)", re.DOTALL)

_CCACHE = "ccache"
_CCACHE_FOLDERS = ("cache_dir", "temporary_dir")
_QUESTION_DEADLINE_S = 10.0
_SCRIPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CompilerFiles:
    """All that one compiler may see; of what doesn't exist, nothing."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    """Folders in which it may do everything."""


def files_for(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> CompilerFiles:
    """What one command needs.

    Beside the system's own folders these are the compiler's and its toolkit's, those on PATH, and
    what the command line names. It writes beside its output, to the folder for temporary files,
    and, where the compiler is ccache, to that one's.

    Args:
        command: program and arguments, none of them with a path that a candidate may choose but
            those that `flags` lets pass.
        directory: where it runs.
        environment: all of its variables.
    """
    home = environment.get("HOME") or str(Path.home())
    search = environment.get("PATH", "")
    read, write = _named(command[1:])
    chosen = [match[1] for word in command[1:] if (match := _STARTS.fullmatch(word))]
    # What is behind a link, too, for one that may be changed while we run.
    tools = _tools((command[0], os.path.realpath(command[0]), *chosen), search, home)
    folders = [str(directory), *read, *_from_environment(environment), *_wheels()]
    seen = [folder for folder in folders if not _is_too_wide(folder, home)]
    if "TMPDIR" in environment:
        write.append(environment["TMPDIR"])
    return CompilerFiles(
        readable=tuple(dict.fromkeys((*SYSTEM, *tools.readable, *seen))),
        writable=tuple(dict.fromkeys((*tools.writable, *write))),
    )


@cache
def _tools(programs: tuple[str, ...], search: str, home: str) -> CompilerFiles:
    """What the compiler itself, one that it was told to start, and those on PATH need."""
    folders = [folder for folder in search.split(os.pathsep) if folder.startswith("/")]
    tools = [*_started(programs, search), *_on_path(folders)]
    real = [os.path.realpath(tool) for tool in tools]
    places = [*folders, *(p for tool in (*tools, *real) for p in _toolkit(tool, home))]
    writable: tuple[str, ...] = ()
    if any(_is_ccache(tool) for tool in real):
        places += [f"{home}/.ccache/ccache.conf", f"{home}/.config/ccache"]
        writable = _ccache_folders(search, home)
    seen = dict.fromkeys(place for place in places if not _is_too_wide(place, home))
    return CompilerFiles((*seen, *dict.fromkeys([*tools, *real])), writable)


def _named(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Files and folders on a command line that are read, and folders that are written to."""
    read, write = [], []
    before = ""
    for word in arguments:
        named, kept = _NAMES_PATH.fullmatch(word), _KEEPS_IN.fullmatch(word)
        if kept:
            write.append(os.path.normpath(kept[1]))
        elif word.startswith("/") and before == "-o":
            write.append(str(Path(word).parent))
        elif named or word.startswith("/"):
            # A path that says `..` behind a link leads elsewhere than it says.
            read.append(os.path.normpath(named[1] if named else word))
        before = word
    return read, write


def _started(programs: Iterable[str], search: str) -> Iterator[str]:
    """The programs of these names; a folder stands for those in it."""
    for name in programs:
        if "/" in name and Path(name).is_dir():
            yield from _on_path([name])
        elif found := shutil.which(name, path=search):
            yield found


def _on_path(search: Iterable[str]) -> list[str]:
    paths = (os.path.join(folder, name) for folder in search for name in _TOOLS)  # noqa: PTH118
    return [path for path in paths if os.access(path, os.X_OK)]


def _toolkit(program: str, home: str) -> Iterator[str]:
    """The folder above a compiler's `bin`, or what a compiler may have in it."""
    top = Path(program).parent.parent
    is_personal = top.parent == Path(home) and top.name.startswith(".")
    if is_personal or _is_too_wide(str(top), home):
        yield from (str(top / part) for part in _OF_A_TOOLKIT)
    else:
        yield str(top)


def _from_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name in _FOLDERS:
        for value in {environment.get(name, ""), os.environ.get(name, "")}:
            yield from (path for path in value.split(os.pathsep) if path.startswith("/"))
    yield from (os.environ[name] for name in _ROOTS if os.environ.get(name, "").startswith("/"))


def _wheels() -> tuple[str, ...]:
    """Where the wheels of a CUDA toolkit lie."""
    return (str(Path(sysconfig.get_path("platlib"), "nvidia")),)


def _is_too_wide(place: str, home: str) -> bool:
    """Whether a folder holds what is the user's own: his home, all homes, or everything."""
    real, own = Path(os.path.realpath(place)), Path(os.path.realpath(home))
    return real == own or real in own.parents or str(real) in ("/", "/tmp", "/var/tmp")


def _is_ccache(program: str) -> bool:
    """Whether a compiler is ccache itself, or a script that starts it."""
    if Path(program).name == _CCACHE:
        return True
    try:
        with open(program, "rb") as file:
            head = file.read(_SCRIPT_BYTES)
    except OSError:
        return False
    return head.startswith(b"#!") and _CCACHE.encode() in head


def _ccache_folders(search: str, home: str) -> tuple[str, ...]:
    """Where ccache keeps objects and temporary files; made where they aren't there yet."""
    program = shutil.which(_CCACHE, path=search)
    folders = [_ask_ccache(program, key, home) for key in _CCACHE_FOLDERS] if program else []
    found = [folder for folder in folders if folder.startswith("/")]
    for folder in found:
        with contextlib.suppress(OSError):
            Path(folder).mkdir(parents=True, exist_ok=True)
    return tuple(found) or (f"{home}/.cache/ccache", f"{home}/.ccache")


def _ask_ccache(program: str, key: str, home: str) -> str:
    environment = {**compiler_environment(Path("/tmp")), "HOME": home}
    try:
        return answer(
            [program, f"--get-config={key}"], _QUESTION_DEADLINE_S, env=environment
        ).strip()
    except MachineError:
        return ""
