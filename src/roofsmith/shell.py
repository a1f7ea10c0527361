"""Runs a command of a user's repository: with a deadline, in a process group of its own."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from roofsmith.detached import (
    DYING_S,
    LEAVING_S,
    VARIABLE,
    adopt_orphans,
    end_detached,
    end_members,
    has_children,
    new_name,
    running,
)
from roofsmith.errors import StorageError
from roofsmith.wording import some_of

MAX_OUTPUT_BYTES = 64 * 1024**2
"""A command that prints more has gone astray."""
_LOOK_S = 1.0
"""How often the length of the output is looked at."""
_WAITING = (
    'read -r _ || exit; exec 3>&2 2>/dev/null; /bin/sh -c "$0" </dev/null 2>&3 3>&-; echo $? >&0;'
    " read -r _"
)
"""Begins with a command when it is told to: what is killed before has begun nothing. Says how it
ended, and stays: whatever the command has left is a descendant of this shell until then."""
_STATUS_BYTES = 16
_TAIL_BYTES = 4096
_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class ShellRan:
    command: str
    returncode: int
    """As shells tell it: beyond 128, the signal that killed it; negative: killed with its shell."""
    stopped: str | None
    """Why it was killed: `ran past its deadline of 60 s`; None: it ended by itself."""
    wall_s: float
    log: Path
    """Everything that it printed; standard output alone where `output` is another file."""
    output: Path
    left: tuple[str, ...] = ()
    """Programs that had left its process group, ran on and had to be ended."""

    @property
    def passed(self) -> bool:
        return self.stopped is None and self.returncode == 0

    @property
    def ending(self) -> str:
        """`exited with 2`, `was killed by SIGSEGV`, `ran past its deadline of 60 s`."""
        if self.stopped is not None:
            return f"{self.stopped}, and left {self.leftovers}" if self.left else self.stopped
        number = -self.returncode if self.returncode < 0 else self.returncode - 128
        if self.returncode < 0 or (self.returncode > 128 and number in _SIGNALS):
            return f"was killed by {signal.Signals(number).name}"
        return f"exited with {self.returncode}"

    @property
    def leftovers(self) -> str:
        """`2 running: python3, sleep`."""
        return f"{len(self.left)} running: {some_of(self.left)}"

    def told(self) -> str:
        """For people: the command, how it ended, and the end of what it printed."""
        said = tail(self.log)
        if self.output != self.log:
            said = [*tail(self.output, _TAIL_LINES // 2), *said]
        quoted = "\n".join(f"    {line}" for line in said) or "    (it printed nothing)"
        return f"`{self.command}` {self.ending}; it printed:\n{quoted}"


_SIGNALS = frozenset(member.value for member in signal.Signals)


def run_shell(
    command: str,
    *,
    directory: Path,
    environment: Mapping[str, str],
    deadline_s: float,
    log: Path,
    output: Path | None = None,
) -> ShellRan:
    """Run a shell command without input; whatever it leaves running is killed.

    If this process is killed meanwhile, its process group is, too.

    Args:
        command: for /bin/sh.
        directory: where it runs.
        environment: variables beside, or in place of, this process's own.
        deadline_s: wall time.
        log: takes what it prints; made anew, with its folder.
        output: takes standard output, where that is wanted alone.

    Raises:
        StorageError: the log can't be written, or the folder is gone.
    """
    name = new_name()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            errors = stack.enter_context(log.open("wb"))
            out = errors if output is None else stack.enter_context(output.open("wb"))
            ours, theirs = map(stack.enter_context, socket.socketpair())
            process = subprocess.Popen(
                ["/bin/sh", "-c", _WAITING, command],
                cwd=directory, env={**os.environ, **environment, VARIABLE: name},
                stdin=theirs.fileno(), stdout=out, stderr=errors,
                start_new_session=True,
                preexec_fn=adopt_orphans,
            )  # fmt: skip
            theirs.close()
            patience_s = 0.0
            try:
                with _leashed(process.pid):
                    begin = time.monotonic()
                    with suppress(BrokenPipeError):  # somebody has killed it
                        ours.send(b"\n")
                    stopped = _await(ours, begin + deadline_s, deadline_s, (log, output or log))
                    wall_s = time.monotonic() - begin
                    patience_s = LEAVING_S if stopped is None else 0.0
            finally:
                left = _end_all(process, name, patience_s)
            told = _status(ours)
    except OSError as error:
        raise StorageError(f"can't run `{command}` in {directory}: {error.strerror}") from error
    code = process.returncode if told is None else told
    return ShellRan(command, code, stopped, wall_s, log, output or log, left)


def tail(path: Path, lines: int = _TAIL_LINES) -> list[str]:
    """The last lines of a file that aren't empty; none where it can't be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def _await(
    shell: socket.socket, until: float, deadline_s: float, files: tuple[Path, ...]
) -> str | None:
    """Wait for the end, the deadline or too much output; why it has to be killed, if so."""
    waiting = select.poll()
    waiting.register(shell, select.POLLIN)  # also where the shell itself has ended
    while True:
        left_s = until - time.monotonic()
        if waiting.poll(max(0.0, min(left_s, _LOOK_S)) * 1000):
            return None
        if left_s <= 0:
            return f"ran past its deadline of {deadline_s:g} s"
        if any(path.stat().st_size > MAX_OUTPUT_BYTES for path in files):
            return f"printed more than {MAX_OUTPUT_BYTES // 1024**2} MiB"


def _status(shell: socket.socket) -> int | None:
    """The command's exit code, by the shell that waited for it; None: it was killed before."""
    try:
        return int(shell.recv(_STATUS_BYTES, socket.MSG_DONTWAIT) or b"none")
    except (OSError, ValueError):
        return None


@contextmanager
def _leashed(group: int) -> Iterator[None]:
    """Have a group of processes killed if this process ends within the block, even by SIGKILL.

    A shell waits for the end of its input, which nobody else holds open.
    """
    kill = 'read -r _; kill -s KILL -- "-$0"'
    leash = subprocess.Popen(
        ["/bin/sh", "-c", kill, str(group)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        leash.kill()  # before the group's number can be anybody else's
        leash.communicate()


def _end_all(process: subprocess.Popen[bytes], name: str, patience_s: float) -> tuple[str, ...]:
    """End what a command has started, its shell last; what had left its group is named."""
    try:
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if not has_children(process.pid) and os.waitid(os.P_PID, process.pid, look) is None:
            return ()  # whoever lost a parent would be one
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGSTOP)  # nobody sees another die, and says so
        end_members(process.pid)
        return end_detached(name, process.pid, patience_s)
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, and wait for their end: what dies may still write to files."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + DYING_S
    while _is_alive(process.pid) and time.monotonic() < until:
        time.sleep(0.001)


def _is_alive(group: int) -> bool:
    """Whether any process of a group runs; zombies that nobody asks about don't."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(one.group == group for one in running())
