"""Looks again and again while something is measured, on a thread that ends with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from roofsmith.errors import RoofsmithError

SAMPLE_S = 1.0
"""From one look to the next: a driver shows a process for some tenths of a second after its end."""
LARGEST_SHARE = 0.05
"""Of the time that looks may take: programs such as rocm-smi need seconds of a processor, and are
asked more rarely."""
LAST_LOOK_S = 5.0
"""How long the look is waited for that runs at the end. One into a driver that hangs is left
behind."""


@contextmanager
def sampled(look: Callable[[], None], every_s: float = SAMPLE_S) -> Iterator[None]:
    """Look while the block runs.

    A look that fails is none: whoever opened the block looks once more afterwards, and hears why.

    Args:
        look: may raise RoofsmithError and OSError; called on another thread.
        every_s: from the beginning of the block to the first look, and between two.
    """
    over = threading.Event()

    def keep_looking() -> None:
        wait_s = every_s
        while not over.wait(wait_s):
            began_s = time.monotonic()
            with suppress(RoofsmithError, OSError):
                look()
            wait_s = pause_s(time.monotonic() - began_s, every_s)

    thread = threading.Thread(target=keep_looking, name="gate", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LAST_LOOK_S)


def pause_s(took_s: float, every_s: float = SAMPLE_S) -> float:
    """How long not to look after a look that took `took_s`: `every_s` at least."""
    return max(every_s, took_s * (1 / LARGEST_SHARE - 1))
