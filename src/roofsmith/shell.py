"""Runs a command of a user's repository: with a deadline, in a process group of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from roofsmith.errors import StorageError

MAX_OUTPUT_BYTES = 64 * 1024**2
"""A command that prints more has gone astray."""
_LOOK_S = 1.0
"""How often the length of the output is looked at."""
_DYING_S = 5.0
"""How long the end of killed processes is waited for: one with much memory takes a while."""
_WAITING = 'read -r _ || exit; exec </dev/null /bin/sh -c "$0"'
"""Begins with a command when it is told to: what is killed before has begun nothing."""
_TAIL_BYTES = 4096
_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class ShellRan:
    """How a command ended."""

    command: str
    returncode: int
    """Negative: the signal that killed it."""
    stopped: str | None
    """Why it was killed: `ran past its deadline of 60 s`; None: it ended by itself."""
    wall_s: float
    log: Path
    """Everything that it printed; standard output alone where `output` is another file."""
    output: Path

    @property
    def passed(self) -> bool:
        """Whether it ended by itself, with exit code 0."""
        return self.stopped is None and self.returncode == 0

    @property
    def ending(self) -> str:
        """`exited with 2`, `was killed by SIGSEGV`, `ran past its deadline of 60 s`."""
        if self.stopped is not None:
            return self.stopped
        number = -self.returncode if self.returncode < 0 else self.returncode - 128
        if self.returncode < 0 or (self.returncode > 128 and number in _SIGNALS):
            return f"was killed by {signal.Signals(number).name}"
        return f"exited with {self.returncode}"

    def told(self) -> str:
        """For people: the command, how it ended, and the end of what it printed."""
        said = tail(self.log) or tail(self.output)
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
    """Run a shell command without input; whatever of its process group is left over is killed.

    That holds if this process is killed meanwhile, too.

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
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            errors = stack.enter_context(log.open("wb"))
            out = errors if output is None else stack.enter_context(output.open("wb"))
            process = subprocess.Popen(
                ["/bin/sh", "-c", _WAITING, command],
                cwd=directory, env={**os.environ, **environment},
                bufsize=0, stdin=subprocess.PIPE, stdout=out, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None  # it is a pipe
            go = stack.enter_context(process.stdin)
            try:
                with _leashed(process.pid):
                    begin = time.monotonic()
                    with suppress(BrokenPipeError):  # somebody has killed it
                        go.write(b"\n")
                    go.close()
                    stopped = _await(process, begin + deadline_s, deadline_s, (log, output or log))
            finally:
                end_group(process)
            wall_s = time.monotonic() - begin
    except OSError as error:
        raise StorageError(f"can't run `{command}` in {directory}: {error.strerror}") from error
    return ShellRan(command, process.returncode, stopped, wall_s, log, output or log)


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
    process: subprocess.Popen[bytes], until: float, deadline_s: float, files: tuple[Path, ...]
) -> str | None:
    """Wait for the end, the deadline or too much output; why it has to be killed, if so."""
    watched = os.pidfd_open(process.pid)
    try:
        waiting = select.poll()
        waiting.register(watched, select.POLLIN)
        while True:
            left_s = until - time.monotonic()
            if waiting.poll(max(0.0, min(left_s, _LOOK_S)) * 1000):
                return None
            if left_s <= 0:
                return f"ran past its deadline of {deadline_s:g} s"
            if any(path.stat().st_size > MAX_OUTPUT_BYTES for path in files):
                return f"printed more than {MAX_OUTPUT_BYTES // 1024**2} MiB"
    finally:
        os.close(watched)


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


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, and wait for their end: what dies may still write to files.

    Args:
        process: leads a group of its own.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + _DYING_S
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
    return any(_runs_in(group, stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _runs_in(group: int, stat: Path) -> bool:
    try:
        # proc_pid_stat(5): state, parent and group follow the name, which may hold anything.
        state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except OSError:
        return False
    return int(its_group) == group and state not in "ZX"
