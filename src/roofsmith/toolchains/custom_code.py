"""Code of one's own: what a candidate's flags and its built library take from others.

Names in a source can be hidden; what the loader has to find can't. The linker refuses symbols that
nobody has (`-z defs`), so whatever a library leaves open comes from those that it names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from roofsmith.analysis.scan.native_libraries import LOADS
from roofsmith.analysis.scan.runtimes import foreign_link, is_runtime
from roofsmith.analysis.scan.sources import library_calls
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built, Candidate
from roofsmith.domain.outcome import Cheated
from roofsmith.errors import StorageError
from roofsmith.toolchains import nvcc_flags
from roofsmith.toolchains.elf import Import, Imports, imports
from roofsmith.toolchains.flags import joined
from roofsmith.wording import some_of

_SHOWN = 8
_LEFT_OPEN = re.compile(
    r"__gmon_start__|_ITM_\w+|_Jv_\w+|_ZGTt\w+|_ZTH\w+|__cxa_\w+|__(de)?register_frame\w*"
    r"|__tls_get_addr|_?_?pthread_\w+|__dso_handle|__(start|stop)_\w+"
)
"""Weak symbols of compilers and runtimes that need no library. Any other one is filled by whatever
the process has loaded, such as the BLAS of its PyTorch, and the linker says nothing of it."""
_RUNTIME_OPENS = re.compile(r"dl(m?open|v?sym)")
"""What the static CUDA runtime itself asks of the loader, to find the driver."""
_SHARED_RUNTIME = ("-cudart=shared", "-l:libcudart.so")
"""How the toolchain links the CUDA runtime where it isn't static."""


class CustomCode:
    """Only the runtimes of its language may work for a candidate."""

    def before_build(self, candidate: Candidate) -> Cheated | None:
        flags = _plain_flags(candidate)
        brought = [flag for flag in flags if foreign_link(flag)]
        found = [remark.text for remark in library_calls(candidate, _definitions(flags))]
        if brought:
            found.insert(0, f"links code from elsewhere ({', '.join(brought)})")
        return _cheated(found)

    def after_build(self, built: Built) -> Cheated | None:
        """Libraries that a build needs beside runtimes, and ways to load one.

        Raises:
            StorageError: the build can't be read.
        """
        if built.language in MODULE_LANGUAGES or built.language == "command":
            return None
        try:
            needed = imports(built.library.read_bytes())
        except OSError as error:
            raise StorageError(f"can't read {built.library}: {error.strerror or error}") from error
        except ValueError as error:
            return _cheated([f"what the built library takes from others can't be read: {error}"])
        return _cheated([*_libraries(needed), *_left_open(needed), *_loaders(built, needed)])


def _cheated(found: Sequence[str]) -> Cheated | None:
    return Cheated(reason="library_call", detail="; ".join(found)) if found else None


def _plain_flags(candidate: Candidate) -> tuple[str, ...]:
    """Flags in one spelling; none of a language without, or that aren't allowed anyway."""
    words = (*candidate.build.flags, *candidate.build.link)
    if candidate.language != "cuda":
        return joined(words)
    try:
        return nvcc_flags.normalised(words)
    except nvcc_flags.RefusedFlagError:
        return ()


def _definitions(flags: Sequence[str]) -> tuple[str, ...]:
    """Macros; nvcc's own spelling, and those that it hands to the compiler of the host."""
    handed = "--compiler-options="
    words = [word for flag in flags if flag.startswith(handed)
             for word in flag.removeprefix(handed).split(",")]  # fmt: skip
    marks = re.compile(r"(?:-D|--define-macro=)(.+)", re.DOTALL)
    found = (marks.fullmatch(word) for word in (*flags, *words))
    return tuple(match[1] for match in found if match is not None)


def _libraries(needed: Imports) -> Iterator[str]:
    """What the loader opens beside runtimes, each with what is wanted of it."""
    unversioned = [s for s in needed.symbols if s.library is None and not s.is_weak]
    for library in needed.libraries:
        if is_runtime(library):
            continue
        named = [symbol for symbol in needed.symbols if symbol.library == library]
        yield f"the built library needs {library}{_listed(named or unversioned)}"


def _left_open(needed: Imports) -> Iterator[str]:
    found = [
        symbol
        for symbol in needed.symbols
        if symbol.is_weak and symbol.library is None and not _LEFT_OPEN.fullmatch(symbol.name)
    ]
    if found:
        yield f"the built library takes what the process may have loaded{_listed(found)}"


def _loaders(built: Built, needed: Imports) -> Iterator[str]:
    """Ways to bring code in while it runs, but for what a runtime that is linked into it needs."""
    is_shared = any(word.startswith(_SHARED_RUNTIME) for word in shlex.split(built.command))
    is_static = built.language == "cuda" and not is_shared
    found = [
        symbol
        for symbol in needed.symbols
        if LOADS.fullmatch(symbol.name)
        and not (is_static and _RUNTIME_OPENS.fullmatch(symbol.name))
    ]
    if found:
        yield f"the built library loads code, or looks for some, while it runs{_listed(found)}"


def _listed(symbols: Sequence[Import]) -> str:
    return f" ({some_of([symbol.name for symbol in symbols], _SHOWN)})" if symbols else ""
