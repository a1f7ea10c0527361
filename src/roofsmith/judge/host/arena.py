"""Memory that a worker's kernel reads and writes: slots of aligned arrays between guard bands."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.correctness.poison import NAN_GUARDS, fill_guard, is_whole, poison
from roofsmith.judge.sandbox.shared_memory import shared_memory

ALIGNMENT_BYTES = 64
"""Of every array, on both sides: a cache line, and the widest vector register there is. The same
sgemm was measured 1.9 times slower on arrays that begin 16 bytes past a cache line."""

GUARD_BYTES = 1024
"""Before and behind every array."""

PAGE_BYTES = 4096

_STAGGER_BYTES = 3 * ALIGNMENT_BYTES
"""Arrays begin at different offsets within a page: a store to one and a load from the next would
otherwise alias in the low 12 bits of their addresses (Intel Optimization Reference Manual,
"4-KByte aliasing"; AMD's Zen guides name the same hazard)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the arrays of one slot lie; offsets in bytes from the slot's beginning."""

    arrays: tuple[ArraySpec, ...]
    offsets: tuple[int, ...]
    slot_bytes: int


def lay_out(arrays: Sequence[ArraySpec]) -> Layout:
    """Place arrays one behind the other, each aligned and between guard bands."""
    offsets, cursor = [], 0
    for index, array in enumerate(arrays):
        offset = cursor + GUARD_BYTES + index % 16 * _STAGGER_BYTES
        offsets.append(offset)
        cursor = _round_up(offset + array.size_bytes + GUARD_BYTES, PAGE_BYTES)
    return Layout(tuple(arrays), tuple(offsets), max(cursor, PAGE_BYTES))


class Arena:
    """Memory of `slots` slots with one layout."""

    def __init__(
        self,
        arrays: Sequence[ArraySpec],
        slots: int,
        fd: int | None = None,
        layout: Layout | None = None,
        *,
        is_shared: bool = True,
    ) -> None:
        """Make an arena, or map the one that `fd` refers to.

        Args:
            arrays: of one slot.
            slots: how many.
            fd: of an arena that is there already.
            layout: of a slot; None lays it out for the host's processors.
            is_shared: whether another process maps it. Such memory comes and goes page by page,
                which takes ten times as long as filling it; what isn't shared is the heap's, and
                holds anything until a slot is prepared, which writes every byte of it.

        Raises:
            OSError, MemoryError: there is no memory for it.
        """
        self.layout = layout or lay_out(arrays)
        self.slots = slots
        self.size_bytes = self.layout.slot_bytes * slots
        self.is_shared = is_shared
        self.fd = -1
        if is_shared:
            self.fd = shared_memory("arena", self.size_bytes) if fd is None else fd
            self._bytes = np.frombuffer(mmap.mmap(self.fd, self.size_bytes), dtype=np.uint8)
        else:
            raw = np.empty(self.size_bytes + PAGE_BYTES, dtype=np.uint8)
            self._bytes = raw[-raw.ctypes.data % PAGE_BYTES :][: self.size_bytes]
        self._index = {array.name: i for i, array in enumerate(self.layout.arrays)}
        self._words = [NAN_GUARDS[0]] * slots

    def close(self) -> None:
        """Give back the descriptor; the memory goes when nobody looks at it any more."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def address(self) -> int:
        """Where it lies in this process."""
        return int(self._bytes.ctypes.data)

    def view(self, slot: int, name: str) -> NDArray[np.generic]:
        """An array of a slot, in place."""
        i = self._index[name]
        spec = self.layout.arrays[i]
        start = self.offset(slot, name)
        raw = self._bytes[start : start + spec.size_bytes]
        return raw.view(np.dtype(spec.dtype)).reshape(spec.shape)

    def offset(self, slot: int, name: str) -> int:
        """Bytes from the arena's beginning to an array of a slot."""
        return slot * self.layout.slot_bytes + self.layout.offsets[self._index[name]]

    def ranges(self, slots: Sequence[int]) -> list[tuple[int, int]]:
        """(offset, size) of whole slots, guard bands included."""
        size = self.layout.slot_bytes
        return [(slot * size, size) for slot in slots]

    def prepare(
        self, slot: int, values: Mapping[str, NDArray[np.generic]], guard: int = NAN_GUARDS[0]
    ) -> None:
        """Fill a slot: given arrays with their values, all others with poison.

        Args:
            slot: which.
            values: by array name.
            guard: word that fills the guard bands; see `judge.correctness.poison`.
        """
        self._words[slot] = guard
        for start, band in self._guards(slot):
            fill_guard(band, start, guard)
        for array in self.layout.arrays:
            view = self.view(slot, array.name)
            if array.name in values:
                np.copyto(view, values[array.name])
            else:
                poison(view, array.dtype)

    def overrun(self, slot: int) -> str | None:
        """The array beside which a guard band was written to; None if all are whole."""
        word = self._words[slot]
        for (start, band), name in zip(self._guards(slot), self._guard_names(), strict=True):
            if not is_whole(band, start, word):
                return name
        return None

    def _guards(self, slot: int) -> list[tuple[int, NDArray[np.uint8]]]:
        """All bytes of a slot between its arrays, each stretch with where it begins."""
        start = slot * self.layout.slot_bytes
        ends, cursor = [], start
        for array, offset in zip(self.layout.arrays, self.layout.offsets, strict=True):
            ends.append((cursor, start + offset))
            cursor = start + offset + array.size_bytes
        ends.append((cursor, start + self.layout.slot_bytes))
        return [(begin, self._bytes[begin:end]) for begin, end in ends]

    def _guard_names(self) -> list[str]:
        names = [array.name for array in self.layout.arrays]
        return [f"in front of {names[0]}", *(f"behind {name}" for name in names)]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
