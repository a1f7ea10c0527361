"""Whether a command target's repository is fit to start from, and its commands are there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from roofsmith.api.doctor.snapshot import Inquiry, Snapshot, Topic
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.examination import Check
from roofsmith.errors import RoofsmithError
from roofsmith.repository.checkouts import open_repository, require_clean
from roofsmith.targets.place import FILE_NAME

_WORDS = frozenset((
    "!", "(", "{", ".", ":", "[", "case", "cd", "command", "echo", "eval", "exec", "exit", "export",
    "false", "for", "if", "printf", "read", "set", "test", "time", "trap", "true", "ulimit",
    "umask", "unset", "until", "while",
))  # fmt: skip
"""Words that the shell knows by itself."""


def repository(_s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """What is asked of a repository before a campaign asks its commands."""
    if (spec := q.command) is None:
        return
    yield _clean(spec)
    profile = spec.profile.command if spec.profile else None
    commands = {
        "build": spec.build, "test": spec.test, "benchmark": spec.benchmark,
        "quick": spec.quick,
        "profile": profile, "dispatch": spec.dispatch,
    }  # fmt: skip
    for name, command in commands.items():
        if command is not None:
            yield _command(name, command, Path(spec.repo))


def _clean(spec: CommandSpec) -> Check:
    topic = Topic("files", "repository", ("command",))
    try:
        found = open_repository(Path(spec.repo))
        require_clean(found, but=(found.folder / FILE_NAME,))
    except RoofsmithError as error:
        return topic.missing(error.message, error.hint, "a clean repository")
    return topic.found(f"{found.top} at {found.commit[:12]}, nothing uncommitted")


def _command(name: str, command: str, folder: Path) -> Check:
    topic, program = Topic("files", "command", ("command",)), _program(command)
    # what a build makes isn't there yet
    made = name != "build" and program is not None and "/" in program
    if made or program is None or program in _WORDS or _is_there(program, folder):
        return topic.found(f"{name}: {command}")
    return topic.missing(
        f"{name}: {command}: there is no program {program}",
        f"install {program}, or correct command.{name} in the target",
        f"a program for {name}",
    )


def _program(command: str) -> str | None:
    """The first word that is no variable; None where the shell's own grammar begins."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if "=" not in word), None)


def _is_there(program: str, folder: Path) -> bool:
    return (folder / program).exists() if "/" in program else shutil.which(program) is not None
