"""Files of a repository that somebody edited elsewhere, as the next candidate."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.errors import TargetError
from roofsmith.store.git import Git
from roofsmith.store.large_files import is_pointed_to
from roofsmith.store.sources import read_text, source_file
from roofsmith.targets.place import FILE_NAME
from roofsmith.wording import some_of

_SHOWN = 8
_LINK = "commit"
"""Type of a submodule in a tree of git's."""


def edited_candidate(path: Path, spec: CommandSpec, before: Candidate) -> Candidate:
    """What a candidate becomes with an edited file, or with a folder of edited files.

    In a folder, files lie under their paths in the repository; those that are as the campaign's
    commit has them don't count, so a whole copy of the repository will do: what git doesn't track
    in the repository itself, such as the target file, is left out of it. A changed file that is
    frozen becomes part of the candidate: the judge says what that is.

    Raises:
        TargetError: nothing that can be read; a new file that no pattern of `editable` allows; a
            file that could be several of the repository's.
    """
    committed = _committed(Path(spec.repo), spec.commit)
    if path.is_dir():
        files = dict(_in_folder(path, spec, before, committed))
    else:
        name = _place_of(path, spec, before, committed)
        files = {}
        if spec.is_editable(name) or not _is_as_committed(path, committed.get(name), spec):
            files = {name: read_text(path, "edited file", may_be_empty=True)}
    return before.model_copy(update={"sources": _merged(before, files)})


def _merged(before: Candidate, files: Mapping[str, str]) -> tuple[SourceFile, ...]:
    known = {source.path for source in before.sources}
    kept = (
        source_file(source.path, files.get(source.path, source.text)) for source in before.sources
    )
    return (*kept, *(source_file(name, files[name]) for name in sorted(files.keys() - known)))


def _place_of(path: Path, spec: CommandSpec, before: Candidate, committed: Collection[str]) -> str:
    """Which file of the repository a single file is."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - the path as typed
    known = {source.path for source in before.sources}
    for root in (_checkout_of(whole, spec), Path(spec.repo), Path.cwd()):
        inside = "" if root is None else PurePosixPath(os.path.relpath(whole, root)).as_posix()
        if inside in known or (root != Path.cwd() and inside in committed):
            return inside
        if root == Path(spec.repo) and not inside.startswith("..") and spec.is_editable(inside):
            return inside
    named = [source.path for source in before.sources if Path(source.path).name == path.name]
    if len(named) == 1:
        return named[0]
    frozen = [name for name in committed if PurePosixPath(name).name == path.name]
    if not frozen and len(known) == 1 and path.suffix == Path(before.kernel.path).suffix:
        return before.kernel.path
    shown = ", ".join((named or [source.path for source in before.sources])[:_SHOWN])
    why = "could be several" if named else "is none"
    raise TargetError(
        f"{path} {why} of the editable files: {shown}",
        hint="give a folder in which it lies under its path in the repository, such as"
        f" edited/{before.kernel.path}",
    )


def _checkout_of(path: Path, spec: CommandSpec) -> Path | None:
    """What `repo` is in the checkout that a file lies in, such as a campaign's worktree."""
    top = Git(path.parent).ask("rev-parse", "--show-toplevel") if path.parent.is_dir() else None
    prefix = Git(Path(spec.repo)).ask("rev-parse", "--show-prefix")
    return None if top is None or prefix is None else Path(top, prefix)


def _in_folder(
    folder: Path, spec: CommandSpec, before: Candidate, committed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    found = sorted(_files(folder))
    if not found:
        raise TargetError(f"{folder} holds no files")
    held = {source.path: source.text for source in before.sources}
    strange = []
    for name in found:
        if spec.is_editable(name):
            if name not in held and _is_as_committed(folder / name, committed.get(name), spec):
                continue  # a link
            text = read_text(folder / name, "edited file", may_be_empty=True)
            if held.get(name) != text:
                yield name, text
        elif name == FILE_NAME:
            continue  # ours, and not of what runs
        elif name not in committed:
            strange.append(name)
        elif not _is_as_committed(folder / name, committed[name], spec):
            yield name, read_text(folder / name, "frozen file", may_be_empty=True)
    strange = [name for name in strange if not os.path.lexists(Path(spec.repo, name))]
    new = [name for name in strange if not _is_ignored(spec, name)]
    if new:
        raise TargetError(
            f"{folder} holds files that are neither in the repository nor editable:"
            f" {some_of(new, _SHOWN)}",
            hint=f"editable is {shlex.join(spec.editable)}; leave them out, or start a campaign"
            " that allows them",
        )


def _files(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in filter(".git".__ne__, files):  # a worktree's is a file
            yield PurePosixPath(os.path.relpath(Path(parent, name), folder)).as_posix()


def _committed(repo: Path, commit: str) -> dict[str, str]:
    """Blob of every file below a folder that its commit has, by path; those in submodules too."""
    blobs = {}
    for entry in Git(repo).run("ls-tree", "-r", "-z", commit, ".").split("\0"):
        about, _, path = entry.partition("\t")
        if not path:
            continue
        _, kind, name = about.split()
        if kind != _LINK:
            blobs[path] = name
        elif (repo / path / ".git").exists():
            inner = _committed(repo / path, name)
            blobs.update({f"{path}/{file}": blob for file, blob in inner.items()})
    return blobs


def _is_as_committed(path: Path, blob: str | None, spec: CommandSpec) -> bool:
    """Whether a file, or a link as such, is what git calls so, or what a pointer stands for."""
    if blob is None:
        return False
    data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    algorithm = "sha1" if len(blob) == 40 else "sha256"  # hexadecimal digits
    named = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
    named.update(data)
    return named.hexdigest() == blob or is_pointed_to(data, Git(Path(spec.repo)), blob)


def _is_ignored(spec: CommandSpec, name: str) -> bool:
    git = Git(Path(spec.repo))
    return git.ask("check-ignore", "--quiet", "--no-index", name) is not None
