"""The parent's end of a worker's channel: one answer per message, and no more."""

from __future__ import annotations

import os
import socket
from typing import Any

from roofsmith.judge.sandbox.tamper_check import Seal
from roofsmith.judge.wire import WireError, has_more, receive, send

SECOND_ANSWER_S = 0.2
"""For the worker's own answer to follow one that was sent in its place."""


class SurplusError(WireError):
    """Something came that nobody had asked for."""


class Channel:
    """A socket, and how many answers are still to come from it."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._unanswered = 0
        self._seal: Seal | None = None

    def seal(self) -> tuple[int, ...]:
        """A seal for the other side to put on, to be sent with the next message."""
        self._seal = Seal()
        return self._seal.theirs

    @property
    def is_tampered(self) -> bool:
        """Whether a seal that was put on is broken."""
        return self._seal is not None and self._seal.is_broken

    def say(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message.

        Raises:
            SurplusError: more answers came than messages were sent.
            WireError: the other side is gone.
        """
        if self._unanswered == 0 and has_more(self._socket):
            raise SurplusError("an answer came that belongs to no message")
        self._unanswered += 1
        send(self._socket, message, fds)
        if self._seal is not None:
            self._seal.let_go()

    def hear(self, deadline_s: float) -> dict[str, Any]:
        """Wait for the answer to the oldest message that has none yet.

        Raises:
            WireError: as `wire.receive`.
        """
        answer, strays = receive(self._socket, deadline_s)
        for stray in strays:
            os.close(stray)
        self._unanswered -= 1
        return answer

    def answers_within(self, wait_s: float) -> bool:
        """Whether an answer begins to come before long."""
        return has_more(self._socket, wait_s)

    def answers_again(self) -> bool:
        """Whether another answer follows at once."""
        return has_more(self._socket, SECOND_ANSWER_S)

    def close(self) -> None:
        if self._seal is not None:
            self._seal.close()
            self._seal = None
        self._socket.close()
