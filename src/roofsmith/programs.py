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
_over = threading.Event()
"""This process ends: nobody is asked any more."""


@contextmanager
def asked(
    command: Sequence[str],
    *,
    stderr: int = subprocess.DEVNULL,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that gets no input and prints into a pipe.

    Unless it has been waited for at the end of the block, it is killed with all that it started.

    Raises:
        OSError: it can't be started.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd, env=env,
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


def answer(command: Sequence[str], deadline_s: float) -> str:
    """What a program prints.

    Raises:
        MachineError: it can't be started, fails, or doesn't end in time; it is killed then.
    """
    said = f"`{shlex.join(command)}`"
    try:
        with asked(command, stderr=subprocess.PIPE) as process:
            pipes = process.communicate(timeout=deadline_s)
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
    for process in tuple(_asked):
        kill(process)
