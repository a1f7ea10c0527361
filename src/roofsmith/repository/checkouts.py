"""Working copies of a command target's repository: one per candidate, of one commit.

A checkout is a clone of its own that borrows the objects of the user's repository, so that what a
candidate does there reaches neither the user's files nor the user's branches. Names of checkouts
are equally long: a path is part of every process's first page, and moves its stack.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roofsmith.domain.command import CommandSection, CommandSpec, matches
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.errors import StorageError, TargetError
from roofsmith.repository.named_paths import named_paths
from roofsmith.repository.submodules import require_none_in_submodules, submodules
from roofsmith.store.files import storage_errors
from roofsmith.store.filters import fill_filtered, filters_of, is_unchanged, unfiltered
from roofsmith.store.git import CHECKOUT_DEADLINE_S, Git
from roofsmith.store.large_files import fill_pointers, is_pointed_to
from roofsmith.store.sources import read_text, source_file
from roofsmith.wording import some_of

KEPT = 4
"""Checkouts that are kept: incumbent, candidate, and those that were looked at last."""
MAX_FILES = 500
"""More editable files than anybody edits."""
_SHOWN = 8
_SPARSE = "info/sparse-checkout"
"""Its patterns, in a repository's git directory."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The user's repository, as it is now."""

    top: Path
    """Its working tree."""
    prefix: str
    """Folder in it that commands run in; empty at the top."""
    commit: str
    """HEAD."""

    @property
    def folder(self) -> Path:
        """Where commands run, in the user's own tree."""
        return self.top / self.prefix


def open_repository(folder: Path) -> Repository:
    """The repository that a folder lies in.

    Raises:
        TargetError: it is in none, or that has no commit.
        ToolMissingError: there is no git.
    """
    if not folder.is_dir():
        raise TargetError(f"repo {folder} is not a folder")
    git = Git(folder)
    if git.ask("rev-parse", "--is-bare-repository") == "true":
        raise TargetError(
            f"repo {folder} is a bare repository: it has no files to look at",
            hint=f"git clone {shlex.quote(str(folder))}, and name the clone",
        )
    try:
        top = Path(git.run("rev-parse", "--show-toplevel"))
    except StorageError as error:
        if "not a git repository" not in error.message:
            raise
        raise TargetError(
            f"repo {folder} is not in a git repository, so nothing could say what was changed",
            hint="git init && git add -A && git commit -m 'before roofsmith'",
        ) from error
    commit = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None:
        raise TargetError(
            f"the repository {top} has no commit yet", hint="git add -A && git commit -m 'start'"
        )
    prefix = git.run("rev-parse", "--show-prefix").rstrip("/")
    return Repository(top, prefix, commit)


def require_clean(repository: Repository, but: Iterable[Path] = ()) -> None:
    """Refuse a repository whose tracked files aren't those of its commit.

    Args:
        repository: that a campaign is to start from.
        but: files that don't count, such as the target's own.

    Raises:
        TargetError: some were changed; names them.
    """
    git = Git(repository.top)
    listed = unfiltered(git).run(
        "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty"
    )
    allowed = {os.path.relpath(path, repository.top) for path in but}
    changed = [path for path in _changed_paths(listed) if path not in allowed]
    for path, name in filters_of(git, changed):
        if _is_as_filtered(git, path, name):
            changed.remove(path)
    if not changed:
        return
    raise TargetError(
        f"{repository.top} has changes that are not committed: {some_of(changed, _SHOWN)};"
        " a campaign starts from a commit, and they would be missing from it",
        hint="git commit, or git stash, then again",
    )


def _is_as_filtered(git: Git, path: str, name: str) -> bool:
    file = git.directory / path
    if not file.is_file() or file.is_symlink():
        return False
    if name == "lfs":
        return is_pointed_to(file.read_bytes(), git, f"HEAD:{path}")
    return is_unchanged(git, path, name)


def require_tracked(repository: Repository, path: str) -> None:
    """Refuse a file that checkouts wouldn't have; the path is relative to where commands run.

    Raises:
        TargetError: it isn't there, or git doesn't track it.
    """
    if os.path.normpath(path) in tracked_files(repository):
        return
    if (repository.folder / path).is_file():
        raise TargetError(
            f"git doesn't track {path}, so no checkout has it",
            hint=f"git add {shlex.quote(path)} && git commit",
        )
    raise TargetError(f"there is no file {path} in {repository.folder}")


