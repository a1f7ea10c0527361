"""The kernel that a campaign came to goes into its user's files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.api.reading import read_campaign
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.returning import written_back
from roofsmith.errors import UsageError
from roofsmith.report.next_steps import TakenHome, taken_home
from roofsmith.store.files import replace as write_over
from roofsmith.store.files import storage_errors
from roofsmith.store.git import Git, git_installed
from roofsmith.store.lineage_place import remembered
from roofsmith.targets.init import changed_build


@dataclass(frozen=True, slots=True)
class Applied:
    """What was put where."""

    paths: tuple[Path, ...]
    """Files that were written; empty: all of them held it already."""
    home: TakenHome
    build: str
    """What its target file has to say of how it is built now; empty: nothing new."""


def apply_campaign(directory: Path, to: Path | None = None) -> Applied:
    """Write the kept kernel's files over those that the campaign began with; no other file.

    Args:
        directory: the campaign's.
        to: folder of the kernel's file, or of the repository, or one that has neither; None: where
            the campaign found it.

    Raises:
        UsageError: nothing was kept; a file isn't what the campaign began with; there are changes
            that nobody committed.
        StorageError: a file can't be written.
    """
    campaign = read_campaign(directory)
    home = taken_home(campaign)
    if home is None:
        raise UsageError("nothing was kept: your files stay as they are")
    root = to or _root(directory, campaign)
    target = campaign.started.target
    held = {source.path: source.text for source in written_back(campaign.incumbent).sources}
    began = {source.path: source.text for source in written_back(target.baseline).sources}
    changed = {one.path: root / one.path for one in home.files}
    last, began_with = campaign.incumbent.build, campaign.started.target.baseline.build
    build = changed_build(began_with, last) if home.build else ""
    applied = Applied(tuple(changed.values()), home, build)
    is_new = to is not None and to.is_dir() and not any(one.exists() for one in changed.values())
    here = {path: b"" if is_new else _bytes(file) for path, file in changed.items()}
    if all(here[path] == held[path].encode() for path in changed):
        return replace(applied, paths=())
    for path, file in changed.items():
        if not is_new and here[path] != began.get(path, "").encode():
            raise UsageError(
                f"{file} isn't what the campaign began with",
                hint=f"`git apply` merges {directory / 'final.diff'}, or put that version back",
            )
    _require_clean(root)
    for path, file in changed.items():
        with storage_errors("write", file):
            mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
            real = file.resolve()  # a link stays one, unless it leaves what git could give back
            is_inside = real.is_relative_to(root.resolve())
            write_over(real if is_inside else file, held[path].encode())
            file.chmod(mode)
    return applied


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} can't be read: {error.strerror}", hint="--to DIR says where the files are"
        ) from error


def _root(directory: Path, campaign: Campaign) -> Path:
    place = remembered(directory)
    kernel = Path(place.kernel) if place is not None and place.kernel else None
    if kernel is None:
        raise UsageError(
            "the campaign doesn't know where its kernel came from", hint="--to DIR puts it there"
        )
    parts = Path(campaign.started.target.baseline.kernel.path).parts
    return kernel.parents[len(parts) - 1] if kernel.parts[-len(parts) :] == parts else kernel.parent


def _require_clean(root: Path) -> None:
    """See that what is there can be had back: in git, nothing that it tracks was changed."""
    if not git_installed():
        return
    git = Git(root)
    if git.ask("rev-parse", "--is-inside-work-tree") != "true":
        return
    dirty = git.run("status", "--porcelain", "--untracked-files=no").splitlines()
    if dirty:
        raise UsageError(
            f"{root} has changes that nobody committed: {dirty[0].strip()}",
            hint="commit or stash them, so that `git diff` shows this change alone",
        )
