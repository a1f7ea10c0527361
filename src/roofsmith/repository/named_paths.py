"""Which files a shell command names, as far as its words show, and which of a repository's to read
before one changes it: these, what dispatches the kernel, and its helpers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from roofsmith.domain.kernel import SourceFile
from roofsmith.errors import TargetError
from roofsmith.store.sources import read_text

_BETWEEN: Final = re.compile(r"[\s;&|<>()'\"`$=,:]+")
_INTO: Final = frozenset(("cd", "pushd", "-C", "--directory"))
"""Words whose next one is a folder that later words may be relative to."""
_MAKEFILES: Final = ("Makefile", "makefile", "GNUmakefile")
_LED_TO: Final = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"|^[ \t]*(?:from|import)[ \t]+([\w.]+)', re.MULTILINE
)
_MOST_FILES: Final = 12
_MOST_BYTES, _MOST_OF_ONE = 128 * 1024, 64 * 1024
"""Of what is read first, all together and each: it stands in a record and in briefs. Chosen."""


def read_first(
    folder: Path,
    tracked: Collection[str],
    commands: Iterable[str],
    editable: Iterable[SourceFile],
) -> tuple[SourceFile, ...]:
    """Frozen files that say how the kernel is tested, dispatched and helped.

    Those that the commands name, and sources called like a program that one runs; what these and
    the editable files include or import.

    Args:
        folder: that the commands run in.
        tracked: files in it that git knows.
        commands: the test's first.
        editable: files, which whoever proposes is given anyway.
    """
    texts, own = dict[str, str](), {source.path: source.text for source in editable}
    named = [path for command in commands for path in sorted(named_paths(command))]
    programs = {PurePosixPath(path).name for path in named if path not in tracked}
    waiting = [path for path in named if path in tracked]
    waiting += [p for p in sorted(tracked) if PurePosixPath(p).stem in programs - {""}]
    waiting += [path for one in own.items() for path in _led_to(*one, tracked)]
    room = _MOST_BYTES
    while waiting and len(texts) < _MOST_FILES:
        path = waiting.pop(0)
        if path in own or path in texts or (folder / path).is_symlink():
            continue
        with suppress(TargetError):  # too large, or no text
            text = read_text(folder / path, "file", limit_bytes=min(room, _MOST_OF_ONE))
            texts[path], room = text, room - len(text.encode())
            waiting += _led_to(path, text, tracked)
    return tuple(SourceFile(path=path, text=text) for path, text in texts.items())


def _led_to(path: str, text: str, tracked: Collection[str]) -> Iterator[str]:
    """Tracked files that a file includes in quotes or imports."""
    for header, module in _LED_TO.findall(text):
        name = header or f"{module.replace('.', '/')}.py"
        near = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        alike = [one for one in tracked if one == name or one.endswith(f"/{name}")]
        if near in tracked or len(alike) == 1:
            yield near if near in tracked else alike[0]


def named_paths(command: str) -> frozenset[str]:
    """Paths that words of a command may stand for, relative to where it is run.

    So do a module's after `-m`, and a makefile's for `make`. What is named there needn't exist.
    """
    words = [word for word in _BETWEEN.split(command) if word]
    folders = [after for word, after in pairwise(words) if word in _INTO]
    return frozenset(
        posixpath.normpath(posixpath.join(folder, path))
        for path in _paths(words)
        for folder in ("", *folders)
    )


def _paths(words: list[str]) -> Iterator[str]:
    yield from words
    if any(posixpath.basename(word) in ("make", "gmake") for word in words):
        yield from _MAKEFILES
    for word, module in pairwise(words):
        if word == "-m":
            path = module.replace(".", "/")
            yield from (f"{path}.py", f"{path}/__main__.py")
