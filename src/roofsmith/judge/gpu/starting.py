"""Processes for lineups to come: several pairs start at once, for a start is mostly waiting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from roofsmith.domain.kernel import Built
from roofsmith.judge.bench import SideDiedError
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.gpu.station import Shared
from roofsmith.ports import KernelDiedError

MOST_AT_ONCE = 5
"""Sets of processes, beside the first: with it they make the fewest pairs that decide anything."""
MEMORY_SHARE = 0.25
"""Of the device's free memory that processes may take before it is their turn."""

Workers = list[GpuWorkerProcess]
"""One for each kernel, loaded and stopped."""


class Starter:
    """Starts the processes of one measurement, all of the same kernels."""

    def __init__(self, kernels: Sequence[Built], shared: Shared) -> None:
        """Nothing starts yet.

        Args:
            kernels: one per side.
            shared: what all lineups of the bench share; what is started ahead waits there.
        """
        self._kernels = kernels
        self._shared = shared
        self._key = tuple(built.candidate_id for built in kernels)

    def next(self) -> Workers:
        """Processes that nothing ran in yet.

        Raises:
            SideDiedError: a kernel can't be loaded.
        """
        if not self._shared.ahead:
            self._start()
        return self._shared.ahead.pop(0)

    def close(self) -> None:
        """End what was started and not needed."""
        self._shared.dismiss()

    def _start(self) -> None:
        """As many sets as there is room for; one, and what it takes is looked at, if that isn't
        known."""
        shared = self._shared
        footprint = shared.footprints.get(self._key)
        if footprint is None:
            shared.bury()
            before = shared.free_bytes()
            shared.ahead.append(start(self._kernels, 1, shared)[0])
            shared.footprints[self._key] = before - shared.free_bytes()
            return
        room = MEMORY_SHARE * shared.free_bytes() // max(footprint, 1)
        shared.ahead.extend(start(self._kernels, max(1, min(MOST_AT_ONCE, int(room))), shared))


def start(kernels: Sequence[Built], sets: int, shared: Shared) -> list[Workers]:
    """Start a process per kernel, so many times, side by side.

    Raises:
        SideDiedError: one can't be loaded; none is left.
    """
    started: list[Workers] = []
    loaded = 0
    try:
        for _ in range(sets):
            started.append([])
            for built in kernels:
                worker = GpuWorkerProcess(
                    built, api=shared.api, cache_dir=shared.cache_dir,
                    fork_server=shared.fork_server, isolation=shared.isolation,
                )  # fmt: skip
                started[-1].append(worker)
        shared.bury()  # what was ended before gives its memory back meanwhile
        for worker in chain.from_iterable(started):
            worker.wait_until_loaded()
            worker.pause()
            loaded += 1
    except BaseException as error:
        shared.end(chain.from_iterable(started))
        if isinstance(error, KernelDiedError):
            raise SideDiedError(loaded % len(kernels), error.outcome) from error
        raise
    return started
