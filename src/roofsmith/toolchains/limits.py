"""Runs a compiler so that it can't hang, eat the machine's memory, fill its disk or read files that
are none of its business."""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from roofsmith.job_limits import granted
from roofsmith.toolchains.compiler_files import CompilerFiles, files_for

MAX_FILE_BYTES = 512 * 1024**2
"""Largest file that a compiler may write; kernels' libraries are a thousand times smaller."""
MAX_LOG_BYTES = 1024**2
"""How much of a compiler's output is kept."""

_DEATH_S = 5.0
"""How long killed processes may take to give back their memory before they are left to it."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
"""Sets the limits in a process of its own, so that none of the compiler's children escapes them; a
`preexec_fn` would do the same but isn't safe in a program with threads."""


@dataclass(frozen=True, slots=True)
class CompilerLimits:
    """What one command may use."""

    deadline_s: float
    """Wall time of the whole command, and CPU time of each of its processes."""
    memory_bytes: int
    """Address space of each of its processes."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a limited command ended."""

    returncode: int
    """Negative: the signal that killed it."""
    past_deadline: bool
    output: str
    """Standard output and error as one text, cut at `MAX_LOG_BYTES`."""
    wall_s: float


class StoppedError(Exception):
    """A command was ended because its result is not wanted any more."""


def run_limited(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    limits: CompilerLimits,
    log: Path,
    stop: int | None = None,
) -> Finished:
    """Run a command in a session of its own, without input; its output goes to `log`.

    The whole process group is killed at the deadline, when this call is interrupted, when it is
    told to stop, and when this process ends, however that comes about. Where the kernel has
    Landlock, the command sees only what `files_for` says.

    Args:
        environment: all of its variables.
        limits: of the command and each of its processes.
        stop: a descriptor; once it can be read from, the command has to end. For threads that
            aren't Python's main thread, which nothing interrupts.

    Raises:
        StoppedError: `stop` said so.
        OSError: the log can't be written, or no process can be started.
    """
    start = time.monotonic()
    supervised = _supervised(command, files_for(command, directory, environment), limits)
    with _pipe() as (lifeline, held), _pipe() as (alive, _), log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(alive.fileno()), *supervised],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(held.fileno(), alive.fileno()),
        )
        held.close()
        past_deadline = _await(process, lifeline.fileno(), limits.deadline_s, stop)
    return Finished(
        returncode=process.returncode,
        past_deadline=past_deadline,
        output=_keep_head(log),
        wall_s=time.monotonic() - start,
    )


def _supervised(command: Sequence[str], files: CompilerFiles, limits: CompilerLimits) -> list[str]:
    """What the supervisor is told, behind the pipe that says whether we live; see there."""
    numbers = (
        granted(resource.RLIMIT_CPU, math.ceil(limits.deadline_s) + 1),
        granted(resource.RLIMIT_AS, limits.memory_bytes),
        granted(resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        len(files.readable),
        len(files.writable),
    )
    return [*map(str, numbers), *files.readable, *files.writable, *command]


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Both ends of a pipe, where to read and where to write; one may be closed before."""
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reader, open(write, "wb", buffering=0) as writer:
        yield reader, writer


def _await(
    process: subprocess.Popen[bytes], lifeline: int, deadline_s: float, stop: int | None
) -> bool:
    """Wait for the end; whatever cuts it short, nothing of the process group stays behind.

    The lifeline is a pipe whose other end every process of the group inherits: it hangs up when
    the last one is gone. `Popen.wait` with a deadline polls instead, 50 ms apart.

    Returns:
        Whether it ran too long.

    Raises:
        StoppedError: it was told to stop before its end.
    """
    waiting, ending = select.poll(), select.poll()
    for poll in (waiting, ending):
        poll.register(lifeline, select.POLLHUP)
    if stop is not None:
        waiting.register(stop, select.POLLIN)
    seen: set[int] = set()
    try:
        seen = {descriptor for descriptor, _ in waiting.poll(deadline_s * 1000)}
    finally:
        if lifeline not in seen:  # too long, not wanted any more, or we were interrupted
            os.killpg(process.pid, signal.SIGKILL)
            ending.poll(_DEATH_S * 1000)
        process.wait()
    if seen and lifeline not in seen:
        raise StoppedError
    return not seen


def _keep_head(log: Path) -> str:
    """The log's text, after cutting a file that is too long to be of use to anybody."""
    with log.open("r+b") as file:
        head = file.read(MAX_LOG_BYTES)
        if file.read(1):
            file.truncate(MAX_LOG_BYTES)
            file.write(b"\n[cut here: the output was longer]\n")
    return head.decode(errors="replace")
