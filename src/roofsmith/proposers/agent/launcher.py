"""`roofsmith` on an agent's PATH: the one that asks, by the same Python, within a time."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from roofsmith.errors import StorageError

PROGRAM = "roofsmith"
_PACKAGES = Path(__file__).parents[3]
_SHARE = 3
"""Of an agent's deadline, what part one command may take. Chosen."""
_PASSED_ON = ("ROOFSMITH_ISOLATION", "ROOFSMITH_WIKI", "ROOFSMITH_GATE_")
"""Beginnings of settings that change what a command says, and hold for an agent's, too."""


def make_launcher(folder: Path, environment: Mapping[str, str], deadline_s: float) -> None:
    """A new folder that holds the program alone, and may not be written to.

    Args:
        folder: isn't there yet, and lies where the agent can't write.
        environment: this process's, whose packages are taken.
        deadline_s: the agent's.

    Raises:
        StorageError: it can't be made.
    """
    program = folder / PROGRAM
    try:
        folder.mkdir(parents=True)
        program.write_text(_script(environment, deadline_s), encoding="utf-8")
        program.chmod(0o555)
        folder.chmod(0o555)
    except OSError as error:
        raise StorageError(f"can't make {program}: {error.strerror}") from error


def settings_for(environment: Mapping[str, str], private: Path) -> dict[str, str]:
    """What such a command is told: how this process is set, and folders of the agent's own.

    Args:
        environment: this process's.
        private: takes caches.
    """
    kept = {name: text for name, text in environment.items() if name.startswith(_PASSED_ON)}
    return kept | {
        "ROOFSMITH_ASKED_BY": str(os.getpid()),
        "ROOFSMITH_CACHE": str(private),
        "ROOFSMITH_LEASES": str(private / "leases"),  # the GPU that is leased is leased for it
        "ROOFSMITH_TIPS": "none",
    }


def _script(environment: Mapping[str, str], deadline_s: float) -> str:
    found = environment.get("PYTHONPATH", "").split(os.pathsep)
    packages = os.pathsep.join([str(_PACKAGES), *(path for path in found if path.startswith("/"))])
    command = [sys.executable, "-P", "-m", "roofsmith"]
    if (timeout := shutil.which("timeout")) is not None:
        command = [timeout, "--kill-after=5", f"{deadline_s / _SHARE:.0f}", *command]
    return (
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(packages)} PYTHONDONTWRITEBYTECODE=1 exec {shlex.join(command)}"
        ' "$@"\n'
    )
