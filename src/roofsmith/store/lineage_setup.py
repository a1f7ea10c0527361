"""Begins a campaign's lineage or finds it again, in the user's repository or one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from roofsmith.domain.kernel import Candidate
from roofsmith.errors import StorageError
from roofsmith.store.campaign_dir import REPOSITORY, WORKTREE
from roofsmith.store.git import Git, git_installed
from roofsmith.store.lineage import GitLineage, NoLineage
from roofsmith.store.lineage_place import (
    Place,
    abandon,
    add_worktree,
    find_again,
    make_own_repository,
    remember,
    remembered,
)


def open_lineage(
    directory: Path,
    campaign: str,
    baseline: Candidate,
    kernel: Path | None = None,
    branch: str | None = None,
) -> GitLineage | NoLineage:
    """The lineage of a campaign: begun at its first opening, found again at later ones.

    If the kernel lies in a git repository (and isn't ignored there), the branch starts from that
    repository's HEAD; its checkout, index, HEAD and stash are left alone. Otherwise, and wherever
    that fails, the campaign gets a repository of its own, and `notes` say why. The first commit
    holds the baseline, unless the commit that the branch starts from already does.

    Args:
        directory: the campaign directory; the caller holds its lock.
        campaign: its name.
        baseline: the candidate that the campaign starts from.
        kernel: the user's file that the baseline's first source came from; not needed to find a
            lineage again.
        branch: numbered if that is taken; None: `optimize/<campaign>`.
    """
    branch = branch or f"optimize/{campaign}"
    if not git_installed():
        return NoLineage(("git isn't installed: accepted rounds are kept in the ledger only",))
    directory = directory.resolve()
    kernel = kernel and kernel.parent.resolve() / kernel.name
    notes: list[str] = []
    for place in _places(directory, campaign, baseline, kernel, branch, notes):
        lineage = place.lineage(directory, tuple(notes))
        try:
            _start_with(lineage, baseline)
        except StorageError as error:
            notes.append(f"{lineage.worktree} can't be used: {error.message}")
        else:
            return lineage
    return NoLineage((*notes, "accepted rounds are kept in the ledger only"))


def _places(
    directory: Path,
    campaign: str,
    baseline: Candidate,
    kernel: Path | None,
    branch: str,
    notes: list[str],
) -> Iterator[Place]:
    """Where the commits may go, best first; what can't be used becomes a note."""
    try:
        known = remembered(directory)
        if known is not None and known.serves(campaign, kernel):
            yield find_again(directory, known)
        elif kernel is not None:
            if known is not None:
                abandon(directory, known)
            place = _in_users_repository(directory, campaign, baseline, kernel, branch)
            if place is not None:
                yield place
    except StorageError as error:
        notes.append(f"commits go to {directory / REPOSITORY}: {error.message}")
    try:
        yield make_own_repository(directory, campaign, kernel, branch)
    except StorageError as error:
        notes.append(error.message)


def _start_with(lineage: GitLineage, baseline: Candidate) -> None:
    """Put the kernel as judged at the start of the branch, if it isn't there."""
    head = lineage.head()
    if head is None or (head == lineage.base and not lineage.has_base(baseline)):
        lineage.commit(baseline, "Round 1: the kernel as it is judged")


def _in_users_repository(
    directory: Path, campaign: str, baseline: Candidate, kernel: Path, branch: str
) -> Place | None:
    """A new branch and worktree there; None if the kernel isn't in a repository.

    Raises:
        StorageError: there is one, but it can't be used; says why.
    """
    root = _folder(kernel, baseline)
    git = Git(root)
    try:
        top = Path(git.run("rev-parse", "--show-toplevel"))
    except StorageError as error:
        if "not a git repository" in error.message:
            return None
        raise
    if git.ask("check-ignore", "--quiet", kernel) is not None:
        return None  # such as a package in a virtual environment inside somebody's project
    if not root.is_relative_to(top):
        raise StorageError(f"the kernel's folder {root} lies partly outside the repository {top}")
    base = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if base is None:
        raise StorageError(f"the repository {top} has no commit yet")
    place = Place(
        campaign=campaign,
        kernel=str(kernel),
        repository=str((root / git.run("rev-parse", "--git-common-dir")).resolve()),
        checkout=WORKTREE,
        branch=branch,
        base=base,
        prefix=root.relative_to(top).as_posix(),
    ).on_free_branch()
    remember(directory, place)
    try:
        add_worktree(directory, place, "-b", place.branch, directory / WORKTREE, base)
    except StorageError:
        abandon(directory, place)
        place.ask("update-ref", "-d", f"refs/heads/{place.branch}", base)
        raise
    return place


def _folder(kernel: Path, baseline: Candidate) -> Path:
    parts = Path(baseline.kernel.path).parts
    return kernel.parents[len(parts) - 1] if kernel.parts[-len(parts) :] == parts else kernel.parent
