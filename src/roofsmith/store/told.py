"""Changes that were told from within a campaign's directory, until a record holds them.

The worktree is put back to the incumbent before a change is judged, so of one that was edited there
the ledger's record would be the only copy, and that comes last. Until then it lies here:

    told/<candidate>/files/        the changed sources, under their paths
    told/<candidate>/command       what tells it again
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.kernel import SourceFile
from roofsmith.store.files import replace, storage_errors, sync_directory

FOLDER = "told"
_FILES = "files"
_COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Told:
    """A change that no record holds yet."""

    candidate_id: str
    folder: Path
    command: str
    """Tells it again."""


def files_of(directory: Path, candidate_id: str) -> Path:
    """Where a change's files are, or would be."""
    return directory / FOLDER / candidate_id / _FILES


def keep(directory: Path, candidate_id: str, sources: Sequence[SourceFile], command: str) -> None:
    """Write a change down, durably.

    Raises:
        StorageError: the disk is full or read-only.
    """
    folder = files_of(directory, candidate_id)
    with storage_errors("keep the change that was told in", folder):
        for source in sources:
            path = folder / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, source.text.encode(), durable=True)
            sync_directory(path.parent)
        replace(folder.with_name(_COMMAND), f"{command}\n".encode(), durable=True)  # says: whole
        sync_directory(folder.parent)


def kept(directory: Path) -> Iterator[Told]:
    """The changes that are kept, those that were written whole."""
    for path in sorted((directory / FOLDER).glob(f"*/{_COMMAND}")):
        with storage_errors("read", path):
            yield Told(path.parent.name, path.parent / _FILES, path.read_text().strip())


def drop(directory: Path, candidate_id: str) -> None:
    """Forget a change: it is in the ledger, or never will be."""
    shutil.rmtree(files_of(directory, candidate_id).parent, ignore_errors=True)
    if not any((directory / FOLDER).glob("*")):
        shutil.rmtree(directory / FOLDER, ignore_errors=True)
