"""The socket in a campaign's directory: how commands find the process that holds the campaign open.

`api/holding.py` is that process. The first command that needs it binds the socket and hands it over
as it starts the process, so that nobody has to wait for it to be there. Messages are JSON lines, a
request first. Only the standard library: a client has to be there at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from roofsmith import __version__, errors

SWITCH = "ROOFSMITH_HOLD"
"""`0` in the environment: every command opens the campaign for itself."""
ASKED_BY = "ROOFSMITH_ASKED_BY"
"""Set for an agent in its turn: the process that waits for it has the campaign."""
MODULE = "roofsmith.api.holding"
FOLDER, _NAME, _LOG = ".held", "socket", "logs/held.log"
_TRIES = 3
"""A process that just ends, or was started with other settings, makes room for a new one."""
_BACKLOG = 64
_STATUS_S = 2.0
"""Longer than a sound process takes to say what it does. Chosen."""
_LOOK_S = 3.0
"""Between two looks whether the process that is waited for was stopped. Chosen."""
_CLOSED_S = 60.0
"""Longer than an idle campaign takes to be closed, unless its process was stopped. Chosen."""
_SHELLS_OWN = frozenset({
    "_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "WINDOWID", "SSH_CLIENT", "SSH_TTY",
    "SSH_CONNECTION", "TMUX_PANE", "NO_COLOR", "FORCE_COLOR", "PYTEST_CURRENT_TEST",
})  # fmt: skip
"""Variables that differ between terminals, and that nothing of a campaign heeds."""

Message = dict[str, Any]
Closed = Literal["closed", "killed", "at work", "none"]
"""What became of the process that held a campaign: there was none, or it had been killed."""


@dataclass(frozen=True, slots=True)
class HeldProcess:
    pid: int
    directory: Path

    @property
    def is_stopped(self) -> bool:
        """By a signal (proc(5)); it can't answer then."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        return status.rpartition(b")")[2].split()[0] in (b"T", b"t")


def exchanged(directory: Path, request: Message, hear: Callable[[Message], None]) -> Message | None:
    """What the process that holds a campaign answers; it is started if there is none.

    Args:
        directory: the campaign's.
        request: `command`, `arguments`, `settings`, and what the screen is like.
        hear: told of stages, progress and records meanwhile, of changes that no record holds, and
            if the process died.

    Returns:
        The answer; None where no process can hold the campaign.

    Raises:
        RoofsmithError: as the process says, or it died on the way.
        KeyboardInterrupt: this command was interrupted, and so was what it asked for.
    """
    if os.environ.get(SWITCH) == "0" or ASKED_BY in os.environ:
        return None
    said = {**request, "version": __version__, "environment": environment_digest()}
    for _ in range(_TRIES):
        try:
            connection = _connected(directory)
        except OSError:
            return None
        with connection:
            if (answer := _answer(connection, said, hear, directory)) is not None:
                return _sound(answer)
    return None


def status(directory: Path) -> Message | None:
    """Since when a process holds a campaign, for how long it is idle, and what it does.

    None where there is no such process, or it doesn't answer.
    """
    try:
        with _reached(directory) as connection:
            connection.settimeout(_STATUS_S)
            return _answer(connection, {"command": "status"}, lambda _: None)
    except OSError:
        return None


def closed(
    directory: Path, hear: Callable[[Message], None] = lambda _: None, *, idle_only: bool = False
) -> Closed:
    """Have the process end that holds a campaign, after what it does; what became of it.

    Raises:
        MachineError: it was stopped, and can't hear.
    """
    request = {"command": "close", "arguments": {"idle_only": idle_only}}
    try:
        with _reached(directory) as connection:
            connection.settimeout(_CLOSED_S if idle_only else None)
            if _answer(connection, request, hear, directory) is not None:
                return "at work"
    except ConnectionRefusedError:
        return _was_killed(directory)
    except OSError:
        return "none"
    with suppress(OSError):
        if (directory / FOLDER / _NAME).exists():  # who ends by itself takes it away
            return _was_killed(directory)
    return "closed"


def _was_killed(directory: Path) -> Closed:
    """Take away the socket of a process that is gone, unless it is another's by now."""
    with suppress(OSError), _opened(directory / FOLDER) as place:
        fcntl.flock(place.number, fcntl.LOCK_EX)
        try:
            place.connected().close()
        except ConnectionRefusedError:
            place.remove()
    return "killed"


def holders() -> Iterator[HeldProcess]:
    """All of this user on this machine, as the kernel knows them."""
    seen: set[int] = set()
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda found: int(found.name)):
        try:
            if folder.stat().st_uid != os.geteuid():
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if MODULE in words[:4] and parent not in seen:  # a child before its exec looks alike
            seen.add(int(folder.name))
            yield HeldProcess(int(folder.name), Path(words[words.index(MODULE) + 1]))


