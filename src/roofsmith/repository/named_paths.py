"""Which files a shell command names, as far as its words show. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_BETWEEN: Final = re.compile(r"[\s;&|<>()'\"`$=,:]+")
_INTO: Final = frozenset(("cd", "pushd", "-C", "--directory"))
"""Words whose next one is a folder that later words may be relative to."""
_MAKEFILES: Final = ("Makefile", "makefile", "GNUmakefile")


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