def editable_sources(repository: Repository, spec: CommandSection) -> tuple[SourceFile, ...]:
    """The tracked files that a candidate may change, in the order of the patterns.

    Links are none: what they lead to is a file of its own, editable or not by its own path.

    Raises:
        TargetError: there is none, or far too many, one isn't text, or a command names one.
    """
    tracked = sorted(tracked_files(repository))
    matching = dict.fromkeys(
        path for glob in spec.editable for path in tracked if matches(path, glob)
    )
    idle = [g for g in spec.editable if not any(matches(path, g) for path in matching)]
    require_none_in_submodules(repository.folder, idle)
    found = [path for path in matching if not (repository.folder / path).is_symlink()]
    if matching and not found:
        link = next(iter(matching))
        raise TargetError(
            f"editable: {', '.join(spec.editable)} matches nothing but links: {link} leads to"
            f" {(repository.folder / link).readlink()}",
            hint="name the files that they lead to",
        )
    if not found:
        near = ", ".join(tracked[:_SHOWN])
        raise TargetError(
            f"no file that git tracks in {repository.folder} matches editable:"
            f" {', '.join(spec.editable)}",
            hint=f"patterns are relative to repo, and `**` crosses folders; there are {near}",
        )
    if len(found) > MAX_FILES:
        raise TargetError(
            f"editable matches {len(found)} files; at most {MAX_FILES} are taken",
            hint="name the files of the kernel, and leave the rest frozen",
        )
    _refuse_what_decides(repository, spec, found)
    return tuple(
        source_file(path, read_text(repository.folder / path, "editable file", may_be_empty=True))
        for path in found
    )