def environment_digest() -> str:
    """Of all that a command is told by its environment, secrets included."""
    heeded = {name: text for name, text in os.environ.items() if name not in _SHELLS_OWN}
    if "ROOFSMITH_GPU_WIKI" in heeded:  # which may be relative
        heeded["PWD"] = str(Path.cwd())
    text = json.dumps(heeded, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def send(connection: socket.socket, message: Message) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _answer(
    connection: socket.socket,
    request: Message,
    hear: Callable[[Message], None],
    directory: Path | None = None,
) -> Message | None:
    """What a request comes to; None where the process ended before it began with it."""
    begun, interrupt, answer = False, None, None
    try:
        with _ending_with(connection, directory) as stopped, connection.makefile("rb") as lines:
            send(connection, request)
            while answer is None:
                try:
                    if not (line := lines.readline()).endswith(b"\n"):
                        break
                    message: Message = json.loads(line)
                    begun = begun or message["kind"] == "begun"
                    if message["kind"] == "answer":
                        answer = message
                    elif interrupt is None:
                        hear(message)
                    send(connection, {"kind": "heard"})
                except KeyboardInterrupt as error:
                    if not begun or interrupt is not None:
                        raise
                    interrupt = error
                    send(connection, {"kind": "interrupt", "how": str(error) or "interrupted"})
    except (ConnectionError, TimeoutError):
        pass
    if answer is None and stopped:
        raise errors.MachineError(
            f"process {stopped[0]}, which holds {directory} open, was stopped and can't answer",
            hint=f"`kill -CONT {stopped[0]}` lets it go on; `kill -9 {stopped[0]}` ends it: what"
            " was recorded is kept",
        )
    if interrupt is not None and (answer is None or answer.get("interrupted")):
        raise interrupt
    if answer is None and begun and directory is not None:
        hear({"kind": "died"})
        raise errors.MachineError(
            f"the process that held {directory} open died",
            hint="the same command again: what was recorded is kept",
            log=directory / _LOG,
        )
    return answer


@contextmanager
def _ending_with(connection: socket.socket, directory: Path | None) -> Iterator[list[int]]:
    """Within it nobody is listened to that was stopped (SIGSTOP): such processes, once seen."""
    stopped, is_over = list[int](), threading.Event()

    def look() -> None:
        known: list[HeldProcess] = []
        while directory is not None and not is_over.wait(_LOOK_S):
            # all processes once alone: something may be timed by now
            known = known or [h for h in holders() if h.directory.resolve() == directory.resolve()]
            stopped.extend(held.pid for held in known if held.is_stopped)
            if stopped:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield stopped
    finally:
        is_over.set()


def _sound(answer: Message) -> Message:
    """An answer that is no error.

    Raises:
        RoofsmithError: it is one.
    """
    if (error := answer.get("error")) is None:
        return answer
    kind, log = getattr(errors, error["kind"], errors.RoofsmithError), error["log"]
    raise kind(error["message"], hint=error["hint"], log=None if log is None else Path(log))


def _connected(directory: Path) -> socket.socket:
    """A connection to the process that holds a campaign, which is started if there is none.

    Raises:
        OSError: there is no campaign, or no place for a socket of our own.
    """
    (directory / "ledger.jsonl").stat()
    folder = directory / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with _opened(folder) as place:
        fcntl.flock(place.number, fcntl.LOCK_EX)
        try:
            return place.connected()
        except (FileNotFoundError, ConnectionRefusedError):
            place.bind_for(directory)
            return place.connected()


def _reached(directory: Path) -> socket.socket:
    with _opened(directory / FOLDER) as place:
        return place.connected()


class _Place:
    """The folder of a socket, open, so that its path may be as long as it likes (unix(7): 107)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._address = f"/proc/self/fd/{number}/{_NAME}"

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)

    def connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection

    def remove(self) -> None:
        """Without a socket, nobody looks for a process."""
        Path(self._address).unlink(missing_ok=True)

    def bind_for(self, directory: Path) -> None:
        self.remove()  # of a process that was killed
        log = directory / _LOG
        log.parent.mkdir(exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listening, log.open("ab") as file:
            listening.bind(self._address)
            listening.listen(_BACKLOG)
            number = listening.fileno()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(directory.absolute()), str(number)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                pass_fds=[number], start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=process.wait, daemon=True).start()  # or it stays as a zombie


def _opened(folder: Path) -> _Place:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(number)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(number)
        raise PermissionError(f"{folder} isn't this user's alone")
    return _Place(number)
