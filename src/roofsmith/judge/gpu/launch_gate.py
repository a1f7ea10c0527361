"""Two words of host memory: one that a device waits for, one that it writes when it is done.

Processes that map them need not wake each other: a worker queues calls between both and is stopped;
another process lets them go and sees their end. Standard library only, as workers are.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from dataclasses import dataclass

from roofsmith.judge.sandbox.shared_memory import shared_memory

PLUG_PATIENCE_S = 0.25
"""Calls that aren't all queued after this long wait for the device themselves: let them go."""
SIZE_BYTES = mmap.PAGESIZE
RELEASED, DONE = 0, 64
"""Offsets of the words in bytes, on cache lines of their own."""

_Word = ctypes.c_uint32


class Latch:
    """A page for several processes. Turns are counted: what was let go or done stays so."""

    def __init__(self, address: int, memory: object = None) -> None:
        self.address = address
        self._memory = memory
        self._released = _Word.from_address(address + RELEASED)
        self._done = _Word.from_address(address + DONE)

    def release(self, turn: int) -> None:
        """Let go what was queued in a turn."""
        self._released.value = turn

    def is_done(self, turn: int, patience_s: float) -> bool:
        """Whether a turn is done before long. Who asks doesn't sleep: waking up takes too long."""
        done, until = self._done, time.perf_counter() + patience_s
        while done.value < turn:
            if time.perf_counter() > until:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Queued:
    """Calls that wait until somebody lets them go."""

    latch: int
    """Its descriptor."""
    turn: int


def mapped(fd: int) -> Latch:
    """The latch that a descriptor refers to, which it outlives."""
    memory = (ctypes.c_char * SIZE_BYTES).from_buffer(mmap.mmap(fd, SIZE_BYTES))
    return Latch(ctypes.addressof(memory), memory)


def new_latch() -> int:
    """The descriptor of a latch that nothing was let go of.

    Raises:
        OSError: there is no memory for it.
    """
    return shared_memory("latch", SIZE_BYTES)
