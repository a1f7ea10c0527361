"""Finds modes, owners, times and attributes that an agent changed, and puts them back.

For where no mount namespace keeps it from that: Landlock knows none of them. What is in the files
is the user's, who may work on them meanwhile: it is never put back here.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from roofsmith.proposers.agent.watch import entries

MOST_ENTRIES = 200_000
"""Of all folders together, for which an ask waits seconds; the rest isn't looked at. Chosen."""
READ_BYTES = 64 << 20
"""Of all contents; where one isn't read, a time that was set to now isn't told from a change.
Chosen, as above."""


@dataclass(frozen=True, slots=True)
class _Held:
    status: os.stat_result
    attributes: dict[str, bytes]
    content: bytes | None
    """Digest of a file's bytes, or of a folder's names; None: not read."""


class AttributeWatch:
    """Remembers what folders and files are like, but for what is in them.

    Args:
        deep: looked at with all that is in them.
        flat: looked at with their entries.
        besides: paths within that don't count, with all that is in them.
    """

    def __init__(
        self, deep: Sequence[Path], flat: Sequence[Path], besides: Collection[Path]
    ) -> None:
        found = (
            *entries(deep, besides),
            *((path, status) for folder in flat for path, status in entries([folder], besides, 1)),
        )
        self._before: dict[Path, _Held] = {}
        left = READ_BYTES
        for path, status in islice(found, MOST_ENTRIES):
            if path not in self._before:
                is_read = status.st_size <= left
                left -= status.st_size if is_read and stat.S_ISREG(status.st_mode) else 0
                self._before[path] = _held(path, status, is_read=is_read)

    def changed(self) -> tuple[Path, ...]:
        """What is other than it was; put back where that can be, parents first."""
        return tuple(path for path, before in self._before.items() if _put_back(path, before))


def _held(path: Path, status: os.stat_result, *, is_read: bool) -> _Held:
    attributes: dict[str, bytes] = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            attributes[name] = os.getxattr(path, name, follow_symlinks=False)
    content = None
    with suppress(OSError):
        if stat.S_ISDIR(status.st_mode):
            content = _digest(b"\0".join(sorted(map(os.fsencode, path.iterdir()))))
        elif stat.S_ISREG(status.st_mode) and is_read:
            content = _digest(path.read_bytes())
    return _Held(status, attributes, content)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _put_back(path: Path, before: _Held) -> bool:
    """Whether a file is another than it was in what isn't its contents; it isn't any more.

    One that was replaced, or has another link, was so by whoever may write there. Nobody can set
    the time of the last change of state, so it tells of what was changed and changed back, too.
    """
    was = before.status
    try:
        now = path.lstat()
    except OSError:
        return False
    same = ("st_ino", "st_dev", "st_nlink")
    if now.st_ctime_ns == was.st_ctime_ns or any(
        getattr(now, name) != getattr(was, name) for name in same
    ):
        return False
    held = _held(path, now, is_read=before.content is not None)
    if before.content is None:
        is_same_text = now.st_size == was.st_size and now.st_mtime_ns != now.st_ctime_ns
    else:
        is_same_text = held.content == before.content
    is_marked = (now.st_mode, now.st_uid, now.st_gid) != (was.st_mode, was.st_uid, was.st_gid)
    is_marked = is_marked or held.attributes != before.attributes
    if not (is_marked or is_same_text):
        return False
    with suppress(OSError):
        os.chown(path, was.st_uid, was.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(was.st_mode):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(was.st_mode))
    _set_attributes(path, held.attributes, before.attributes)
    if is_same_text:
        with suppress(OSError):
            times = (now.st_atime_ns, was.st_mtime_ns)
            os.utime(path, ns=times, follow_symlinks=False)
    return True


def _set_attributes(path: Path, now: dict[str, bytes], was: dict[str, bytes]) -> None:
    for name in now.keys() | was.keys():
        with suppress(OSError):
            if name not in was:
                os.removexattr(path, name, follow_symlinks=False)
            elif now.get(name) != was[name]:
                os.setxattr(path, name, was[name], follow_symlinks=False)
