"""Reads the user's source files, and says what is wrong with one that can't be used."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.dialects import dialect_of
from roofsmith.domain.kernel import Language, SourceFile
from roofsmith.errors import TargetError

LANGUAGES: dict[str, Language] = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".cu": "cuda", ".hip": "hip",
    ".py": "torch",
}  # fmt: skip
"""Suffixes of kernel files. What a `.py` file imports decides; see `language_of`."""

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_OWN = (LANGUAGES.keys() - {".py"}) | {
    ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tpp",
}  # fmt: skip
"""Suffixes of what a kernel may bring along; nothing else is read because a source says so."""
_IMPORTS_TRITON = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.MULTILINE)

MAX_SOURCE_BYTES = 1024 * 1024
"""A kernel, an include or a reference; more is a data file that was named by mistake."""


def read_text(
    path: Path, what: str, *, limit_bytes: int = MAX_SOURCE_BYTES, may_be_empty: bool = False
) -> str:
    """A text file's content, its line ends as they are.

    Raises:
        TargetError: not there, not a file, too big, empty, or not UTF-8; `what` says what it
            should have been, such as `kernel`.
    """
    try:
        if not path.exists():
            raise TargetError(f"{what} {path} doesn't exist{_similar(path)}")
        if not path.is_file():
            kind = "a directory" if path.is_dir() else "not a regular file"
            raise TargetError(f"{what} {path} is {kind}")
        size_bytes = path.stat().st_size
        if size_bytes > limit_bytes:
            raise TargetError(
                f"{what} {path} has {size_bytes:,} bytes; at most {limit_bytes:,} are accepted"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise TargetError(f"{what} {path} can't be read: {error}") from error
    return _decoded(data, path, what, may_be_empty=may_be_empty)


def own_files(kernel: Path) -> tuple[Path, ...]:
    """What a kernel includes in quotes and finds beside it, and what these include in turn.

    Raises:
        TargetError: one of them can't be read.
    """
    found: dict[Path, None] = {}
    waiting = [kernel] if kernel.suffix.lower() in _OWN else []
    while waiting:
        path = waiting.pop(0)
        for name in _INCLUDED.findall(read_text(path, "include", may_be_empty=True)):
            file = Path(os.path.normpath(path.parent / name))
            is_own = file.suffix.lower() in _OWN and not name.startswith("/") and file.is_file()
            if is_own and file not in found and file != Path(os.path.normpath(kernel)):
                found[file] = None
                waiting.append(file)
    return tuple(found)


def imported_files(module: Path, text: str) -> tuple[Path, ...]:
    """Python files beside a module that it imports by name, and what these import in turn.

    Args:
        module: the file.
        text: what it holds; one that can't be parsed imports nothing.

    Raises:
        TargetError: one of them can't be read.
    """
    found: dict[Path, None] = {}
    waiting = [text]
    while waiting:
        for name in _imported(waiting.pop()):
            file = module.parent / f"{name}.py"
            if file not in found and file.name != module.name and file.is_file():
                found[file] = None
                waiting.append(read_text(file, "import", may_be_empty=True))
    return tuple(found)


def _imported(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name.partition(".")[0] for one in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.partition(".")[0]
            case _:
                pass


def candidate_names(paths: Sequence[Path]) -> list[str]:
    """What a kernel and its includes are called in a candidate.

    Relative to the folder that holds them all, so `#include "../include/x.h"` finds its file
    wherever a candidate is built.

    Raises:
        TargetError: a file is named twice.
    """
    files = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - keeps links
    for index, file in enumerate(files):
        if file in files[:index]:
            raise TargetError(f"{file} is named twice")
    folder = Path(os.path.commonpath([file.parent for file in files]))
    return [file.relative_to(folder).as_posix() for file in files]


def source_file(name: str, text: str) -> SourceFile:
    """A source under a name that a candidate can have.

    Raises:
        TargetError: the name has a backslash, or isn't Unicode.
    """
    try:
        return SourceFile(path=name, text=text)
    except ValidationError as error:
        raise TargetError(f"file name {name!r} can't be used: rename the file") from error


def language_of(path: Path, text: str) -> Language:
    """The language that a kernel's suffix says; of a Python file, what it imports.

    Raises:
        TargetError: none that can be built here.
    """
    language = LANGUAGES.get(path.suffix.lower())
    if language is None:
        raise TargetError(
            f"kernel {path}: no language for the suffix {path.suffix!r}",
            hint=f"kernels end in {', '.join(LANGUAGES)}; or say `language: c` in the target",
        )
    if language != "torch":
        return language
    return dialect_of(text) or ("triton" if _IMPORTS_TRITON.search(text) else language)


def _decoded(data: bytes, path: Path, what: str, *, may_be_empty: bool) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TargetError(
            f"{what} {path}:{line}: not UTF-8: byte 0x{data[error.start]:02x}",
            hint="convert the file, for example with `iconv -f latin1 -t utf-8`",
        ) from error
    if "\0" in text:
        raise TargetError(f"{what} {path} is not a text file: it holds zero bytes")
    if not text.strip() and not may_be_empty:
        raise TargetError(f"{what} {path} is empty")
    return text


def _similar(path: Path) -> str:
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
