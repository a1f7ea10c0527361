"""What lies in device memory at an instant, and whether anybody is at work on the device.

Candidate code runs where a worker says that its kernels are done, and a worker that is stopped has
kernels that run on. So the reference's process looks for itself.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from roofsmith.judge.correctness.poison import UNWRITTEN
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.driver import Plug
from roofsmith.judge.gpu.launch_gate import Latch
from roofsmith.judge.gpu.tensors import DTYPES

ELEMENTS = 4096
"""Of each output, that are looked at: half anywhere, half in the outputs of the last calls."""
LAST_CALLS = 8
"""A kernel that isn't done yet has these still to write. Each has 256 of the elements, so that a
tenth of one call is missed with probability 0.9^256, about 2e-12."""
LOOK_PATIENCE_S = 10.0
"""For a look once calls are done: whoever else has the device meanwhile, it isn't their fault."""
IDLE_S = 3e-4
"""An idle device has done next to no work within it. Chosen, like the two numbers below, since a
launch takes microseconds and a time slice milliseconds; with them no honest kernel of the device
tests was refused on an H100."""
USUAL_FACTOR = 5.0
"""Or within this multiple of what it took while no kernel was there."""
LOOKS = 8
"""A process that has the device to itself is served at once; beside another one it waits for its
time slice, each time. A host that is held up for a moment delays a few."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Elements of one output, in several calls."""

    places: torch.Tensor
    """Of their bytes in the arena, shape (ELEMENTS, bytes of one)."""
    poison: torch.Tensor
    """What an element holds that nobody wrote, shape (bytes of one,)."""
    slots: torch.Tensor
    """Of their calls, shape (ELEMENTS,)."""
    is_blank: bool
    """Whether they are poison before the calls: it isn't an input as well."""
    is_floating: bool
    """Whether no kernel means what poison says."""


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
        device = arena.bytes.device
        late = slots[-LAST_CALLS:]
        self._watched: list[Watched] = []
        for index, array in enumerate(arena.layout.arrays):
            count, size = prod(array.shape), DTYPES[array.dtype].itemsize
            if not (array.is_result and count):
                continue
            calls = np.concatenate([rng.choice(some, ELEMENTS // 2) for some in (slots, late)])
            starts = calls.astype(np.int64) * arena.layout.slot_bytes
            starts += arena.layout.offsets[index] + rng.integers(count, size=ELEMENTS) * size
            poison = np.frombuffer(UNWRITTEN[array.dtype].to_bytes(size, "little"), np.uint8)
            self._watched.append(
                Watched(
                    torch.from_numpy(starts[:, None] + np.arange(size)).to(device),
                    torch.from_numpy(poison.copy()).to(device),
                    torch.from_numpy(calls).to(device),
                    is_blank=array.role == "output",
                    is_floating=DTYPES[array.dtype].is_floating_point,
                )
            )
        self._bytes = arena.bytes
        # Where a look is queued behind a plug, nothing may have to be allocated.
        self._rooms = [
            [arena.bytes.new_empty(watched.places.shape) for watched in self._watched]
            for _ in range(2)
        ]
        self._before: list[torch.Tensor] = []
        self._seen: list[torch.Tensor] = []

    def glance(self) -> None:
        """Have the device remember what is there before the calls; nobody waits for it here."""
        self._before = self._copied(self._rooms[0])

    def was_written(self) -> bool:
        """Whether any element of a pure output had lost its poison by then."""
        pairs = zip(self._watched, self._before, strict=True)
        return any(bool((seen != w.poison).any()) for w, seen in pairs if w.is_blank)

    def look(self) -> None:
        """The same, after them. A clock waits for it: what it means is found out later."""
        self._seen = self._copied(self._rooms[1])

    def unwritten(self) -> list[int]:
        """Slots of calls that had left an element of theirs unwritten at the last look."""
        found: set[int] = set()
        for watched, seen in zip(self._watched, self._seen, strict=True):
            if watched.is_blank and watched.is_floating:
                left = (seen == watched.poison).all(1)
                found.update(watched.slots[left].tolist())
        return sorted(found)

    def has_changed(self) -> bool:
        """Whether any element differs from what was there at the last look."""
        pairs = zip(self._watched, self._seen, strict=True)
        return any(bool((self._bytes[w.places] != seen).any()) for w, seen in pairs)

    def _copied(self, room: list[torch.Tensor]) -> list[torch.Tensor]:
        for watched, there in zip(self._watched, room, strict=True):
            torch.take(self._bytes, watched.places, out=there)
        return room


class Watch:
    """Looks at outputs as soon as calls are done.

    To launch a look takes tenths of a millisecond, and not always as long. So it is queued before
    calls are let go, behind a plug of this process's own.
    """

    def __init__(self, plug: Plug) -> None:
        self._plug = plug
        self._turn = 0

    @contextlib.contextmanager
    def queued(self, sample: Sample) -> Iterator[None]:
        """A look that waits until calls are done; none is left waiting after the block.

        While it waits, this process must not wait for the device, as what a collector of garbage
        ends might.
        """
        self._turn += 1
        collects = gc.isenabled()
        gc.disable()
        self._plug.hold(self._turn)
        try:
            # That is the stream that is held, whichever a reference made the current one.
            with torch.cuda.stream(torch.cuda.default_stream()):
                sample.look()
            self._plug.tell()
            yield
        finally:
            self._plug.release()
            if collects:
                gc.enable()

    def see(self, latch: Latch, turn: int, patience_s: float) -> float | None:
        """Let calls go, and the look that was queued as soon as they are said to be done.

        Returns:
            When outputs had been looked at; None if calls weren't done before long.
        """
        latch.release(turn)
        is_done = latch.is_done(turn, patience_s)
        self._plug.release()
        has_looked = is_done and self._plug.is_done(LOOK_PATIENCE_S)
        return time.perf_counter() if has_looked else None


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
