"""Does several pieces of work at the same time, and leaves none of them running."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")
Work = Callable[[int | None], Result]
"""Gets a descriptor that can be read from once the work has to end; None: nobody will say so."""

HEARD_AFTER_S = 0.5
"""Python's handler of a signal runs between two instructions of the main thread: one that comes
right before that thread waits for a lock is not heard until the waiting is over. Chosen."""
_LOOK_S = 1e-3
"""Between looks at whether a thread has ended. Chosen."""


def side_by_side(works: Sequence[Work[Result]], at_once: int) -> tuple[Result, ...]:
    """The results of all works, in their order; up to `at_once` run at the same time.

    Each runs in a thread that is gone when this returns. If one raises, or this call is
    interrupted, those that wait aren't begun and those that run are told to end; then that is
    raised. Signals are Python's main thread's alone: a work in another one hears of Ctrl-C only by
    its descriptor. A single work, or one at a time, runs in the calling thread.
    """
    if min(at_once, len(works)) <= 1:
        return tuple(work(None) for work in works)
    stop = os.eventfd(0, os.EFD_CLOEXEC)
    name = f"roofsmith-build-{stop}"
    pool = ThreadPoolExecutor(min(at_once, len(works)), thread_name_prefix=name)
    try:
        running = [pool.submit(work, stop) for work in works]
        waiting = set(running)
        while waiting:
            ended, waiting = wait(waiting, HEARD_AFTER_S, FIRST_COMPLETED)
            for done in ended:
                done.result()  # the first that raises ends them all
        return tuple(done.result() for done in running)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        os.eventfd_write(stop, 1)  # nobody reads it, so everybody sees it
        pool.shutdown()
        # Interrupted while it starts a thread, the pool doesn't know of it: nobody joins that one.
        while any(thread.name.startswith(f"{name}_") for thread in threading.enumerate()):
            time.sleep(_LOOK_S)
        os.close(stop)
