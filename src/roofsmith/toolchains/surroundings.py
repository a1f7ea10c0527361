"""What a build read of the machine: headers that lie outside of the candidate.

Compilers say so themselves while they compile, when these variables ask them to: gcc, also where
nvcc calls it, by one, clang and hipcc by the others. That costs nothing, and unlike flags they work
for several sources on one command line, each of which adds to the list.

Linked libraries aren't on it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from roofsmith.domain.values import Value, canonical_json, content_id

_RULES, _HEADERS = "read.d", "read.txt"
_CHANGING = ""
"""The digest of files that were written while they were read: nothing has it."""
_WORD = re.compile(r"(?:\\.|[^\s\\])+")
_ESCAPED = re.compile(r"\\([ \t#:\\])")


class Surroundings(Value):
    """Files outside of a candidate that its build read, and what was in them."""

    paths: tuple[str, ...] = ()
    """Absolute, sorted."""
    digest: str = content_id(canonical_json([]))
    """Of all their contents."""

    def are_as_they_were(self) -> bool:
        """Whether a build that reads them now would read the same."""
        return self.digest == _digest(self.paths)


def asking(folder: Path, sources: Path) -> dict[str, str]:
    """Environment variables that make compilers list in `folder` what they include."""
    # gcc takes what follows a space for something else. Between the two folders there is none.
    rules = os.path.relpath(folder / _RULES, sources)
    return {
        "SUNPRO_DEPENDENCIES": rules,  # unlike DEPENDENCIES_OUTPUT with the system's headers
        "CC_PRINT_HEADERS": "1",
        "CC_PRINT_HEADERS_FILE": str(folder / _HEADERS),
    }


def surroundings(folder: Path, sources: Path, own: Path, since_s: float) -> Surroundings:
    """What compilers listed.

    Args:
        folder: that `asking` was told.
        sources: the candidate's files, among which they ran; these don't count.
        own: a folder of the build's own, whose files don't count either.
        since_s: when they began, in seconds since the epoch. What has changed since may have been
            read before or after, so that no later build may take this one for its own.
    """
    listed = {os.path.normpath(sources / path) for path in _listed(folder)}
    outside = [
        path for path in listed if not any(Path(path).is_relative_to(f) for f in (sources, own))
    ]
    paths = tuple(sorted(path for path in outside if _status(path) is not None))
    steady = all((found := _status(path)) and found.st_ctime <= since_s for path in paths)
    return Surroundings(paths=paths, digest=_digest(paths) if steady else _CHANGING)


def _listed(folder: Path) -> Iterator[str]:
    """Paths as compilers wrote them, some several times."""
    for line in _text(folder / _RULES).replace("\\\n", " ").splitlines():
        for word in _WORD.findall(line.partition(": ")[2]):
            yield _ESCAPED.sub(r"\1", word).replace("$$", "$")
    yield from _text(folder / _HEADERS).splitlines()


def _text(path: Path) -> str:
    """Empty where the compiler doesn't know that variable."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _digest(paths: tuple[str, ...]) -> str:
    return content_id(canonical_json([_content(path) for path in paths]))


def _content(path: str) -> str | None:
    status = _status(path)
    return None if status is None else _hashed(path, status.st_size, status.st_mtime_ns)


def _status(path: str) -> os.stat_result | None:
    """Of a regular file: devices and pipes hold nothing that could be the same again."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


@cache
def _hashed(path: str, _size_bytes: int, _changed_ns: int) -> str | None:
    """The content of a file, read once as long as it looks unchanged."""
    try:
        return content_id(Path(path).read_bytes())
    except OSError:
        return None
