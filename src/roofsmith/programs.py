"""Programs that are asked something: none outlives its question, nor this process."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar

from roofsmith.errors import MachineError

T = TypeVar("T")
Name = TypeVar("Name", bound=str)

LAST_WORDS_S = 1.0
"""For a program that was killed. One that waits within a broken driver outlives even that."""

_asked: set[subprocess.Popen[bytes]] = set()
"""Who still has to answer: of a thread that nobody waits for any more, perhaps."""
_starting = threading.Lock()
"""Held from a program's start until `_asked` has it: who ends in between would leave it behind."""
_over = threading.Event()
"""This process ends: nobody is asked any more."""


@contextmanager
def asked(
    command: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that prints into a pipe, and gets no input unless that is a pipe, too.

    Unless it has been waited for at the end of the block, it is killed with all that it started.

    Raises:
        OSError: it can't be started.
    """
    with _starting:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd, env=env,
            start_new_session=True,
        )  # fmt: skip
        _asked.add(process)
    try:
        if _over.is_set():
            kill(process)
        yield process
    finally:
        if process.returncode is None:
            kill(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LAST_WORDS_S)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        _asked.discard(process)


def answer(
    command: Sequence[str],
    deadline_s: float,
    *,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """What a program prints.

    Args:
        command: program and arguments.
        deadline_s: wall time.
        env: all of its variables; None: ours.
        given: its input; None: none.

    Raises:
        MachineError: it can't be started, fails, or doesn't end in time; it is killed then.
    """
    said = f"`{shlex.join(command)}`"
    try:
        stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
        with asked(command, stdin=stdin, stderr=subprocess.PIPE, env=env) as process:
            said_to = None if given is None else given.encode()
            pipes = process.communicate(said_to, timeout=deadline_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{said} failed: {error}", hint="run it by hand") from error
    out, err = (pipe.decode("utf-8", "replace") for pipe in pipes)
    if process.returncode != 0:
        last = (err or out).strip().splitlines()[-1:]
        raise MachineError(f"{said} says: {last[0] if last else 'nothing'}", hint="run it by hand")
    return out


def side_by_side(question: Callable[[Name], T], about: Sequence[Name]) -> dict[Name, T]:
    """What a question brings about each of several things, asked at once.

    If nobody waits for the answers any more, neither does the end of this process.
    """
    answers: dict[Name, Future[T]] = {name: Future() for name in about}

    def ask(name: Name) -> None:
        try:
            answers[name].set_result(question(name))
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            answers[name].set_exception(error)

    for name in answers:
        # Not a pool's: Python waits for those when it ends, before it ends what they wait for.
        threading.Thread(target=ask, args=(name,), name=f"asking {name}", daemon=True).start()
    return {name: answer.result() for name, answer in answers.items()}


def kill(process: subprocess.Popen[bytes]) -> None:
    """It and its children; does nothing if all are gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _end() -> None:
    _over.set()
    if _starting.acquire(timeout=LAST_WORDS_S):
        _starting.release()
    for process in tuple(_asked):
        kill(process)
