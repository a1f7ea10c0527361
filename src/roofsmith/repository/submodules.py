"""Submodules of a repository: which there are, which aren't checked out, and what lies in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from roofsmith.errors import TargetError
from roofsmith.store.git import Git
from roofsmith.wording import some_of

_LINK: Final = "160000"
"""Mode of a submodule in git's index."""


def submodules(git: Git) -> Iterator[tuple[str, str]]:
    """Path, from where git runs, and commit of every submodule there."""
    for entry in git.run("ls-files", "--stage", "-z").split("\0"):
        if entry.startswith(_LINK):
            about, _, path = entry.partition("\t")
            yield path, about.split()[1]


def absent_submodules(top: Path) -> str | None:
    """The cure for those that aren't there, and so are empty in checkouts; None: all are there."""
    absent = [path for path, _ in submodules(Git(top)) if not (top / path / ".git").exists()]
    if not absent:
        return None
    paths = shlex.join(absent)
    return (
        f"git -C {shlex.quote(str(top))} submodule update --init {paths}, if the commands need it:"
        f" {some_of(absent)} isn't checked out there, and is empty in every checkout"
    )


def require_none_in_submodules(folder: Path, globs: Iterable[str]) -> None:
    """Refuse editable files of a submodule: changes are commits of the one repository.

    Args:
        folder: where commands run.
        globs: that match no file of the repository itself.

    Raises:
        TargetError: one of them leads into a submodule.
    """
    found = sorted(path for path, _ in submodules(Git(folder)))
    for glob in globs:
        for path in found:
            if not glob.removeprefix("./").startswith(f"{path}/"):
                continue
            inner = folder / path
            what = f"editable: {glob!r} lies in the submodule {path}"
            if not (inner / ".git").exists():
                raise TargetError(
                    f"{what}, which isn't checked out",
                    hint=f"git -C {shlex.quote(str(folder))} submodule update --init"
                    f" {shlex.quote(path)}; it is a repository of its own, and a target of its own",
                )
            raise TargetError(
                f"{what}, a repository of its own, and what is kept are commits of one repository",
                hint=f"roofsmith init --repo {shlex.quote(str(inner))} --editable"
                f" {shlex.quote(glob.removeprefix('./').removeprefix(f'{path}/'))}, with commands"
                " that build and measure there",
            )
