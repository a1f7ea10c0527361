"""Whether a checkout stays as it is while it isn't its turn, and what runs leave behind in it.

A file is told by what its inode says: to write to one changes its time of change, which nobody can
set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

_ALWAYS = (".git", "__pycache__", ".pytest_cache")
"""Folders in which every run may leave what it likes."""
_VARIES = re.compile(r"[0-9a-f]{6,}|[0-9]+")
"""What differs from run to run in names: dates, numbers of processes, hashes."""

State = dict[str, tuple[int, ...]]
"""Of every file, by its path in the checkout."""


class CheckoutWatch:
    """What checkouts looked like when they were left alone."""

    def __init__(self) -> None:
        self._seen: dict[Path, State] = {}

    def look(self, folder: Path) -> None:
        self._seen[folder] = state_of(folder)

    def forget(self, folder: Path) -> None:
        """Somebody will change it who may."""
        self._seen.pop(folder, None)

    def touched(self, folder: Path) -> tuple[str, ...]:
        """Files that changed, came or went since the last look; none without one."""
        before = self._seen.get(folder)
        if before is None:
            return ()
        now = state_of(folder)
        return tuple(sorted(path for path in before | now if before.get(path) != now.get(path)))

    def left(self, folder: Path, beside: Path, allowed: Callable[[str], bool]) -> tuple[str, ...]:
        """Files that came since the last look, and whose like another checkout doesn't hold.

        Args:
            folder: that was looked at before it ran.
            beside: a checkout in which the same commands ran.
            allowed: whether a path is where results go.
        """
        before = self._seen.get(folder)
        if before is None:
            return ()
        usual = {_kind(path) for path in (*before, *state_of(beside))}
        return tuple(
            path
            for path in sorted(state_of(folder))
            if path not in before
            and _kind(path) not in usual
            and not allowed(path)
            and not any(part in _ALWAYS for part in PurePosixPath(path).parts)
        )


def state_of(folder: Path) -> State:
    """Of every file in a folder; links are not followed."""
    return dict(_files(os.fspath(folder)))


def _files(root: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    waiting = [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue  # a folder that went meanwhile
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield (
                entry.path[len(root) + 1 :],
                (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            )


def _kind(path: str) -> str:
    return _VARIES.sub("#", path)
