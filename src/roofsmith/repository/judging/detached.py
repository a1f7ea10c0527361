"""Processes that left the process group of a command, and so didn't end with it.

A command's environment names it; whatever it starts inherits that, also a daemon in a session of
its own. Who rewrites its own environment isn't found.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

VARIABLE = "ROOFSMITH_COMMAND"
"""Names the run of a command that a process comes from."""
LEAVING_S = 1.0
"""How long what is about to end by itself may take: helpers that see that their parent is gone.
Chosen."""
_LOOK_S = 0.01


def new_name() -> str:
    """For one run of a command; all are equally long, as environments have to be."""
    return secrets.token_hex(8)


def end_detached(name: str) -> tuple[str, ...]:
    """Kill what a command has left behind, its own process group being dead.

    Args:
        name: the run's, in the environment of all that it started.

    Returns:
        What had to be killed, by the programs' names.
    """
    by_themselves = time.monotonic() + LEAVING_S
    while True:
        is_late = time.monotonic() >= by_themselves  # before this look, which may take long, too
        left = dict(_left(name))
        if not left or is_late:
            break
        time.sleep(_LOOK_S)
    killed = tuple(left.values())
    dying = time.monotonic() + LEAVING_S  # from now: looking at every process may take long, too
    while left:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > dying:
            break
        time.sleep(_LOOK_S)
        left = dict(_left(name))  # with what these started meanwhile
    return killed


def _left(name: str) -> Iterator[tuple[int, str]]:
    """Number and program of every process that comes from a run."""
    marker = f"{VARIABLE}={name}".encode()
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):  # it is gone, a zombie, or another user's
            if marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield pid, psutil.Process(pid).name()