class GitCheckouts:
    """Working copies of a command target's repository, one per candidate: clones in a folder.

    Args:
        spec: the target's; its commit may be empty, which means the repository's HEAD.
        root: where checkouts go.
        whole: unless it is False, all that git tracks; else what the target's workspace names.
    """

    def __init__(self, spec: CommandSpec, root: Path, *, whole: bool = True) -> None:
        self._spec = spec
        self._root = root
        self._whole = whole
        self.repository = open_repository(Path(spec.repo))
        self.commit = spec.commit or self.repository.commit
        self._made: dict[str, Path] = {}
        """By candidate, the one that was used last at the end."""
        self._times: dict[str, int] = {}
        """How often each was made."""
        self._foreign: dict[str, tuple[str, ...]] = {}
        self._written: dict[str, Mapping[str, str]] = {}
        """By candidate, the hash of each of its sources."""
        self._pristine: Mapping[str, str] = {}
        """Hash of every tracked file, by path from the top, as a checkout has it."""

    def adopt(self, spec: CommandSpec) -> None:
        """Go by another state of the same target: one that knows what is volatile."""
        self._spec = spec

    def make(self, candidate: Candidate) -> tuple[Path, int]:
        """The folder in which a candidate's commands run, and how often it was made so far.

        Raises:
            StorageError: the commit is gone, or there is no room.
        """
        known = self._made.pop(candidate.id, None)
        if known is not None and known.is_dir():
            self._made[candidate.id] = known
            return self._folder(known), self._times[candidate.id]
        place = self._root / candidate.id
        try:
            self._clone(self.repository.top, place, self.commit)
            self._extract(place)
            self._pristine = self._pristine or dict(_hashes(place, _all_tracked(place)))
            self._carry(place)
            self._write(candidate, place)
            self._foreign[candidate.id] = tuple(self._not_editable(candidate, place))
            self._written[candidate.id] = dict(_hashes(place, self._paths(candidate)))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        self._made[candidate.id] = place
        for old in list(self._made)[:-KEPT]:
            shutil.rmtree(self._made.pop(old), ignore_errors=True)
        self._times[candidate.id] = self._times.get(candidate.id, 0) + 1
        return self._folder(place), self._times[candidate.id]

    def changed(self, candidate_id: str) -> tuple[str, ...]:
        """Frozen files that aren't as the commit has them, and files that may not be added.

        So is a source of the candidate's that isn't any more what was put there: what is measured
        has to be what is kept. Paths are relative to the repository's top.
        """
        place = self._made.pop(candidate_id, None)
        if place is None:  # nothing was run here
            return ()
        self._made[candidate_id] = place  # the one that was used last
        found = dict(_hashes(place, self._pristine))
        changed = (
            path
            for path, digest in self._pristine.items()
            if found.get(path) != digest and self._is_frozen(path)
        )
        written = self._written[candidate_id]
        now = dict(_hashes(place, written))
        rewritten = (
            path
            for path, digest in written.items()
            if now.get(path) != digest and path not in self._spec.volatile
        )
        return tuple(dict.fromkeys((*self._foreign[candidate_id], *changed, *rewritten)))

    def drop(self, candidate_id: str) -> None:
        """Remove a checkout that somebody has spoiled, if it is there: it will be made anew."""
        place = self._made.pop(candidate_id, None)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)

    def files(self) -> tuple[str, ...]:
        """Tracked files that checkouts hold, from the top; asked once one was made."""
        return tuple(sorted(self._pristine))

    def inside(self) -> frozenset[str]:
        """Those of them that lie where commands run, from there."""
        found = (_relative(path, self.repository.prefix) for path in self._pristine)
        return frozenset(path for path in found if path is not None)

    def frozen_hash(self) -> str:
        """Hash over path and content of every frozen file; asked once a checkout was made."""
        lines = (
            f"{path}\0{digest}\n"
            for path, digest in sorted(self._pristine.items())
            if self._is_frozen(path)
        )
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def _not_editable(self, candidate: Candidate, place: Path) -> Iterator[str]:
        """A candidate's sources that it may not edit, unless they are what the commit has."""
        for source, path in zip(candidate.sources, self._paths(candidate), strict=True):
            written = dict(_hashes(place, [path])).get(path)
            if not self._spec.is_editable(source.path) and written != self._pristine.get(path):
                yield path

    def _paths(self, candidate: Candidate) -> list[str]:
        prefix = self.repository.prefix
        return [str(PurePosixPath(prefix, source.path)) for source in candidate.sources]

    def _is_frozen(self, path: str) -> bool:
        if path in self._spec.volatile:
            return False
        inside = _relative(path, self.repository.prefix)
        if inside is None:
            return True
        return not self._spec.is_editable(inside) and not self._spec.is_result(inside)

    def _folder(self, place: Path) -> Path:
        return place / self.repository.prefix

    def _clone(self, source: Path, place: Path, commit: str) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            Git(place.parent).run(
                "clone", "--quiet", "--shared", "--no-checkout", "--template=", source, place,
                deadline_s=CHECKOUT_DEADLINE_S,
            )  # fmt: skip
        except StorageError as error:
            if Git(source).ask("rev-parse", "--is-shallow-repository") == "true":
                raise _not_borrowed(source, error) from error
            raise
        git = Git(place, place / ".git")
        _be_as_sparse(source, git)
        try:
            checkout = ("checkout", "--quiet", "--detach", commit)
            unfiltered(git).run(*checkout, deadline_s=CHECKOUT_DEADLINE_S)
        except StorageError as error:
            raise _not_checked_out(source, commit, git, error) from error
        _require_whole(source, git)
        fill_pointers(git, source)
        fill_filtered(git, source)
        for path, submodule in submodules(git):
            if (source / path / ".git").exists():
                self._clone(source / path, place / path, submodule)

    def _extract(self, place: Path) -> None:
        """Leave only what the workspace and the editable files need, where that was asked for."""
        if self._whole:
            return
        globs = (*self._spec.workspace, *self._spec.editable)
        for path in filter(None, Git(place, place / ".git").run("ls-files", "-z").split("\0")):
            inside = _relative(path, self.repository.prefix)
            if inside is None or not any(matches(inside, glob) for glob in globs):
                with suppress(OSError):  # a submodule: it stays
                    (place / path).unlink()

    def _carry(self, place: Path) -> None:
        for path in self._spec.carry:
            source, link = self.repository.folder / path, self._folder(place) / path
            if not source.exists():
                raise TargetError(f"carry: {source} doesn't exist")
            if link.exists():
                raise TargetError(f"carry: {path} is tracked by git, so every checkout has it")
            with storage_errors("link", link):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)

    def _write(self, candidate: Candidate, place: Path) -> None:
        folder = self._folder(place)
        for source in candidate.sources:
            path = folder / source.path
            if not path.parent.resolve().is_relative_to(place.resolve()) or path.is_symlink():
                raise StorageError(
                    f"{source.path} is a link in the repository, or lies behind one",
                    hint="change the file that it leads to, under its own path",
                )
            data = source.text.encode()
            with storage_errors("write", path):
                if path.is_file() and path.read_bytes() == data:
                    continue  # its time stamp says to make that nothing changed
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


def _be_as_sparse(source: Path, git: Git) -> None:
    """Have a clone leave out what the repository itself has not checked out."""
    theirs = Git(source)
    if theirs.ask("config", "--bool", "core.sparseCheckout") != "true":
        return
    patterns = source / theirs.run("rev-parse", "--git-path", _SPARSE)
    with storage_errors("copy", patterns):
        (git.directory / ".git" / _SPARSE).parent.mkdir(exist_ok=True)
        shutil.copyfile(patterns, git.directory / ".git" / _SPARSE)
    for name in ("core.sparseCheckout", "core.sparseCheckoutCone"):
        git.run("config", name, theirs.ask("config", "--bool", name) or "false")


def _require_whole(source: Path, git: Git) -> None:
    """Refuse a checkout without files whose content a partial clone never fetched.

    Raises:
        StorageError: names the first ones; git itself reports no failure.
    """
    missing = [path for path in git.run("ls-files", "--deleted", "-z").split("\0") if path]
    if missing:
        raise StorageError(
            f"{source} lacks the content of {some_of(missing)}: a partial clone, it seems",
            hint=f"git -C {shlex.quote(str(source))} archive HEAD > /dev/null fetches it",
        )


