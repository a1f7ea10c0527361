"""The folder that an agent works in, and what is taken out of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roofsmith.errors import StorageError

GIVEN = ("brief.md", "brief.json", "schema.json", "reference", "repair")
"""Of the ask's folder: to be read."""
PROPOSAL = "proposal.json"
LARGEST_BYTES = 4 << 20
"""Of a source: as for changed files beside an answer."""

_REMOVING_S = 120.0
"""For millions of files."""


@dataclass(frozen=True, slots=True)
class Folder:
    """`work/` of one attempt: copies of the ask, and room to write."""

    root: Path

    @property
    def sources(self) -> Path:
        """Files that may be changed, to be edited in place."""
        return self.root / "sources"

    @property
    def answer(self) -> Path:
        return self.root / "answer"

    @property
    def home(self) -> Path:
        """A home of its own, with nothing in it."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def cache(self) -> Path:
        """Of the commands that look at its draft."""
        return self.root / "cache"

    @property
    def repository(self) -> Path:
        """Where a repository is checked out; `sources` leads to the folder of its commands."""
        return self.root / "repository"

    @property
    def brief(self) -> Path:
        return self.root / "brief.json"

    @property
    def given(self) -> tuple[Path, ...]:
        """What must stay as it is."""
        return tuple(self.root / name for name in GIVEN)


def make_folder(
    root: Path,
    write: Callable[[Path], None],
    sources: Mapping[str, str],
    check_out: Callable[[Path], Path] | None = None,
) -> Folder:
    """A new folder in place of what another attempt left there.

    Args:
        write: puts there what a proposer is given.
        check_out: puts a repository into a folder, and says where in it sources are.

    Raises:
        StorageError: it can't be made.
    """
    folder = Folder(root)
    remove_folder(root)
    try:
        for path in (folder.answer, folder.home, folder.temporary, folder.cache):
            path.mkdir(parents=True)
        if check_out is not None:
            folder.sources.symlink_to(check_out(folder.repository))
        write(root)
        for name, text in sources.items():
            path = folder.sources / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        for path in folder.given:
            _make_read_only(path)
    except OSError as error:
        raise StorageError(f"can't make the agent's folder {root}: {error.strerror}") from error
    return folder


def edited(folder: Folder, sources: Mapping[str, str]) -> dict[str, str] | str:
    """Sources that were edited in place, by path; or what is wrong with one."""
    found: dict[str, str] = {}
    real = folder.sources.resolve()
    for name, before in sources.items():
        path = folder.sources / name
        try:
            if path.parent.resolve() != (real / name).parent:
                return f"sources/{name} leads elsewhere"
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return f"sources/{name} is no plain file"
            if status.st_size > LARGEST_BYTES:
                return f"sources/{name} has {status.st_size} bytes"
            text = path.read_bytes().decode("utf-8", errors="surrogateescape")
        except FileNotFoundError:
            continue  # an answer that needs it says so itself
        except OSError as error:
            return f"sources/{name} can't be read: {error.strerror}"
        if text != before:
            found[name] = text
    return found


def remove_folder(root: Path) -> None:
    """Remove a folder or a file, however deep and whatever its permissions; what can't go stays.

    By programs, which need no path to what they remove: folders may lie deeper than paths reach.
    """
    if not root.is_symlink() and root.is_dir():
        _run("chmod", "-R", "u+rwX", "--", str(root))
    _run("rm", "-rf", "--", str(root))


def _run(program: str, *arguments: str) -> None:
    """Not from `PATH`, on which an agent may have put something."""
    found = shutil.which(program, path=os.defpath) or program
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            (found, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=_REMOVING_S, check=False,
        )  # fmt: skip


def _make_read_only(root: Path) -> None:
    for path in (*root.rglob("*"), *([root] if root.exists() else ())):
        path.chmod(0o555 if path.is_dir() else 0o444)
