"""Builds on disk, one folder per content hash, each published whole or not at all.

<cache>/<key>/src/...      the sources as they were compiled, unless they were settled
<cache>/<key>/kernel.so
<cache>/<key>/build.log    everything that the compiler printed
<cache>/<key>/build.json   a `BuildRecord`
<cache>/<key>-2/...        the same, once files outside of the candidate have changed
<cache>/sources/<key>/...  sources that had to be in their place before they were compiled
<cache>/logs/<key>.log     of builds that failed: they aren't kept, the reason may lie elsewhere
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pydantic import Field, ValidationError

from roofsmith.domain.kernel import KernelResources
from roofsmith.domain.values import Value, content_id
from roofsmith.errors import StorageError
from roofsmith.scratch import exists, kernel_boot, pid_namespace
from roofsmith.toolchains.surroundings import Surroundings

LIBRARY, LOG, RECORD, SOURCES, TEMPORARY = "kernel.so", "build.log", "build.json", "src", "tmp"
_WORKSPACE = "work-"
_OWNER = re.compile(
    rf"{_WORKSPACE}(?P<boot>[0-9a-f]+(?:-[0-9a-f]+)*)\.(?P<space>\d+)\.(?P<pid>\d+)-\w+"
)
_SETTLED = "sources"
_BLOCK_BYTES = 1024**2
_ABANDONED_AFTER_S = 3600.0
"""A workspace this old belongs to a process that died: no build runs for an hour. So it is told of
those of other machines and containers, whose processes can't be looked up here."""


class BuildRecord(Value):
    """What a build made, without paths in the cache, so that it may be moved."""

    files: dict[str, str] = Field(default_factory=dict)
    """Relative path to SHA-256, of every file that the build made and that must stay as it is."""
    command: str
    warnings: tuple[str, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    build_time_s: float
    surroundings: Surroundings = Surroundings()


class BuildCache:
    """A folder of finished builds that several processes may share."""

    def __init__(self, directory: Path) -> None:
        """Raises StorageError if `directory` can't be made."""
        self.directory = directory
        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._sweep()

    def current(self, key: str) -> tuple[Path, BuildRecord | None]:
        """The build with this key that is whole, and read what it would read now.

        One that read something else stays where it is, for whoever has it loaded: the next one
        goes beside it.

        Returns:
            Its folder, or where it is to go, and its record if it is there.
        """
        for edition in count(1):
            folder = self.directory / (key if edition == 1 else f"{key}-{edition}")
            record = self._load(folder)
            if record is None or record.surroundings.are_as_they_were():
                return folder, record
        raise AssertionError("there is always a next number")

    def _load(self, folder: Path) -> BuildRecord | None:
        """A finished build; None if there is none, or if it is damaged."""
        try:
            record = BuildRecord.model_validate_json((folder / RECORD).read_bytes())
            intact = all(
                content_id((folder / path).read_bytes()) == digest
                for path, digest in record.files.items()
            )
        except (OSError, ValidationError):
            return None
        return record if intact else None

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A private folder beside the finished builds; what is left in it is removed at the end."""
        with storage_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            path = Path(tempfile.mkdtemp(prefix=_workspace_prefix(), dir=self.directory))
            (path / TEMPORARY).mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def settled(self, key: str) -> Path:
        return self.directory / _SETTLED / key

    def settle(self, key: str, files: Mapping[str, str]) -> Path:
        """Put sources where they will stay, before they are compiled.

        Returns:
            Their folder: the same for the same key, whichever process comes first.
        """
        folder = self.settled(key)
        with storage_errors(folder):
            folder.parent.mkdir(exist_ok=True)
            with self._locked():
                if not _holds(folder, files):
                    shutil.rmtree(folder, ignore_errors=True)
                    write_sources(files, folder)
        return folder

    def publish(self, workspace: Path, key: str, record: BuildRecord) -> tuple[Path, BuildRecord]:
        """Move a finished build into place, unless another process was faster.

        Returns:
            Its folder, and the record that holds: this one, or that of the other process.
        """
        with storage_errors(self.directory):
            shutil.rmtree(workspace / TEMPORARY)
            (workspace / RECORD).write_text(record.model_dump_json())
            with self._locked():
                folder, published = self.current(key)
                if published is not None:
                    return folder, published
                if folder.exists():  # damaged
                    shutil.rmtree(folder)
                workspace.rename(folder)
        return folder, record

    def keep_log(self, workspace: Path, key: str) -> Path:
        """Keep the log of a build that failed; returns where it is."""
        logs = self.directory / "logs"
        with storage_errors(logs):
            logs.mkdir(exist_ok=True)
            return (workspace / LOG).replace(logs / f"{key}.log")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _sweep(self) -> None:
        for path in self.directory.glob(f"{_WORKSPACE}*"):
            try:
                age_s = time.time() - path.stat().st_mtime
            except FileNotFoundError:
                continue  # its owner has just finished
            if age_s > _ABANDONED_AFTER_S or _is_of_the_dead(path.name):
                shutil.rmtree(path, ignore_errors=True)


def _workspace_prefix() -> str:
    """`work-<boot>.<pid namespace>.<pid>-`: how a workspace of this process begins.

    The boot, because machines that share a folder don't share their processes.
    """
    return f"{_WORKSPACE}{kernel_boot()}.{pid_namespace()}.{os.getpid()}-"


def _is_of_the_dead(name: str) -> bool:
    """Whether a workspace's owner was a process of this machine and container, and is no more."""
    owner = _OWNER.fullmatch(name)
    if owner is None or owner["boot"] != kernel_boot() or int(owner["space"]) != pid_namespace():
        return False
    return not exists(int(owner["pid"]))


def write_sources(files: Mapping[str, str], folder: Path) -> None:
    """Write a candidate's files under a folder.

    Raises:
        OSError: one can't be written.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    try:
        return all((folder / name).read_bytes() == text.encode() for name, text in files.items())
    except OSError:
        return False


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into a StorageError that says where and what to do."""
    try:
        yield
    except OSError as error:
        hints = {
            errno.ENOSPC: f"free some space on the disk that holds {path}",
            errno.EFBIG: "raise the limit on a file's size: `ulimit -f`",
            errno.EMFILE: "raise the limit on open files: `ulimit -n`",
            errno.EDQUOT: f"free some of your quota on the disk that holds {path}",
        }
        raise StorageError(
            f"can't keep builds under {path}: {os.strerror(error.errno or errno.EIO)}"
            + (f" ({error.filename})" if error.filename else ""),
            hint=hints.get(
                error.errno or 0, "name a folder that you can write to in ROOFSMITH_CACHE"
            ),
        ) from error


def prove_writable(directory: Path, size_bytes: int) -> None:
    """Write and remove a file.

    Raises:
        StorageError: it can't be written.
    """
    probe = directory / "probe"
    with storage_errors(directory):
        try:
            with probe.open("wb") as file:
                for _ in range(0, size_bytes, _BLOCK_BYTES):
                    file.write(bytes(_BLOCK_BYTES))
        finally:
            probe.unlink(missing_ok=True)
