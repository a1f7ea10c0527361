"""Stands for a device that waits for a latch, and tells it when it is done."""

from __future__ import annotations

import sys
import time
from ctypes import c_uint32

from roofsmith.judge.gpu.launch_gate import DONE, RELEASED, mapped

PATIENCE_S = 60.0


class LatchedDevice:
    """Works on the page of a latch."""

    def __init__(self, fd: int) -> None:
        self._latch = mapped(fd)
        self._released = c_uint32.from_address(self._latch.address + RELEASED)
        self._done = c_uint32.from_address(self._latch.address + DONE)

    def await_release(self, turn: int) -> None:
        """Until a turn is let go."""
        until = time.perf_counter() + PATIENCE_S
        while self._released.value < turn:
            assert time.perf_counter() < until

    def tell(self, turn: int) -> None:
        """A turn is done."""
        self._done.value = turn


def main() -> None:
    """Does nothing in two turns of the latch whose descriptor is the first argument."""
    device = LatchedDevice(int(sys.argv[1]))
    for turn in (1, 2):
        device.await_release(turn)
        device.tell(turn)


if __name__ == "__main__":
    main()
