"""What a round's build, test, benchmark and profiler wrote, kept in the campaign's directory.

Logs and tables stand in `rounds/round-N/artifacts/`, what profilers left in `profiles/round-N/`;
the ledger holds the hash of each.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.artifact import Artifact, KeptProfiles
from roofsmith.store.files import storage_errors, write_file

PROFILE = "profile"
"""The folder, among what a candidate's commands left, of what profilers did."""
MOST_BYTES = 64 * 1024**2
"""Of a round, all files together: the smallest first. Chosen."""
MOST_FILES = 200
LONGEST_NAME, LONGEST_PATH = 128, 512
"""In bytes, so that what is written beside a campaign's own name fits, too. Chosen."""
LEFT_OUT = "left_out.txt"
"""Names what was beyond these, and what has a name that no record could hold."""


@dataclass(frozen=True, slots=True)
class EvidenceFiles:
    """Copies what commands leave of each candidate.

    Args:
        directory: the campaign's.
        left: holds a folder for each candidate, by its id.
        profiles: which rounds' profiles are kept.
        since_s: files that are older are another campaign's.
    """

    directory: Path
    left: Path
    profiles: KeptProfiles
    since_s: float

    def gather(
        self, round_: int, candidate_id: str, kept: bool, logs: bool = True
    ) -> tuple[Artifact, ...]:
        """Copy what there is of a candidate, and hash it; without logs, profiles alone: the others
        may be of later runs.

        Raises:
            StorageError: the disk is full.
        """
        profiled = self.profiles == "all" or (self.profiles == "kept" and kept)
        source, found, left_out, size = self.left / candidate_id, list[Artifact](), "", 0
        own, other = f"rounds/round-{round_}/artifacts", f"profiles/round-{round_}"
        for path in sorted(self._files(source), key=lambda path: path.stat().st_size):
            inner = path.relative_to(source)
            is_profile = inner.parts[0] == PROFILE
            if not (profiled if is_profile else logs):
                continue
            if not _is_name(inner):
                left_out += f"{str(inner)[:LONGEST_PATH]!a}: a name that isn't kept\n"
                continue
            size += path.stat().st_size
            if size > MOST_BYTES or len(found) >= MOST_FILES:
                left_out += f"{inner}: {path.stat().st_size} bytes\n"
                continue
            with storage_errors("read", path):
                data = path.read_bytes()
            name = "/".join((other, *inner.parts[1:]) if is_profile else (own, *inner.parts))
            found.append(self._written(name, data))
        if left_out:
            found.append(self._written(f"{own}/{LEFT_OUT}", left_out.encode()))
        return tuple(sorted(found, key=lambda one: one.path))

    def _written(self, name: str, data: bytes) -> Artifact:
        write_file(self.directory / name, data)
        return Artifact(path=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))

    def _files(self, source: Path) -> Iterator[Path]:
        for place, _, names in os.walk(source):
            for name in sorted(names):
                path = Path(place, name)
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_mtime >= self.since_s:
                    yield path


def _is_name(inner: Path) -> bool:
    """Whether a path can stand in a record: a process that is profiled may have chosen it."""
    if not str(inner).isprintable() or str(inner) in (PROFILE, LEFT_OUT):
        return False
    lengths = [len(part.encode()) for part in inner.parts]
    return max(lengths) <= LONGEST_NAME and sum(lengths) + len(lengths) <= LONGEST_PATH


def changed_artifacts(directory: Path, artifacts: Iterable[Artifact]) -> Iterator[tuple[str, str]]:
    """Path and fault of each file that isn't what the ledger's hash is of.

    Raises:
        StorageError: one can't be read.
    """
    for one in artifacts:
        path = directory / one.path
        if not path.is_file() or path.is_symlink():
            yield one.path, "is missing, though the ledger has its hash"
            continue
        with storage_errors("read", path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != one.sha256:
            yield one.path, "was changed: the ledger has another hash of it"
