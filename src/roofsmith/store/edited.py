"""Files of a repository that somebody edited elsewhere, as the next candidate."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.errors import TargetError
from roofsmith.store.git import Git
from roofsmith.store.sources import read_text, source_file

_SHOWN = 8


def edited_candidate(path: Path, spec: CommandSpec, before: Candidate) -> Candidate:
    """What a candidate becomes with an edited file, or with a folder of edited files.

    In a folder, files lie under their paths in the repository; those that are as the campaign's
    commit has them don't count, so a whole copy of the repository will do. A changed file that is
    frozen becomes part of the candidate: the judge says what that is.

    Args:
        path: the file or folder.
        spec: the target's.
        before: what was edited.

    Raises:
        TargetError: nothing that can be read; a new file that no pattern of `editable` allows; a
            file that could be several of the repository's.
    """
    if path.is_dir():
        files = dict(_in_folder(path, spec, before))
    else:
        name = _place_of(path, spec, before)
        files = {name: read_text(path, "edited file", may_be_empty=True)}
        if not spec.is_editable(name) and _is_committed(path, name, spec):
            files = {}
    return before.model_copy(update={"sources": _merged(before, files)})


def _merged(before: Candidate, files: Mapping[str, str]) -> tuple[SourceFile, ...]:
    known = {source.path for source in before.sources}
    kept = (
        source_file(source.path, files.get(source.path, source.text)) for source in before.sources
    )
    return (*kept, *(source_file(name, files[name]) for name in sorted(files.keys() - known)))


def _place_of(path: Path, spec: CommandSpec, before: Candidate) -> str:
    """Which file of the repository a single file is."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - the path as typed
    for root in (Path(spec.repo), Path.cwd()):
        inside = os.path.relpath(whole, root)
        if inside in {source.path for source in before.sources} or (
            root == Path(spec.repo) and not inside.startswith("..")
        ):
            return PurePosixPath(inside).as_posix()
    named = [source.path for source in before.sources if Path(source.path).name == path.name]
    if len(named) == 1:
        return named[0]
    if len(before.sources) == 1 and path.suffix == Path(before.kernel.path).suffix:
        return before.kernel.path
    shown = ", ".join((named or [source.path for source in before.sources])[:_SHOWN])
    why = "could be several" if named else "is none"
    raise TargetError(
        f"{path} {why} of the editable files: {shown}",
        hint="give a folder in which it lies under its path in the repository, such as"
        f" edited/{before.kernel.path}",
    )


def _in_folder(folder: Path, spec: CommandSpec, before: Candidate) -> Iterator[tuple[str, str]]:
    found = sorted(_files(folder))
    if not found:
        raise TargetError(f"{folder} holds no files")
    held = {source.path: source.text for source in before.sources}
    committed = _committed(spec)
    same = _as_committed(folder, found, committed)
    strange = []
    for name in found:
        if spec.is_editable(name):
            text = read_text(folder / name, "edited file", may_be_empty=True)
            if held.get(name) != text:
                yield name, text
        elif name in committed and name not in same:
            yield name, read_text(folder / name, "frozen file", may_be_empty=True)
        elif name not in committed:
            strange.append(name)
    new = [name for name in strange if not _is_ignored(spec, name)]
    if new:
        more = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
        raise TargetError(
            f"{folder} holds files that are neither in the repository nor editable:"
            f" {', '.join(new[:_SHOWN])}{more}",
            hint=f"editable is {shlex.join(spec.editable)}; leave them out, or start a campaign"
            " that allows them",
        )


def _files(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            yield PurePosixPath(os.path.relpath(Path(parent, name), folder)).as_posix()


def _committed(spec: CommandSpec) -> dict[str, str]:
    """Blob of every file below `repo` that the campaign's commit has, by path."""
    listed = Git(Path(spec.repo)).run("ls-tree", "-r", "-z", spec.commit, ".")
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {path: about.split()[2] for about, _, path in entries}


def _is_committed(path: Path, name: str, spec: CommandSpec) -> bool:
    hashed = Git(path.absolute().parent).run("hash-object", "--no-filters", path.name)
    return _committed(spec).get(name) == hashed


def _as_committed(folder: Path, names: list[str], committed: Mapping[str, str]) -> set[str]:
    known = [name for name in names if name in committed]
    if not known:
        return set()
    paths = "".join(f"{folder.absolute() / name}\n" for name in known)
    hashed = Git(folder).run(
        "hash-object", "--no-filters", "--stdin-paths", stdin=os.fsencode(paths)
    )
    blobs = dict(zip(known, hashed.split("\n"), strict=True))
    return {name for name, blob in blobs.items() if blob == committed[name]}


def _is_ignored(spec: CommandSpec, name: str) -> bool:
    git = Git(Path(spec.repo))
    return git.ask("check-ignore", "--quiet", "--no-index", name) is not None
