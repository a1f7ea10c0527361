"""Processes for lineups to come: several sets start at once, for a start is mostly waiting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure, TimedOut
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.gpu.shared import Shared, ids
from roofsmith.judge.timing.bench import SideDiedError, blaming

MOST_AT_ONCE = 6
"""Sets of processes."""
MEMORY_SHARE = 0.25
"""Of the device's free memory that processes may take before it is their turn."""
CROWDED = frozenset(("out_of_memory", "out_of_device_memory", "no_device", "device_error"))
"""Why a process may fail to start beside others, and start without them; so may one that is late.
"""

Workers = list[GpuWorkerProcess]
"""One for each kernel, loaded and stopped."""


class Starter:
    """Starts the processes of one measurement, all of the same kernels."""

    def __init__(self, kernels: Sequence[Built], shared: Shared, fewest: int) -> None:
        """Nothing starts yet.

        Args:
            kernels: one per side.
            shared: what all lineups of the bench share; what is started ahead waits there.
            fewest: sets that the measurement takes, at least.
        """
        self._kernels = kernels
        self._shared = shared
        self._fewest = min(fewest, MOST_AT_ONCE)
        self._started = 0

    def next(self) -> Workers:
        """Processes that nothing ran in yet.

        Raises:
            SideDiedError: a kernel can't be loaded.
        """
        if not self._shared.ahead:
            self._start()
        return self._shared.ahead.pop(0)

    def close(self) -> None:
        self._shared.dismiss()

    def _start(self) -> None:
        """As many sets as will be needed and there is room for; one, if nobody knows how much room
        one takes."""
        shared = self._shared
        footprint = shared.footprint(self._kernels)
        if footprint is None:
            shared.ahead.append(start_one(self._kernels, shared))
            self._started += 1
            return
        if self._room(footprint) < 1:
            shared.bury()  # what was ended before may hold all of it still
        wanted = self._fewest - self._started
        sets = max(1, min(wanted if wanted > 0 else self._fewest, self._room(footprint)))
        try:
            self._add(sets)
        except SideDiedError as error:
            if sets == 1 or not _may_be_crowded(error.outcome):
                raise
            self._fewest = 1
            shared.bury()
            self._add(1)  # whoever fails alone has failed

    def _room(self, footprint: int) -> int:
        """How many sets the device's free memory has room for."""
        return int(MEMORY_SHARE * self._shared.free_bytes() // max(footprint, 1))

    def _add(self, sets: int) -> None:
        self._shared.ahead.extend(start(self._kernels, sets, self._shared))
        self._started += sets


def start_one(kernels: Sequence[Built], shared: Shared) -> Workers:
    """Start one set, and learn how much device memory it holds, unless that is known.

    Raises:
        SideDiedError: one can't be loaded; none is left.
    """
    if shared.footprint(kernels) is not None:
        return start(kernels, 1, shared)[0]
    shared.bury()  # or memory that is given back meanwhile would count
    before = shared.free_bytes()
    (workers,) = start(kernels, 1, shared)
    shared.footprints[ids(kernels)] = before - shared.free_bytes()
    return workers


def start(kernels: Sequence[Built], sets: int, shared: Shared) -> list[Workers]:
    """Start a process per kernel, so many times, side by side.

    All have one hardware queue if none of the kernels names streams: compared with each other,
    kernels have the same number. None is stopped before all are loaded: while others open the
    device, a thread may stand in its driver, which doesn't let go of it.

    Raises:
        SideDiedError: one can't be loaded; none is left.
    """
    started: list[Workers] = []
    one_queue = not any(built.names_streams for built in kernels)
    try:
        for _ in range(sets):
            started.append([])
            for side, built in enumerate(kernels):
                with blaming(side):
                    worker = GpuWorkerProcess(
                        built, api=shared.api, cache_dir=shared.cache_dir,
                        fork_server=shared.fork_server, isolation=shared.isolation,
                        one_queue=one_queue,
                    )  # fmt: skip
                started[-1].append(worker)
        shared.bury()  # what was ended before gives its memory back meanwhile
        for step in (GpuWorkerProcess.wait_until_loaded, GpuWorkerProcess.pause):
            for workers in started:
                for side, worker in enumerate(workers):
                    with blaming(side):
                        step(worker)
    except BaseException:
        shared.end(chain.from_iterable(started))
        raise
    return started


def _may_be_crowded(outcome: Failure) -> bool:
    """Whether a process that failed beside others may start without them."""
    return isinstance(outcome, TimedOut) or outcome.reason in CROWDED
