"""Processes that left the process group of a command, and so didn't end with it.

Two things lead to them. Descent: what loses its parent becomes a child of the shell that waits for
the command (`adopt_orphans`), also a daemon in a session of its own. And the environment, whose
variable everything inherits, for commands that kill that shell.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ROOFSMITH_COMMAND"
"""Names the run of a command that a process comes from."""
LEAVING_S = 1.0
"""How long what is about to end by itself may take: helpers that see that their parent is gone.
Chosen."""
DYING_S = 5.0
"""How long the end of killed processes is waited for: one with much memory takes a while."""
_LOOK_S = 0.01
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of this host, and no zombie."""

    pid: int
    program: str
    parent: int
    group: int


def new_name() -> str:
    """For one run of a command; all are equally long, as environments have to be."""
    return secrets.token_hex(8)


def adopt_orphans() -> None:
    """Have descendants that lose their parents become this process's; an `exec` changes nothing."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def has_children(pid: int) -> bool:
    """Whether a process has any, zombies among them; True where the kernel doesn't tell."""
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_bytes())
    except OSError:
        return True


def end_members(group: int) -> None:
    """Kill a process group but for its leader, and wait for their end."""
    _end(lambda: [one for one in running() if one.group == group != one.pid])


def end_detached(
    name: str, ancestor: int | None = None, patience_s: float = LEAVING_S
) -> tuple[str, ...]:
    """Kill what a command has left behind, its own process group being dead.

    Args:
        name: the run's, in the environment of all that it started.
        ancestor: who adopts orphans, and isn't killed; None: nobody does.
        patience_s: with what ends by itself.

    Returns:
        What had to be killed, by the programs' names.
    """
    by_themselves = time.monotonic() + patience_s
    while True:
        is_late = time.monotonic() >= by_themselves  # before this look, which may take long, too
        left = _left(name, ancestor)
        if not left or is_late:
            break
        time.sleep(_LOOK_S)
    _end(lambda: _left(name, ancestor), left)  # with what these started meanwhile
    return tuple(one.program for one in left)


def running() -> Iterator[RunningProcess]:
    """Every process that can be seen; proc_pid_stat(5)."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            head, _, rest = path.read_text(errors="replace").rpartition(")")
            state, parent, group = rest.split()[:3]
            if state not in "ZX":
                program = head.partition("(")[2]
                yield RunningProcess(int(path.parent.name), program, int(parent), int(group))


def _end(
    look: Callable[[], Collection[RunningProcess]], found: Collection[RunningProcess] | None = None
) -> None:
    left = look() if found is None else found
    dying = time.monotonic() + DYING_S  # from now: looking at every process may take long, too
    while left:
        for one in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGKILL)
        if time.monotonic() > dying:
            break
        time.sleep(_LOOK_S)
        left = look()


def _left(name: str, ancestor: int | None) -> list[RunningProcess]:
    everybody = tuple(running())
    family = set() if ancestor is None else set(_descendants(ancestor, everybody))
    marker = f"{VARIABLE}={name}".encode()
    return [
        one
        for one in everybody
        if one.pid in family or (one.pid != ancestor and _is_marked(one.pid, marker))
    ]


def _descendants(ancestor: int, everybody: Iterable[RunningProcess]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for one in everybody:
        children.setdefault(one.parent, []).append(one.pid)
    waiting = children.get(ancestor, [])
    while waiting:
        yield (pid := waiting.pop())
        waiting += children.get(pid, [])


def _is_marked(pid: int, marker: bytes) -> bool:
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it is gone, or another user's
        return False
