"""Runs the git program: always with a deadline, never with the user's hooks, prompts or GIT_*."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roofsmith.errors import StorageError, ToolMissingError
from roofsmith.shell import end_group

DEADLINE_S = 60.0
CHECKOUT_DEADLINE_S = 300.0
"""Checking out a big repository takes its time."""
_LITTLE_BYTES = 1 << 20
"""Less free space than this is probably why git failed."""
_STRANGE_OWNER = re.compile(r"detected dubious ownership in repository at '([^'\n]+)'")
_GRACE_S = 5.0
"""Between asking git to stop, when it removes its lock files, and killing it."""

_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "i18n.commitEncoding=utf-8",
    "i18n.logOutputEncoding=utf-8",
    "submodule.recurse=false",
    "branch.autoSetupMerge=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
"""Settings of the user's that would run programs, change bytes, or touch more than is meant."""

_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_VALUE_",
    "GIT_EXEC_PATH",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
)
"""The only GIT_* variables that say who and where the user is. All others (GIT_DIR,
GIT_INDEX_FILE, ...) belong to a git that may be running us, from a hook for example."""


def git_installed() -> bool:
    """Whether there is a git program at all."""
    return shutil.which("git") is not None


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    return kept | {
        "LC_ALL": "C",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_EDITOR": "true",
    }


@dataclass(frozen=True, slots=True)
class Git:
    """The git program, used in one place."""

    directory: Path
    """Where it runs."""
    git_dir: Path | None = None
    """The repository (or a worktree's `.git` file), with `directory` as its working tree. With
    None, git looks for a repository upwards from `directory`, so it may find the user's: nothing
    that resets or cleans runs without this."""
    identity: Mapping[str, str] | None = None
    """Further environment, for commits."""
    settings: tuple[str, ...] = ()
    """Beside those that every command has, such as `filter.lfs.smudge=`."""

    def run(
        self, *arguments: str | Path, stdin: bytes = b"", deadline_s: float = DEADLINE_S
    ) -> str:
        """Standard output, without the last line end.

        Raises:
            StorageError: git refuses or takes too long; with the command and what it printed.
            ToolMissingError: there is no git.
        """
        command = self._command(arguments)
        shown = shlex.join(["git", *(os.fspath(argument) for argument in arguments)])
        code, output, errors = self._execute(command, shown, stdin, deadline_s)
        if code != 0:
            printed = errors.decode("utf-8", "replace").strip() or "it printed nothing"
            strange = _STRANGE_OWNER.search(printed)
            if strange is not None:
                printed = strange[0]
            raise StorageError(
                f"{shown} failed in {self.directory} (exit {code}): {printed}",
                hint=_trusting(strange[1]) if strange is not None else self._hint(),
            )
        return os.fsdecode(output).removesuffix("\n")

    def ask(self, *arguments: str | Path) -> str | None:
        """As `run`, but None if git says no: for questions whose answer may be "there is none"."""
        try:
            return self.run(*arguments)
        except StorageError:
            return None

    def _hint(self) -> str:
        """Git doesn't always say that the disk is full when that is what is wrong."""
        with suppress(OSError):
            free_bytes = shutil.disk_usage(self.directory).free
            if free_bytes < _LITTLE_BYTES:
                return f"free some space on that disk: it has {free_bytes // 1024} kB left"
        return "run that command there yourself to see more"

    def _command(self, arguments: tuple[str | Path, ...]) -> list[str]:
        settings = [part for setting in (*_CONFIG, *self.settings) for part in ("-c", setting)]
        where = []
        if self.git_dir is not None:
            where = [f"--git-dir={self.git_dir}", f"--work-tree={self.directory}"]
        return ["git", *settings, *where, *(os.fspath(argument) for argument in arguments)]

    def _execute(
        self, command: list[str], shown: str, stdin: bytes, deadline_s: float
    ) -> tuple[int, bytes, bytes]:
        try:
            # In a session of its own, Ctrl-C doesn't reach git in the middle of a write, and
            # nothing that it starts can ask the terminal for a password.
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=scrubbed_environment(os.environ) | dict(self.identity or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            if not git_installed():
                raise ToolMissingError("git isn't installed", hint="install git") from error
            raise StorageError(f"can't run {shown} in {self.directory}: {error}") from error
        with process:
            try:
                output, errors = process.communicate(stdin, timeout=deadline_s)
            except subprocess.TimeoutExpired as error:
                raise StorageError(
                    f"{shown} in {self.directory} gave no answer within {deadline_s:g} s",
                    hint="run that command there yourself to see what it waits for",
                ) from error
            finally:
                _stop(process)
        return process.returncode, output, errors


def _trusting(place: str) -> str:
    """How git is told that another user's repository may be used; a clone asks for each part."""
    return (
        f"git config --global --add safe.directory {shlex.quote(place)}, if you trust its owner"
        " ('*' in place of the path: all, submodules too), or make it your own with chown"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    end_group(process)
