"""Asks a machine many questions at once; one that hangs costs no more than the deadline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from roofsmith.devices import probes
from roofsmith.errors import MachineError, RoofsmithError

S = TypeVar("S")
T = TypeVar("T")


class Answer(Generic[T]):
    """What a question will have brought by the deadline."""

    def __init__(self, what: str, question: Callable[[], T], until: float) -> None:
        self._what = what
        self._question = question
        self._until = until
        self._done = threading.Event()
        self._answer: list[T] = []
        self._error: RoofsmithError | OSError | None = None
        # A thread that waits for a wedged driver can't be ended, so nobody must wait for it.
        threading.Thread(target=self._ask, name=f"doctor: {what}", daemon=True).start()

    def _ask(self) -> None:
        try:
            self._answer.append(self._question())
        except (RoofsmithError, OSError) as error:
            self._error = error
        except (ValueError, TypeError, LookupError) as error:
            # A broken driver or file, read by a library that didn't expect it.
            nonsense = f"{self._what} answered with nonsense: {type(error).__name__}: {error}"
            self._error = MachineError(
                nonsense, hint="ask it by hand; reinstall it if it fails there"
            )
        finally:
            self._done.set()

    def get(self) -> T:
        """Wait for the answer.

        Raises:
            RoofsmithError: what the question raised.
            OSError: as above.
            MachineError: it didn't answer in time.
        """
        if not self._done.wait(max(self._until - time.monotonic(), 0.0)):
            raise MachineError(
                f"{self._what} didn't answer in time",
                hint=beside_load(
                    "is a driver or a network file system hanging? `dmesg | tail` may tell"
                ),
            )
        if self._error is not None:
            raise self._error
        return self._answer[0]

    def value(self, otherwise: S) -> T | S:
        """The answer, or what stands in for one that is an error, or doesn't come in time."""
        try:
            return self.get()
        except (RoofsmithError, OSError):
            return otherwise

    @property
    def has_come(self) -> bool:
        """Whether there is an answer, or an error; if not, who was asked may hang, or be slow."""
        return self._done.is_set()


def beside_load(fix: str) -> str:
    """What to do about an answer that didn't come; first of all about the machine's load."""
    load, processors = os.getloadavg()[0], len(probes.allowed_processors())
    if load <= processors:
        return fix
    busy = f"load {load:.1f} on {processors} processors"
    return f"ask again when other work is over ({busy}); else: {fix}"


class Inquiry:
    """Questions that are asked together.

    Args:
        deadline_s: for all of them, from now on.
    """

    def __init__(self, deadline_s: float) -> None:
        self._until = time.monotonic() + deadline_s

    def ask(self, what: str, question: Callable[[], T]) -> Answer[T]:
        """Begin to ask; returns at once.

        Args:
            what: who is asked, for the message if nobody answers.
            question: may raise RoofsmithError and OSError.
        """
        return Answer(what, question, self._until)
