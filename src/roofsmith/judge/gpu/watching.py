"""What lies in device memory at an instant, and whether anybody is at work on the device.

Candidate code runs where a worker says that its kernels are done, and a worker that is stopped has
kernels that run on. So the reference's process looks for itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import prod

import numpy as np
import torch

from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.tensors import DTYPES
from roofsmith.judge.poison import UNWRITTEN

ELEMENTS = 4096
"""Of each output, that are looked at: half anywhere, half in the outputs of the last calls."""
LAST_CALLS = 8
"""A kernel that isn't done yet has these still to write. Each has 256 of the elements, so that a
tenth of one call is missed with probability 0.9^256, about 2e-12."""
IDLE_S = 3e-4
"""An idle device has done next to no work within it. Chosen, like the two numbers below, since a
launch takes microseconds and a time slice milliseconds; with them no honest kernel of the device
tests was refused on an H100."""
USUAL_FACTOR = 5.0
"""Or within this multiple of what it took while no kernel was there."""
LOOKS = 8
"""A process that has the device to itself is served at once; beside another one it waits for its
time slice, each time. A host that is held up for a moment delays a few."""


class Sample:
    """Elements of the outputs of some calls, looked at more than once.

    Which ones is drawn from the operating system's own randomness: a reference may have seeded
    torch's, and no kernel may write them first.
    """

    def __init__(self, arena: DeviceArena, slots: Sequence[int]) -> None:
        """Choose.

        Args:
            arena: where the outputs lie.
            slots: of the calls, in their order.
        """
        rng = np.random.default_rng()
        late = slots[-LAST_CALLS:]
        places, blank, is_blank = [], [], []
        for index, array in enumerate(arena.layout.arrays):
            count, size = prod(array.shape), DTYPES[array.dtype].itemsize
            if array.role == "input" or not count:
                continue
            chosen = [rng.choice(some, ELEMENTS // 2) for some in (slots, late)]
            starts = np.concatenate(chosen).astype(np.int64) * arena.layout.slot_bytes
            starts += arena.layout.offsets[index] + rng.integers(count, size=ELEMENTS) * size
            places.append((starts[:, None] + np.arange(size)).ravel())
            poison = UNWRITTEN[array.dtype].to_bytes(size, "little")
            blank.append(np.tile(np.frombuffer(poison, np.uint8), ELEMENTS))
            is_blank.append(np.full(ELEMENTS * size, array.role == "output"))
        device = arena.bytes.device
        self._bytes = arena.bytes
        self._places = torch.from_numpy(np.concatenate(places)).to(device)
        self._blank = torch.from_numpy(np.concatenate(blank)).to(device)
        self._is_blank = torch.from_numpy(np.concatenate(is_blank)).to(device)
        self._seen = self._blank

    def written(self) -> bool:
        """Whether any element of a pure output no longer holds its poison."""
        differs = self._bytes[self._places] != self._blank
        return bool((differs & self._is_blank).any())

    def look(self) -> None:
        """Remember what is there now; comes back when it was seen."""
        self._seen = self._bytes[self._places]
        torch.cuda.synchronize()

    def has_changed(self) -> bool:
        """Whether any element differs from what was there at the last look."""
        return bool((self._bytes[self._places] != self._seen).any())


class Probe:
    """Next to no work, to see how soon the device does it."""

    def __init__(self) -> None:
        """Learn what is usual: before any kernel is there."""
        self._word = torch.zeros(1, device="cuda")
        self._latency_s()  # loads its code
        self._busy_s = max(IDLE_S, USUAL_FACTOR * self._latency_s())

    def sees_work(self) -> bool:
        """Whether the device is busy with something else."""
        return self._latency_s() > self._busy_s

    def _latency_s(self) -> float:
        """The least of several times from handing work to the device to its end."""
        return min(self._timed_s() for _ in range(LOOKS))

    def _timed_s(self) -> float:
        begin = time.perf_counter()
        self._word.add_(1)
        torch.cuda.synchronize()
        return time.perf_counter() - begin
