"""The file of results that one run of a command writes, found by its pattern."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from roofsmith.wording import some_of

MAX_BYTES = 64 * 1024**2


class NoResultError(Exception):
    """A run left no results that can be used; the message says why."""


class ResultFiles:
    """What a run in one folder writes. Made just before the run, which it clears the way for.

    Results of earlier runs are removed; what is left is told by its time stamp. What lies behind a
    link, such as a folder that is carried, is the user's own.
    """

    def __init__(self, folder: Path, pattern: str, setting: str) -> None:
        """Remove what earlier runs wrote.

        Args:
            folder: that the command runs in.
            pattern: of the file's path in it, as `Path.glob` takes it.
            setting: where the target names the pattern, for messages.
        """
        self._folder, self._pattern, self._setting = folder, pattern, setting
        for path in self._found():
            if path.parent.resolve().is_relative_to(folder.resolve()):
                path.unlink(missing_ok=True)
        self._before = {path: path.stat().st_mtime_ns for path in self._found()}

    def text(self) -> str:
        """What the run wrote, in one file or in several that are the same.

        Raises:
            NoResultError: there is none, it can't be read, or there are several that differ: by
                time, whoever writes last would choose.
        """
        texts = {read(path): str(path.relative_to(self._folder)) for path in self._written()}
        if len(texts) > 1:
            raise NoResultError(
                f"one run wrote {len(texts)} different files {self._pattern}:"
                f" {some_of(list(texts.values()))}; let `{self._setting}` name one of them"
            )
        return next(iter(texts))

    def path(self) -> Path:
        """The file, of several that are the same the first.

        Raises:
            NoResultError: there is none.
        """
        return self._written()[0]

    def _written(self) -> list[Path]:
        if written := sorted(path for path in self._found() if self._is_new(path)):
            return written
        raise NoResultError(f"it wrote no file {self._pattern}{_others(self._folder)}")

    def _is_new(self, path: Path) -> bool:
        return path.stat().st_mtime_ns != self._before.get(path)

    def _found(self) -> list[Path]:
        return [path for path in self._folder.glob(self._pattern) if path.is_file()]


def read(path: Path) -> str:
    """The text of a file of results, with its line ends: a bare `\\r` is a line begun anew.

    Raises:
        NoResultError: it is too large, or can't be read.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise NoResultError(f"{path.name} has more than {MAX_BYTES // 1024**2} MiB")
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return file.read()
    except OSError as error:
        raise NoResultError(f"{path} can't be read: {error.strerror}") from error


def _others(folder: Path) -> str:
    """CSVs that lie elsewhere in a checkout, for whoever wrote the wrong pattern."""
    found = list(_csvs(folder))
    return f"; there are {some_of(found)}" if found else "; there is no CSV at all"


def _csvs(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in sorted(files):
            if name.endswith(".csv"):
                yield os.path.relpath(Path(parent, name), folder)


def leave(folder: Path | None, candidate_id: str, name: str, content: str | Path) -> None:
    """Leave something a tool wrote for whoever keeps evidence; that it can't be is no fault.

    Args:
        folder: of all candidates; None: nobody keeps any.
        candidate_id: whose it is.
        name: of the file, with folders.
        content: a text, or a plain file to copy.
    """
    if folder is None:
        return
    with suppress(OSError):
        path = folder / candidate_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8", errors="surrogateescape")
        elif content.stat().st_size <= MAX_BYTES and not content.is_symlink():
            shutil.copyfile(content, path)
