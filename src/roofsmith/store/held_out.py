"""Workloads that no proposer is shown, outside of the campaign's directory, which agents read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.held_out import HeldOut
from roofsmith.store.files import replace, storage_errors


@dataclass(frozen=True, slots=True)
class HeldOutFiles:
    """A file per draw, called by its digest. Where one is gone, the campaign draws anew."""

    folder: Path

    def keep(self, held: HeldOut) -> None:
        path = self._path(held.digest)
        with storage_errors("keep the held-out workloads in", path):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(path, held.model_dump_json().encode(), durable=True)

    def find(self, digest: str) -> HeldOut | None:
        """The draw of a digest; None where it is gone, or was changed."""
        try:
            found = HeldOut.model_validate_json(self._path(digest).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.digest == digest else None

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"
