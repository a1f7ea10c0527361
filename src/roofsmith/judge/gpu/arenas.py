"""The arenas of the workloads that are judged, and the device memory that is kept for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.driver import DeviceError, Driver
from roofsmith.judge.gpu.reasons import device_reason

COMPARED_BYTES = 2**30
"""Slots that are compared at once: their arrays, and a few times as much in float64."""
DRAFT_ROOM = 2.5
"""Times the size of an arena that must be free for a draft of it: the draft, what is drawn, and
some for workers and for comparing. Chosen."""
RESERVED_BYTES = 3 * COMPARED_BYTES
"""Device memory that comparing takes beside the draws themselves."""
KEPT_BYTES = 4 * 2**30
"""What torch may keep for later while nothing is judged: other references may want to use it."""


class Arenas:
    """Arenas by their numbers."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._arenas: dict[int, DeviceArena] = {}

    def __getitem__(self, number: int) -> DeviceArena:
        return self._arenas[number]

    def make(self, number: int, specs: Sequence[ArraySpec], slots: int) -> DeviceArena:
        """An arena; with a draft of it, where that leaves room for all that is drawn into it.

        Raises:
            MemoryError: the device has no room for it.
        """
        arena = self._allocated(specs, slots)
        needed = DRAFT_ROOM * arena.bytes.numel()
        if self._free_bytes() <= needed:
            torch.cuda.empty_cache()
        if self._free_bytes() > needed:
            arena.keep_draft()
        self._arenas[number] = arena
        self._reserve()
        return arena

    def free(self, number: int) -> None:
        """Give an arena's memory back."""
        self._driver.wait()
        self._arenas.pop(number).free()
        if not self._arenas and torch.cuda.memory_reserved() > KEPT_BYTES:
            torch.cuda.empty_cache()

    def rest(self) -> int:
        """Give back what isn't used; the device memory in bytes that is free then.

        What is going to be drawn and compared is kept again afterwards.
        """
        torch.cuda.empty_cache()
        free_bytes = self._free_bytes()
        if self._arenas:
            self._reserve()
        return free_bytes

    def _allocated(self, specs: Sequence[ArraySpec], slots: int) -> DeviceArena:
        """An arena, if need be in what torch keeps for later: the driver has none of that."""
        try:
            return DeviceArena(self._driver, specs, slots)
        except DeviceError as error:
            if device_reason(error.name) != "out_of_device_memory":
                raise
        torch.cuda.empty_cache()
        try:
            return DeviceArena(self._driver, specs, slots)
        except DeviceError as error:
            raise MemoryError(str(error)) from error

    def _free_bytes(self) -> int:
        """Device memory that nobody holds, not even torch for later."""
        free_bytes, _ = torch.cuda.mem_get_info()
        return int(free_bytes)

    def _reserve(self) -> None:
        """Have torch keep memory for what is drawn and compared: a kernel may take all the rest."""
        torch.cuda.empty_cache()
        held = sum(a.bytes.numel() * (2 + a.has_draft) for a in self._arenas.values())
        missing = max(held + RESERVED_BYTES - torch.cuda.memory_allocated(), 0)
        torch.empty(min(missing, self._free_bytes() // 2), dtype=torch.uint8, device="cuda")
