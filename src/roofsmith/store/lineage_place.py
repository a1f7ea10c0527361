"""Where a campaign's commits are, and how that place is made, kept and found again."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from roofsmith.errors import StorageError
from roofsmith.store.campaign_dir import LINEAGE, REPOSITORY, WORKTREE
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.filters import unfiltered
from roofsmith.store.git import CHECKOUT_DEADLINE_S, Git
from roofsmith.store.lineage import GitLineage

STALE_LOCK_S = 2.0
"""How long another git may hold a lock on our branch before it counts as left by a crash."""


@dataclass(frozen=True, slots=True)
class Place:
    """A branch and the checkout that it lives in; kept in the campaign's `lineage.json`."""

    campaign: str
    kernel: str
    """The user's kernel file, absolute; empty if it isn't known."""
    repository: str
    """The git directory that holds the branch, absolute."""
    checkout: str
    """`worktree` or `repo`, inside the campaign directory."""
    branch: str
    base: str | None
    """The commit that the branch starts from; None in the campaign's own repository."""
    prefix: str
    """Folder inside the repository that candidates' paths are relative to."""

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return f"refs/heads/{self.branch}"

    def serves(self, campaign: str, kernel: Path | None) -> bool:
        return self.campaign == campaign and (kernel is None or self.kernel == str(kernel))

    def lineage(self, directory: Path, notes: tuple[str, ...]) -> GitLineage:
        return GitLineage(directory / self.checkout, self.branch, self.base, self.prefix, notes)

    def run(self, *arguments: str | Path) -> str:
        """Run git on the repository as a whole, with the deadline of a checkout."""
        return unfiltered(Git(Path(self.repository))).run(
            f"--git-dir={self.repository}", *arguments, deadline_s=CHECKOUT_DEADLINE_S
        )

    def ask(self, *arguments: str | Path) -> str | None:
        """As `run`, but None if git says no."""
        return Git(Path(self.repository)).ask(f"--git-dir={self.repository}", *arguments)

    def on_free_branch(self) -> Place:
        """The same place with its branch numbered, if a branch is in the way."""
        taken = self.run("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split("\n")
        # A branch called just `optimize` leaves no room for `optimize/...`.
        stem = _ref_safe(self.branch.replace("/", "-") if "optimize" in taken else self.branch)
        number, branch = 1, stem
        while any(other == branch or other.startswith(f"{branch}/") for other in taken):
            number += 1
            branch = f"{stem}-{number}"
        return dataclasses.replace(self, branch=branch)


def remember(directory: Path, place: Place) -> None:
    """Write a place down, before it is made: a crash in between leaves it findable.

    A repository of the campaign's own moves with it, so it is named by where it is inside.
    """
    path = directory / LINEAGE
    kept = dataclasses.asdict(place)
    if place.checkout == REPOSITORY:
        kept["repository"] = f"{REPOSITORY}/.git"
    write_file(path, (json.dumps(kept, indent=2) + "\n").encode("ascii"))


def remembered(directory: Path) -> Place | None:
    """The place that was written down; None if there is none, or none that can be read."""
    try:
        place = Place(**json.loads((directory / LINEAGE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    if place.checkout != REPOSITORY:
        return place
    return dataclasses.replace(place, repository=str(directory.resolve() / REPOSITORY / ".git"))


def make_own_repository(directory: Path, campaign: str, kernel: Path | None, branch: str) -> Place:
    """A repository inside the campaign directory, with nothing in it.

    Raises:
        StorageError: git refuses.
    """
    checkout = directory / REPOSITORY
    place = Place(
        campaign=campaign,
        kernel=str(kernel or ""),
        repository=str(checkout.resolve() / ".git"),
        checkout=REPOSITORY,
        branch=_ref_safe(branch),
        base=None,
        prefix="",
    )
    Git(directory).run("init", "--quiet", "--template=", checkout)
    place.run("symbolic-ref", "HEAD", place.ref)
    remember(directory, place)
    return place


def add_worktree(directory: Path, place: Place, *arguments: str | Path) -> None:
    """`git worktree add` with these arguments, where nothing may be left of an earlier one.

    Raises:
        StorageError: git refuses.
    """
    abandon(directory, place)
    place.run("worktree", "add", *arguments)


def abandon(directory: Path, place: Place) -> None:
    """Remove a worktree, also one that is half made or half gone; its branch stays.

    Raises:
        StorageError: its files can't be removed.
    """
    worktree = directory / WORKTREE
    if worktree.exists():
        with storage_errors("remove", worktree):
            shutil.rmtree(worktree)
    # Git removes its own record of a worktree only if that is whole, or wholly gone.
    place.ask("worktree", "remove", "--force", worktree)


def find_again(directory: Path, place: Place) -> Place:
    """Make sure that the checkout is there, on its branch, linked both ways and unlocked.

    Raises:
        StorageError: the repository or its base commit is gone, or git refuses.
    """
    checkout = directory / place.checkout
    git = Git(checkout, checkout / ".git")
    if git.ask("rev-parse", "--git-dir") is None:
        if place.checkout == REPOSITORY:
            raise StorageError(f"the campaign's own repository {checkout} was gone; it starts anew")
        place = _check_out_again(directory, place)
    git_dir = Path(git.run("rev-parse", "--absolute-git-dir"))
    _relink(git_dir, checkout / ".git")
    for lock in (git_dir / "index.lock", git_dir / "HEAD.lock", _ref_lock(place)):
        _clear_stale(lock)
    if place.base and git.ask("rev-parse", "--verify", "--quiet", place.ref) is None:
        git.run("update-ref", place.ref, place.base)
    if git.ask("symbolic-ref", "--quiet", "HEAD") != place.ref:
        git.run("symbolic-ref", "HEAD", place.ref)
    return place


def _check_out_again(directory: Path, place: Place) -> Place:
    """A new worktree on the branch; on a numbered one from there if the branch is in use."""
    worktree = directory / WORKTREE
    if place.ask("rev-parse", "--verify", "--quiet", place.ref) is None:
        add_worktree(directory, place, "-b", place.branch, worktree, place.base or "HEAD")
        return place
    try:
        add_worktree(directory, place, worktree, place.branch)
    except StorageError as error:
        if "already checked out" not in error.message and "already used" not in error.message:
            raise
        moved = place.on_free_branch()
        remember(directory, moved)
        add_worktree(directory, moved, "-b", moved.branch, worktree, place.ref)
        return moved
    return place


def _relink(git_dir: Path, git_file: Path) -> None:
    """Tell the repository where its worktree is now, in case the campaign directory was moved."""
    link = git_dir / "gitdir"
    if link.exists() and link.read_bytes().strip() != bytes(git_file):
        write_file(link, bytes(git_file) + b"\n")


def _ref_lock(place: Place) -> Path:
    return Path(place.repository, f"{place.ref}.lock")


def _clear_stale(lock: Path) -> None:
    """Remove a lock that a crashed git left. The caller holds the campaign, so none is ours."""
    deadline = time.monotonic() + STALE_LOCK_S
    while lock.exists():
        if time.monotonic() > deadline:
            with storage_errors("remove the stale lock", lock):
                lock.unlink(missing_ok=True)
        time.sleep(0.05)


def _ref_safe(branch: str) -> str:
    """A branch name that git accepts (git-check-ref-format): odd characters become dashes."""
    parts = [re.sub(r"[^\w.+=-]+|\.{2,}", "-", part).strip(".-") for part in branch.split("/")]
    return "/".join(re.sub(r"(\.lock)+$", "", part) or "campaign" for part in parts)