def _not_borrowed(source: Path, error: StorageError) -> StorageError:
    """Git borrows no objects of a shallow repository, and needs all of them then."""
    return StorageError(
        f"the shallow repository {source} can't be cloned: {error.message}",
        hint=f"git -C {shlex.quote(str(source))} fetch --unshallow: of a partial clone, git copies"
        " nothing that is shallow",
    )


def _not_checked_out(source: Path, commit: str, git: Git, error: StorageError) -> StorageError:
    if git.ask("cat-file", "-e", f"{commit}^{{commit}}") is None:
        return StorageError(
            f"{source} has no commit {commit[:12]} to check out: {error.message}",
            hint="the campaign began there; fetch it again, or start a new campaign",
        )
    return StorageError(
        f"a clone of {source} can't check out {commit[:12]}: {error.message}",
        hint=f"`git clone {shlex.quote(str(source))}` has to work",
    )


def _refuse_what_decides(
    repository: Repository, spec: CommandSection, editable: Iterable[str]
) -> None:
    """Refuse files that a command names: who may edit them decides about itself.

    What `build` names may be the kernel, if `editable` names it, too, letter by letter, and no
    other command runs a program of the same name.

    Raises:
        TargetError: names the first one, and the command.
    """
    meant = {glob.removeprefix("./") for glob in spec.editable}
    folder = repository.folder.resolve()
    named = {
        key: {_inside(folder, path) for path in named_paths(command)}
        for key, command in spec.commands.items()
    }
    built = named.pop("build", set())
    for path in editable:
        glob = next(glob for glob in spec.editable if matches(path, glob))
        for key, paths in named.items():
            if path in paths:
                raise _decides(path, glob, f"which command.{key} names")
            if path in built and (program := _program_of(path, paths, spec.commands[key])):
                made = f"of which command.build makes {program}, which command.{key} runs"
                raise _decides(path, glob, made)
        if path in built and path not in meant:
            raise TargetError(
                f"editable: {glob!r} matches {path}, which command.build names: a candidate"
                " could change what decides about it",
                hint=f"narrow the pattern; where {path} is part of the kernel, name it under"
                " editable, beside the patterns or in their place",
            )


def _decides(path: str, glob: str, why: str) -> TargetError:
    """Of a file that tests, measures or merges candidates."""
    return TargetError(
        f"editable: {glob!r} matches {path}, {why}: a candidate could change what decides about it",
        hint=f"leave {path} frozen, and the kernel in a file of its own; where the command is given"
        " the kernel's file, put it into a script that git tracks, and name the script",
    )


def _program_of(path: str, named: Iterable[str], command: str) -> str | None:
    """The program that a command runs and that is called like a source: `./bench` of `bench.c`."""
    stem = PurePosixPath(path).stem
    for program in named:
        is_path = "/" in program or f"./{program}" in command
        if is_path and program in (stem, f"{PurePosixPath(program).parent}/{stem}"):
            return program
    return None


def _inside(folder: Path, path: str) -> str:
    """What a path leads to, relative to a folder; as it is where that lies outside, or nowhere."""
    try:
        return str((folder / path).resolve().relative_to(folder))
    except (OSError, ValueError, RuntimeError):
        return path


def tracked_files(repository: Repository) -> Iterator[str]:
    """Paths of files that git tracks and that are there, relative to where commands run."""
    for path in Git(repository.folder).run("ls-files", "-z").split("\0"):
        if path and (repository.folder / path).is_file():
            yield path


def _all_tracked(place: Path) -> Iterator[str]:
    git = Git(place, place / ".git")
    yield from git.run("ls-files", "-z").split("\0")
    for path, _ in submodules(git):
        if (place / path / ".git").exists():
            yield from (f"{path}/{inner}" for inner in _all_tracked(place / path) if inner)


def _hashes(place: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """SHA-256 of every file that is there, of its executable bit and of a link's target."""
    for path in filter(None, paths):
        file = place / path
        try:
            if file.is_symlink():
                yield path, f"link {file.readlink()}"
            elif file.is_file():
                mode = "x" if os.access(file, os.X_OK) else "-"
                yield path, f"{mode} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        except OSError:
            continue  # as good as missing


def _changed_paths(listed: str) -> Iterator[str]:
    """Paths of `git status --porcelain -z`; a rename has its old name as an entry of its own."""
    entries = iter(listed.split("\0"))
    for entry in entries:
        if entry:
            yield entry[3:]
            if "R" in entry[:2] or "C" in entry[:2]:
                next(entries, None)


def _relative(path: str, prefix: str) -> str | None:
    if not prefix:
        return path
    return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else None
