"""Files that Git LFS keeps outside of git: what a checkout has of them are pointers to content.

A pointer is a short text (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md), the content
lies in the repository's `lfs/objects` and in its working tree. It is taken from there, by its hash,
so that neither git-lfs nor a network is needed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from roofsmith.store.files import storage_errors
from roofsmith.store.git import Git

_MOST_POINTER_BYTES = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n"
)


def pointed_to(data: bytes) -> str | None:
    """SHA-256 of the content that a pointer stands for, in hexadecimal; None: it is no pointer."""
    found = _POINTER.match(data) if len(data) <= _MOST_POINTER_BYTES else None
    return found[1].decode() if found is not None else None


def is_pointed_to(data: bytes, git: Git, blob: str) -> bool:
    """Whether git has a pointer of Git LFS to this content."""
    pointer = (git.ask("cat-file", "blob", blob) or "").encode("utf-8", "surrogateescape")
    return pointed_to(pointer) == hashlib.sha256(data).hexdigest()


def fill_pointers(git: Git, source: Path) -> None:
    """Put content in place of pointers, as far as the repository that was cloned has it.

    What it doesn't have stays a pointer, as it is there.

    Args:
        source: top of the repository that it is a clone of.

    Raises:
        StorageError: the disk is full.
    """
    pointers = dict(_pointers(git))
    if not pointers:
        return
    store = source / Git(source).run("rev-parse", "--git-common-dir") / "lfs" / "objects"
    for path, digest in pointers.items():
        for content in (store / digest[:2] / digest[2:4] / digest, source / path):
            if content.is_file() and _digest(content) == digest:
                with storage_errors("write", git.directory / path):
                    shutil.copyfile(content, git.directory / path)
                break


def _pointers(git: Git) -> Iterator[tuple[str, str]]:
    """Path and hash of every pointer among the files that git-lfs is to look after."""
    for path in git.run("ls-files", "-z", "--", ":(attr:filter=lfs)").split("\0"):
        file = git.directory / path
        if path and file.is_file() and not file.is_symlink():
            with storage_errors("read", file), file.open("rb") as opened:
                digest = pointed_to(opened.read(_MOST_POINTER_BYTES + 1))
            if digest is not None:
                yield path, digest


def _digest(file: Path) -> str:
    with storage_errors("read", file), file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
