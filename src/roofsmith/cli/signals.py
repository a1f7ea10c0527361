"""SIGTERM and SIGHUP end a command as Ctrl-C does: what was done is recorded, children are gone."""

from __future__ import annotations

import signal
from types import FrameType

_BASE = 128
"""A shell's exit status after a signal is this plus its number."""


class TerminatedError(KeyboardInterrupt):
    """Somebody asked this process to end; handled wherever Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def end_like_ctrl_c() -> None:
    """From here on, turn SIGTERM and SIGHUP into an exception; what `nohup` ignores stays so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """As shells have it: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    number = interrupt.number if isinstance(interrupt, TerminatedError) else signal.SIGINT
    return _BASE + number


def _end(number: int, _frame: FrameType | None) -> None:
    raise TerminatedError(number)
