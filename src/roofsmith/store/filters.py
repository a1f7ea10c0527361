"""Filters that .gitattributes asks for: their programs run, or are missing, on the user's machine.

git runs them for every checkout, and for every status that has to look at a file again; where one
is required and its program is missing (`git-lfs`, `git-crypt`), git fails. So what is made here is
made without them, and gets its content from the user's own working tree.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from roofsmith.errors import StorageError, TargetError
from roofsmith.store.files import storage_errors
from roofsmith.store.git import Git

_SETTING = re.compile(r"filter\.(.+)\.(clean|smudge|process|required)", re.IGNORECASE)


def unfiltered(git: Git) -> Git:
    """The same, but files pass as git has them, whatever programs are missing."""
    settings = []
    for name in sorted({name for name, _, _ in _configured(git)}):
        settings += [f"filter.{name}.{key}=" for key in ("clean", "smudge", "process")]
        settings.append(f"filter.{name}.required=false")
    return replace(git, settings=tuple(settings))


def filters_of(git: Git, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of some files by path, for files that have one."""
    asked = "\0".join(paths).encode("utf-8", "surrogateescape")
    listed = git.run("check-attr", "-z", "--stdin", "filter", stdin=asked).split("\0")
    for path, value in zip(listed[::3], listed[2::3], strict=False):
        if value not in ("unspecified", "unset", "set"):
            yield path, value


def is_unchanged(git: Git, path: str, name: str) -> bool:
    """Whether a file that a filter changed on its way is what HEAD has of it.

    Raises:
        TargetError: the filter's program is missing, so nobody can tell.
    """
    try:
        cleaned = git.run("hash-object", "--", path)
    except StorageError as error:
        raise TargetError(
            f"git can't tell whether {path} in {git.directory} was changed: its filter {name!r}"
            f" (.gitattributes) fails: {error.message.partition('): ')[2]}",
            hint=f"have `git status` work there: install the program of {name!r}, or unlock it",
        ) from error
    return cleaned == git.ask("rev-parse", f"HEAD:{path}")


def fill_filtered(git: Git, source: Path) -> None:
    """Give a checkout the files that other filters than Git LFS make, as the user has them.

    Args:
        source: top of the repository that it is a clone of.

    Raises:
        StorageError: the disk is full.
    """
    makes = {n for n, k, v in _configured(Git(source)) if k in ("smudge", "process") and v != "cat"}
    if not makes - {"lfs"}:
        return
    for path, name in filters_of(git, git.run("ls-files", "-z").split("\0")[:-1]):
        theirs, ours = source / path, git.directory / path
        if name in makes - {"lfs"} and theirs.is_file() and not ours.is_symlink():
            with storage_errors("write", ours), suppress(FileNotFoundError):
                shutil.copyfile(theirs, ours)


def _configured(git: Git) -> Iterator[tuple[str, str, str]]:
    """Name, key and value of every setting of a filter."""
    listed = git.ask("config", "--null", "--get-regexp", r"^filter\.") or ""
    for entry in filter(None, listed.split("\0")):
        key, _, value = entry.partition("\n")
        if found := _SETTING.fullmatch(key):
            yield found[1], found[2].lower(), value
