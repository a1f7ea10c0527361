"""Makes targets of a problem set's problems, one after another; what can't be had is a row, too."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from roofsmith.api.init_pytorch import PyTorchFile, initialize_pytorch
from roofsmith.api.init_repository import RepositoryInit, initialize_repository
from roofsmith.config import Settings
from roofsmith.domain.modes import FirstLanguage
from roofsmith.domain.target import plain_name
from roofsmith.errors import (
    BadReferenceError,
    BaselineError,
    RoofsmithError,
    SignatureError,
    TargetError,
    ToolMissingError,
    UsageError,
)
from roofsmith.ports import Observer
from roofsmith.scratch import scratch_directory
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.git import Git, git_installed
from roofsmith.targets.place import FILE_NAME
from roofsmith.targets.problem_sets.formats import READERS
from roofsmith.targets.problem_sets.problem import CommandProblem, KernelProblem, Problem, Unread

ABOUT = "problem.json"
LONGEST_NAME = 100
"""Characters. A file's name has 255 bytes at most, and names of campaigns' files are longer."""
LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING")


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """What somebody says of a set."""

    form: str
    place: Path
    output: Path
    language: FirstLanguage = "c"
    only: str = "*"
    """A pattern of problems' names."""


@dataclass(frozen=True, slots=True)
class ImportedProblem:
    """What became of one."""

    name: str
    directory: Path | None = None
    """None: it can't be had."""
    reason: str = ""
    notes: tuple[str, ...] = ()
    is_right: bool | None = None
    """Whether its first kernel was seen to be right; None: it wasn't tried, or was there before."""
    wrong: tuple[str, ...] = ()


def import_problems(
    wanted: ProblemSet, settings: Settings, observer: Observer, *, force: bool = False
) -> Iterator[ImportedProblem]:
    """Make a target of each problem, and say what became of it as soon as that is known.

    Args:
        wanted: the set, and what becomes of it.
        settings: where caches are, and the walls around the problems' own code.
        observer: hears what happens.
        force: write a target anew that is there already.

    Raises:
        UsageError: there is no such format, nothing of it lies there, or nothing is called so.
        ToolMissingError: PyTorch isn't installed.
        StorageError: a folder can't be written.
    """
    reader = READERS.get(wanted.form)
    if reader is None:
        raise UsageError(f"there is no format {wanted.form}", hint=f"one of {', '.join(READERS)}")
    if not wanted.place.exists():
        raise UsageError(f"{wanted.place} isn't there")
    is_any, names = False, set[str]()
    origin = _origin(wanted.place)
    for found in reader(wanted.place):
        name = _free(plain_name(found.name)[:LONGEST_NAME], names)
        names.add(name)
        if not fnmatch(name, wanted.only) and not fnmatch(found.name, wanted.only):
            continue
        is_any = True
        if isinstance(found, Unread):
            yield ImportedProblem(name, reason=found.reason)
        else:
            yield _imported(found, name, origin, wanted, settings, observer, force=force)
    if not is_any and names:
        raise UsageError(f"none of {len(names)} problems is called {wanted.only}")
    if not is_any:
        raise UsageError(
            f"{wanted.place} holds no problem of {wanted.form}",
            hint="docs/problems.md says which files belong to each format",
        )


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}-{number}"
    return free


