"""Runs an agent's command: kept, heard, and ended with all that it started."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from roofsmith.errors import StorageError
from roofsmith.proposers.agent import answered
from roofsmith.proposers.agent.answered import AnsweredWatch
from roofsmith.proposers.agent.keeper import Orphans
from roofsmith.redaction import Redaction
from roofsmith.shell import end_group

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
    """What such a command is told: how this process is set, and folders of the agent's own."""
    kept = {name: text for name, text in environment.items() if name.startswith(_PASSED_ON)}
    return kept | {
        "ROOFSMITH_ASKED_BY": str(os.getpid()),
        "ROOFSMITH_CACHE": str(private),
        "ROOFSMITH_LEASES": str(private / "leases"),  # the GPU that is leased is leased for it
        "ROOFSMITH_EXPERIENCE": "none",
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


MAX_OUTPUT_BYTES = 64 << 20
"""An agent that prints more has gone astray."""
LARGEST_FILE_BYTES = 1 << 30
"""That it may write."""
_KEPT_BYTES = 2 << 20
"""Of the beginning of its output, and of the end: what the log holds."""
_READ_BYTES = 1 << 16
_ENDING_S = 10.0
"""For the keeper to end everybody: it takes half of that at most."""
_KEEPER = Path(__file__).with_name("keeper.py")


Stopped = Literal["deadline", "flood", "answered"]
"""answered: it had left a whole answer, and did nothing any more."""


@dataclass(frozen=True, slots=True)
class Job:
    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    deadline_s: float
    layers: Sequence[str]
    """Its walls, by name; none: there are no walls."""
    writable: Sequence[Path]
    """Folders that it may write to behind them."""
    log: Path
    """Isn't there yet."""
    redacted: Redaction
    answer: Path | None = None
    """The file that it leaves: once that is whole and all is quiet, nobody waits for the end."""
    terminal: bool = False
    """Whether a person works with it at this terminal; nothing is kept then."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int | None
    """Negative: a signal; None: it was stopped, or ended whoever kept it."""
    stopped: Stopped | None
    left: tuple[str, ...]
    """Programs that it left behind."""
    tail: tuple[str, ...]
    """The last lines that it printed."""

    @property
    def is_orphaned(self) -> bool:
        """Whether it ended whoever kept it."""
        return self.code is None and self.stopped is None


def run_agent(job: Job, hear: Callable[[str], None], end_left: Callable[[], Sequence[str]]) -> Ran:
    """Run an agent's command to its end, its deadline or its flood.

    Args:
        hear: gets every line, without secrets and control characters.
        end_left: ends what rewrote its parentage, and says what that was.

    Raises:
        StorageError: the log can't be written, or the command's folder is gone.
    """
    ours, theirs = socket.socketpair()
    try:
        with Orphans() as orphans, ours, theirs, job.log.open("xb") as log:
            process = _start(job, theirs)
            theirs.close()
            heard = _Heard(log, job.redacted, hear)
            try:
                quiet = None if job.answer is None else AnsweredWatch(process.pid, job.answer)
                stopped = _listen(process, ours, heard, job.deadline_s, quiet)
                said = _ending(process, ours, heard)
            finally:
                if job.terminal:  # its group is this process's own
                    process.kill()
                end_group(process)
                if process.stdout is not None:
                    process.stdout.close()
                left = [*end_left(), *(() if said else orphans.end())]
            heard.finish()
    except OSError as error:
        raise StorageError(f"can't run {job.command[0]}: {error.strerror or error}") from error
    names = (*_names(said.get("left")), *left)
    code = said.get("code")
    return Ran(
        code=code if isinstance(code, int) and stopped is None else None,
        stopped=stopped,
        left=tuple(dict.fromkeys(printable(name) for name in names)) if stopped is None else (),
        tail=tuple(heard.tail),
    )


def printable(text: str) -> str:
    """A line without what would move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _start(job: Job, control: socket.socket) -> subprocess.Popen[bytes]:
    writable = [str(path) for path in job.writable]
    return subprocess.Popen(
        [
            sys.executable, "-I", "-S", str(_KEEPER), str(control.fileno()),
            str(LARGEST_FILE_BYTES), str(int(job.terminal)), ",".join(job.layers),
            str(len(writable)), *writable, *job.command,
        ],
        cwd=job.directory, env=dict(job.environment), pass_fds=[control.fileno()],
        stdin=None if job.terminal else subprocess.DEVNULL,
        stdout=None if job.terminal else subprocess.PIPE,
        stderr=None if job.terminal else subprocess.STDOUT,
        start_new_session=not job.terminal,
    )  # fmt: skip


def _listen(
    process: subprocess.Popen[bytes], control: socket.socket, heard: _Heard, deadline_s: float,
    quiet: AnsweredWatch | None,
) -> Stopped | None:  # fmt: skip
    """Hear the output until the keeper has something to say; why it has to end, if so."""
    until = time.monotonic() + deadline_s
    poll = select.poll()
    poll.register(control, select.POLLIN)
    output = process.stdout
    if output is not None:
        poll.register(output, select.POLLIN)
    while True:
        left_s = until - time.monotonic()
        if left_s <= 0:
            return "deadline"
        wait_s = left_s if quiet is None else min(left_s, answered.LOOK_S)
        ready = {descriptor for descriptor, _ in poll.poll(wait_s * 1000 + 1)}
        if not ready and quiet is not None and quiet.is_over(heard.bytes):
            return "answered"
        if output is not None and output.fileno() in ready:
            if not heard.read(output):
                poll.unregister(output)
                output = None
            if heard.bytes > MAX_OUTPUT_BYTES:
                return "flood"
        elif control.fileno() in ready:
            return None


def _ending(
    process: subprocess.Popen[bytes], control: socket.socket, heard: _Heard
) -> dict[str, object]:
    """What the keeper says when all have ended; nothing if it was killed."""
    with suppress(OSError):
        control.shutdown(socket.SHUT_WR)
    control.settimeout(_ENDING_S)
    said = b""
    with suppress(OSError):
        while part := control.recv(_READ_BYTES):
            said += part
    if process.stdout is not None and heard.bytes <= MAX_OUTPUT_BYTES:
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        while poll.poll(0) and heard.read(process.stdout) and heard.bytes <= MAX_OUTPUT_BYTES:
            pass
    try:
        found = json.loads(said)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _names(found: object) -> list[str]:
    return [str(name) for name in found] if isinstance(found, list) else []


class _Heard:
    """The output so far: its beginning and its end are kept, every line is passed on."""

    def __init__(self, log: IO[bytes], redacted: Redaction, hear: Callable[[str], None]) -> None:
        self._log, self._redacted, self._hear = log, redacted, hear
        self._pending: list[bytes] = []
        self._written = 0
        self._late: deque[bytes] = deque()
        self._late_bytes = 0
        self._left_out = 0
        self.bytes = 0
        self.tail: deque[str] = deque(maxlen=5)

    def read(self, output: IO[bytes]) -> bool:
        """Take what is there; False at the end."""
        data = os.read(output.fileno(), _READ_BYTES)
        self.bytes += len(data)
        first, *others = data.split(b"\n")
        self._pending.append(first)
        for line in others:
            self._line(b"".join(self._pending))
            self._pending = [line]
        return bool(data)

    def finish(self) -> None:
        """Write the end of the output behind its beginning."""
        if rest := b"".join(self._pending):
            self._line(rest)
        if self._left_out:
            self._log.write(b"[%d bytes left out]\n" % self._left_out)
        self._log.writelines(self._late)

    def _line(self, line: bytes) -> None:
        text = self._redacted(line.decode(errors="replace").rstrip("\r"))
        data = text.encode(errors="replace") + b"\n"
        for begin in range(0, len(data), _READ_BYTES):
            self._keep(data[begin : begin + _READ_BYTES])
        if text.strip():
            self.tail.append(printable(text.strip()[:200]))
            self._hear(text)

    def _keep(self, data: bytes) -> None:
        if self._written < _KEPT_BYTES:
            self._log.write(data)
            self._written += len(data)
        else:
            self._late.append(data)
            self._late_bytes += len(data)
            while self._late_bytes > _KEPT_BYTES:
                gone = len(self._late.popleft())
                self._late_bytes -= gone
                self._left_out += gone
