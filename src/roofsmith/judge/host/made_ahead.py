"""What the reference's processes say that they have made ahead.

Whoever asks a process waits until it has done what it works on ahead just then, even for an answer
that it has long known. So they report what is done, and nobody asks for it. A report that doesn't
fit into the channel is left out: then it is asked for.
"""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass, field
from typing import Any

LARGEST_REPORT_BYTES = 2**16
"""What honest arithmetic makes of every output: two numbers each. A larger one isn't sent."""

Place = tuple[int, int]
"""An arena's number, and a slot of it."""


def report(channel: socket.socket, told: dict[str, Any]) -> None:
    """Say what was made; not, where nobody listened for long."""
    data = json.dumps(told, separators=(",", ":")).encode()
    if len(data) <= LARGEST_REPORT_BYTES:
        with contextlib.suppress(OSError):
            channel.send(data)


def subject_of(op: str, message: dict[str, Any]) -> str | None:
    """What a message asks of a draw as it lies there; None: something else, or to change it."""
    if op == "honest":
        return op
    is_plain = not message.get("twice") and not message.get("draw")
    is_plain = is_plain and message.get("change") is None and message.get("only") is None
    if op == "expect" and is_plain:
        return "truth" if message["exact"] else "declared"
    return None


@dataclass(slots=True)
class _Made:
    """Of one draw."""

    drawn: tuple[int, str]
    """Its seed and distribution."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By `subject_of`."""


class MadeAhead:
    """What lies ready, place by place."""

    def __init__(self) -> None:
        self._channels: list[socket.socket] = []
        self._made: dict[Place, _Made] = {}

    def listen(self) -> socket.socket:
        """The end of a new channel that a process reports on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        theirs.setblocking(False)
        self._channels.append(ours)
        return theirs

    def is_drawn(self, place: Place, drawn: tuple[int, str]) -> bool:
        """Whether a draw lies there."""
        self._hear()
        return place in self._made and self._made[place].drawn == drawn

    def answer(self, place: Place, drawn: tuple[int, str], subject: str) -> dict[str, Any] | None:
        """The answer to what may be asked of a draw; None: it has to be asked."""
        return self._made[place].answers.get(subject) if self.is_drawn(place, drawn) else None

    def forget(self, place: Place) -> None:
        """Something else was put there, or looked at, on a message that was answered by now."""
        self._hear()
        self._made.pop(place, None)

    def forget_arena(self, number: int) -> None:
        """It is given back."""
        self._made = {place: made for place, made in self._made.items() if place[0] != number}

    def close(self) -> None:
        """Nobody reports any more."""
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._made.clear()

    def _hear(self) -> None:
        for channel in self._channels:
            with contextlib.suppress(OSError):  # there is no more
                while data := channel.recv(LARGEST_REPORT_BYTES):
                    self._note(json.loads(data))

    def _note(self, told: dict[str, Any]) -> None:
        place, drawn = (told["arena"], told["slot"]), (told["seed"], told["distribution"])
        known = self._made.get(place)
        if known is None or known.drawn != drawn:
            known = self._made[place] = _Made(drawn)
        if told["subject"] == "honest":  # it holds what the reference makes of a draw against that
            known.answers |= {"truth": {}, "declared": {}}
        if told["subject"] is not None:
            known.answers[told["subject"]] = told["answer"]
