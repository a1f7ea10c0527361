"""Keeps one agent: starts its command behind walls, and ends all that comes of it.

    python -I -S keeper.py CONTROL SIZE TERMINAL LAYERS N WRITABLE{N} COMMAND...

LAYERS are the walls' names with commas between them, N folders may be written to behind them.
Whatever the command starts stays a descendant: what loses its parent becomes this process's child,
also a daemon in a session of its own. So all of it is found at the end. CONTROL is a socket: when
its other end is shut, or its owner dies, everything is killed. At the end it gets one JSON object:
`code` (negative: a signal) and `left` (programs that had to be killed).

Standard library only: the agent's own packages are never in sight of it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_LEAVING_S = 1.0
"""How long what is about to end by itself may take: helpers that see that their parent is gone.
Chosen, as for commands of repositories."""
_DYING_S = 5.0
_LOOK_S = 0.01
_CANNOT_START = 127
"""Exit code of shells that don't find a command."""


def main() -> None:
    """Do what the command line says; doesn't return."""
    control, size, terminal = map(int, sys.argv[1:4])
    layers, writable = sys.argv[4], int(sys.argv[5])
    words = sys.argv[6:]
    os.set_inheritable(control, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal it is for the command
    _adopt(orphans=True)
    agent = os.fork()
    if agent == 0:
        if not terminal:
            os.setsid()
        if layers:
            _wall_in(layers.split(","), words[:writable], terminal=bool(terminal))
        _become(words[writable:], size)
    code = _await(agent, control)
    left = _end_all(_LEAVING_S if code is not None else 0.0)
    said = {"code": code, "left": left}
    with suppress(OSError):
        os.write(control, json.dumps(said).encode() + b"\n")
    os._exit(0)


def _become(command: list[str], size: int) -> None:
    """Be the command; doesn't return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # somebody has set it lower
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        _give_up(f"{command[0]}: {error.strerror}")


def _wall_in(layers: list[str], writable: list[str], *, terminal: bool) -> None:
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from roofsmith.proposers.agent import walls

    try:
        walls.put_up(layers, writable, terminal=terminal)
    except walls.Refused as error:
        _give_up(f"no walls: {error}")


def _give_up(why: str) -> None:
    os.write(2, f"{why}\n".encode(errors="replace"))
    os._exit(_CANNOT_START)


def _await(agent: int, control: int) -> int | None:
    """The agent's exit code, negative for a signal; None if it is to be stopped."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(os.pidfd_open(agent), select.POLLIN)
    while True:
        if any(descriptor == control for descriptor, _ in poll.poll()):
            return None
        ended, status = os.waitpid(agent, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def _end_all(grace_s: float) -> list[str]:
    """End every descendant; the names of those that didn't end by themselves in time."""
    by_themselves = time.monotonic() + grace_s
    left = set[str]()
    while _is_anybody_there():
        now = time.monotonic()
        if now >= by_themselves:
            for pid, name in _children():
                left.add(name)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if now > by_themselves + _DYING_S:
            break
        time.sleep(_LOOK_S)
    return sorted(left)


class Orphans:
    """Of descendants within the block, those who lose their parents become this process's own.

    A keeper that its agent has killed leaves its children so.
    """

    def __enter__(self) -> Orphans:
        self._before = {pid for pid, _ in _children()}
        _adopt(orphans=True)
        return self

    def __exit__(self, *_: object) -> None:
        _adopt(orphans=False)

    def end(self) -> list[str]:
        """End them, and whatever else this process has started since; their names."""
        ended, until = [], time.monotonic() + _DYING_S
        while (left := self._left()) and time.monotonic() < until:
            for pid, name in left:
                ended.append(name)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._bury()
        self._bury()
        return ended

    def _left(self) -> list[tuple[int, str]]:
        return [child for child in _children() if child[0] not in self._before]

    def _bury(self) -> None:
        for pid, _ in _children(but=""):
            if pid not in self._before:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _adopt(*, orphans: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


def _is_anybody_there() -> bool:
    """Whether there are children still; those that have ended are buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children(but: str = "ZX") -> list[tuple[int, str]]:
    """Number and name of this process's children, but for those in these states: the dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            head, _, rest = path.read_text(errors="replace").rpartition(")")
            state, parent = rest.split()[:2]  # proc_pid_stat(5)
            if int(parent) == os.getpid() and state not in but:
                found.append((int(path.parent.name), head.partition("(")[2]))
    return found


if __name__ == "__main__":
    main()
