"""Finds what changed in folders that an agent has no business in, and puts it back.

A file's state is what `stat` says, the time of its last change of state included, which nobody but
the superuser can set: so nothing has to be read again to see that it is as it was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from roofsmith.proposers.agent.folder import remove_folder

REMEMBERED_BYTES = 256 << 20
"""Of contents, the smallest files first: what is beyond can't be put back. A ledger is small."""

State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    state: State
    mode: int
    content: bytes | str | None
    """Of a file; a link's target; None: a folder, or not remembered."""


class AgentWatch:
    """Remembers folders and files as they are now."""

    def __init__(
        self,
        restored: Sequence[Path],
        seen: Sequence[Path] = (),
        besides: Collection[Path] = (),
        flat: Sequence[Path] = (),
    ) -> None:
        """Look at them.

        Args:
            restored: folders and files that `changed` puts back as they were.
            seen: those that it only looks at: they are somebody else's.
            besides: paths within that don't count, with all that is in them.
            flat: folders of which it looks at the entries, and not into them.
        """
        self._restored, self._seen = tuple(restored), tuple(seen)
        self._besides, self._flat = frozenset(besides), tuple(flat)
        self._before = self._now()
        self._kept = _remembered(self._restored, self._besides)

    def changed(self) -> tuple[Path, ...]:
        """What is other than it was; what can be put back is, afterwards."""
        now = self._now()
        other = sorted(
            path
            for path in self._before.keys() | now.keys()
            if self._before.get(path) != now.get(path)
        )
        if other:
            self._restore(other)
        return tuple(other)

    def _now(self) -> dict[Path, State]:
        listed = [Path(folder, name) for folder in self._flat for name in _names(folder)]
        states = {path: _state(status) for path in listed if (status := _lstat(path))}
        for roots in (self._seen, self._restored):
            states |= _states(roots, self._besides)
        return states

    def _restore(self, other: Sequence[Path]) -> None:
        mine = [path for path in other if any(path.is_relative_to(r) for r in self._restored)]
        for path in mine:
            kept = self._kept.get(path)
            if kept is None and path not in self._before:
                remove_folder(path)
        for path in mine:
            if (kept := self._kept.get(path)) is not None:
                with suppress(OSError):
                    _put_back(path, kept)


def _states(roots: Sequence[Path], besides: Collection[Path]) -> dict[Path, State]:
    found = {}
    for path, status in entries(roots, besides):
        is_folder = stat.S_ISDIR(status.st_mode)
        found[path] = (status.st_mode,) if is_folder else _state(status)
    return found


def _state(status: os.stat_result) -> State:
    return (
        status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _remembered(roots: Sequence[Path], besides: Collection[Path]) -> dict[Path, _Entry]:
    found, left = {}, REMEMBERED_BYTES
    for path, status in sorted(entries(roots, besides), key=lambda entry: entry[1].st_size):
        content: bytes | str | None = None
        with suppress(OSError):
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)  # noqa: PTH115
            elif stat.S_ISREG(status.st_mode) and status.st_size <= left:
                content = path.read_bytes()
                left -= len(content)
        if content is not None or stat.S_ISDIR(status.st_mode):
            found[path] = _Entry(_state(status), stat.S_IMODE(status.st_mode), content)
    return found


def entries(
    roots: Sequence[Path], besides: Collection[Path], depth: float = inf
) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything in folders down to a depth, and they themselves; parents first, no link's end."""
    waiting = [(path, depth) for path in reversed(roots)]
    while waiting:
        path, left = waiting.pop()
        if besides and path in besides:
            continue
        if (status := _lstat(path)) is not None:
            yield path, status
            if left and stat.S_ISDIR(status.st_mode):
                names = sorted(_names(path), reverse=True)
                waiting += [(path / name, left - 1) for name in names]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _put_back(path: Path, kept: _Entry) -> None:
    if kept.content is None:
        if path.is_symlink() or not path.is_dir():
            remove_folder(path)
            path.mkdir(parents=True)
        path.chmod(kept.mode)
    elif isinstance(kept.content, str):
        remove_folder(path)
        path.symlink_to(kept.content)
    else:
        with suppress(OSError):
            if _state(path.lstat()) == kept.state:
                return
        # The same file where it is there: somebody may hold it open, or a lock on it.
        if path.is_symlink() or not path.is_file() or path.lstat().st_ino != kept.state[1]:
            remove_folder(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.chmod(kept.mode | stat.S_IWUSR)
        path.write_bytes(kept.content)
        path.chmod(kept.mode)
