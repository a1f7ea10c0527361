"""SIGTERM and SIGHUP end a command as Ctrl-C does: what was done is recorded, children are gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

_BASE = 128
"""A shell's exit status after a signal is this plus its number."""
_SOON_S = 0.5
"""Long enough for a finalizer to have ended."""


class TerminatedError(KeyboardInterrupt):
    """Somebody asked this process to end; handled wherever Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def end_like_ctrl_c() -> None:
    """From here on, SIGTERM and SIGHUP raise; what `nohup` ignores stays so. None gets lost."""
    sys.unraisablehook = _raise_again
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """As shells have it: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return _BASE + _number(interrupt)


def _end(number: int, _frame: FrameType | None) -> None:
    raise TerminatedError(number)


def _raise_again(ignored: sys.UnraisableHookArgs) -> None:
    """An interrupt that comes while something is finalized is ignored there: send it again."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        number = _number(ignored.exc_value)
        threading.Timer(_SOON_S, os.kill, (os.getpid(), number)).start()
    else:
        sys.__unraisablehook__(ignored)


def _number(interrupt: KeyboardInterrupt) -> int:
    return interrupt.number if isinstance(interrupt, TerminatedError) else signal.SIGINT