def _imported(
    found: Problem,
    name: str,
    origin: dict[str, str],
    wanted: ProblemSet,
    settings: Settings,
    observer: Observer,
    *,
    force: bool,
) -> ImportedProblem:
    directory = wanted.output / name
    was_there, known = directory.exists(), _about(directory).get("source", found.source)
    if (directory / FILE_NAME).exists() and not force:
        if known != found.source:
            return ImportedProblem(name, reason=f"{directory} holds {known}; --output OTHER")
        return ImportedProblem(name, directory, notes=("it was there already",))
    is_ours = not was_there or (directory / ABOUT).exists()  # and a run was killed amid it
    if isinstance(found, CommandProblem):
        return _copied(found, name, origin, directory, settings, observer, is_ours=is_ours)
    scratch, made = scratch_directory("problem"), None
    try:
        if is_ours:
            _write_about(found, origin, directory)
        for file, text in found.files.items():
            write_file(scratch / file, text.encode("utf-8"))
        model = PyTorchFile(
            scratch / "model.py", found.entry, wanted.language, directory, target_name=name,
            shown=found.origins["model.py"], atol=found.atol, weights=found.weights,
        )  # fmt: skip
        made = initialize_pytorch(model, settings, observer, force=force or is_ours)
    except ToolMissingError:
        raise
    except (TargetError, SignatureError, BadReferenceError, BaselineError) as why:
        return ImportedProblem(name, reason=_about_origins(found, scratch, why))
    except UnicodeEncodeError as why:
        return ImportedProblem(name, reason=f"{found.origins['model.py']}: no text: {why}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if made is None and not was_there:
            shutil.rmtree(directory, ignore_errors=True)
    _write_about(found, origin, directory, made.notes)
    return ImportedProblem(
        name, directory, notes=(*found.notes, *made.notes),
        is_right=None if not made.is_tried else not made.wrong, wrong=made.wrong,
    )  # fmt: skip


def _copied(
    found: CommandProblem,
    name: str,
    origin: dict[str, str],
    directory: Path,
    settings: Settings,
    observer: Observer,
    *,
    is_ours: bool,
) -> ImportedProblem:
    """A copy of a task's files, in a repository of its own, whose commands ran once."""
    if not is_ours or (directory / FILE_NAME).exists():
        why = f"{directory} holds something, maybe campaigns' commits: --output OTHER, or delete it"
        return ImportedProblem(name, reason=why)
    if directory.resolve().is_relative_to(Path(found.folder).resolve()):
        return ImportedProblem(name, reason=f"{directory} lies in the task itself: --output OTHER")
    is_made = False
    try:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(found.folder, directory, symlinks=True, ignore=lambda *_: {".git"})
        git = Git(directory, settings=("user.name=roofsmith", "user.email=roofsmith@localhost"))
        git.run("init", "--quiet", "--template=", ".")
        git.run("add", "--all", "--force")
        git.run("commit", "--quiet", "--message", found.source)
        (directory / ".git" / "info").mkdir(exist_ok=True)
        write_file(directory / ".git" / "info" / "exclude", f"/{ABOUT}\n".encode())
        _write_about(found, origin, directory)
        wanted = RepositoryInit(directory, {"editable": found.editable, **found.commands}, name)
        made = initialize_repository(wanted, True, settings, observer)
        is_made = True
    except (RoofsmithError, OSError) as why:
        return ImportedProblem(name, reason=f"{why}".partition("\n")[0])
    finally:
        if not is_made:
            shutil.rmtree(directory, ignore_errors=True)
    guessed = tuple(f"{key} is a guess, from {why}" for key, why in made.guessed.items())
    return ImportedProblem(name, directory, notes=(*guessed, *made.remarks))


def _about_origins(found: KernelProblem, scratch: Path, error: RoofsmithError) -> str:
    """An error's words, about the set's files in place of those that were made of them."""
    said = error.message if error.hint is None else f"{error.message}; {error.hint}"
    for folder in (scratch, Path(found.origins["model.py"]).parent):
        for name, file in found.origins.items():
            said = said.replace(f"{folder / name}", file)
    for name, file in found.origins.items():
        shown = file.replace("\\", r"\\")
        said = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?=:\d)", shown, said)
    return said


def _write_about(
    found: Problem, origin: dict[str, str], directory: Path, notes: tuple[str, ...] = ()
) -> None:
    """What a report says of where a problem is from, beside its target."""
    about = {
        "schema": 1, "source": found.source, **origin, "tolerance": found.tolerance or None,
        "weight": found.weight, "notes": [*found.notes, *notes],
    }  # fmt: skip
    with storage_errors("write", directory / ABOUT):
        directory.mkdir(parents=True, exist_ok=True)
        write_file(directory / ABOUT, (json.dumps(about, indent=2) + "\n").encode("utf-8"))


def _about(directory: Path) -> dict[str, Any]:
    try:
        found = json.loads((directory / ABOUT).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def weight_of(directory: Path) -> float:
    """How much a target's problem counts in its set; 1 where nobody says."""
    weight = _about(directory).get("weight", 1.0)
    is_one = isinstance(weight, (int, float)) and 0 <= weight < math.inf
    return float(weight) if is_one else 1.0


def _origin(place: Path) -> dict[str, str]:
    """Commit and licence of the folder that a set lies in, where they are known."""
    folder = (place if place.is_dir() else place.parent).absolute()
    found: dict[str, str] = {}
    if git_installed() and (commit := Git(folder).ask("rev-parse", "HEAD")):
        found["commit"] = commit
    for one in (folder, *folder.parents):
        for name in LICENCES:
            if (one / name).is_file():
                lines = (one / name).read_text("utf-8", "replace").splitlines()
                found["licence"] = next((s for line in lines if (s := line.strip())), name)[:80]
                return found
        if (one / ".git").exists():
            break
    return found
