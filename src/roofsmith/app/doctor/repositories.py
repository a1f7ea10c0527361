"""Whether a command target's repository is fit to start from, and its commands are there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.examination import Check
from roofsmith.errors import RoofsmithError
from roofsmith.store.checkouts import open_repository, require_clean
from roofsmith.store.target_file import FILE_NAME

_WORDS = frozenset((
    "!", "(", "{", ".", ":", "[", "case", "cd", "command", "echo", "eval", "exec", "exit", "export",
    "false", "for", "if", "printf", "read", "set", "test", "time", "trap", "true", "ulimit",
    "umask", "unset", "until", "while",
))  # fmt: skip
"""Words that the shell knows by itself."""


def repository_checks(spec: CommandSpec) -> Iterator[Check]:
    """What is asked of a repository before a campaign asks its commands."""
    yield _clean(spec)
    profile = spec.profile.command if spec.profile else None
    commands = {
        "build": spec.build, "test": spec.test, "benchmark": spec.benchmark,
        "profile": profile, "dispatch": spec.dispatch,
    }  # fmt: skip
    for name, command in commands.items():
        if command is not None:
            yield _command(name, command, Path(spec.repo))


def _clean(spec: CommandSpec) -> Check:
    try:
        repository = open_repository(Path(spec.repo))
        require_clean(repository, but=(repository.folder / FILE_NAME,))
    except RoofsmithError as error:
        return Check(
            area="files", name="repository", level="missing", detail=error.message, fix=error.hint,
            languages=("command",), required=True, lack="a clean repository",
        )  # fmt: skip
    return Check(
        area="files", name="repository", level="ok", languages=("command",),
        detail=f"{repository.top} at {repository.commit[:12]}, nothing uncommitted",
    )  # fmt: skip


def _command(name: str, command: str, folder: Path) -> Check:
    program = _program(command)
    found = program is None or program in _WORDS or _is_there(program, folder)
    # what a build makes isn't there yet
    if found or (name != "build" and program is not None and "/" in program):
        return Check(
            area="files", name="command", level="ok", languages=("command",),
            detail=f"{name}: {command}",
        )  # fmt: skip
    return Check(
        area="files", name="command", level="missing", languages=("command",),
        detail=f"{name}: {command}: there is no program {program}",
        fix=f"install {program}, or correct command.{name} in the target",
        required=True, lack=f"a program for {name}",
    )  # fmt: skip


def _program(command: str) -> str | None:
    """The first word that is no variable; None where the shell's own grammar begins."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if "=" not in word), None)


def _is_there(program: str, folder: Path) -> bool:
    if "/" in program:
        return (folder / program).exists()
    return shutil.which(program) is not None
