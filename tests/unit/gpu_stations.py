"""Stations of a GPU over real slots in the host's memory; kernels are Python functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from gpu_rehearsal import Kernel, Rehearsal

from roofsmith.domain.kernel import Built
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu.lineup import GpuBench
from roofsmith.judge.gpu.process import GpuSegment, Taken
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.gpu.station import GpuStation
from roofsmith.judge.timing.bench import SegmentPlan


class Worker:
    """A process whose kernel is a Python function over tensors."""

    def __init__(self, rehearsal: Rehearsal, kernel: Kernel, candidate_id: str = "one") -> None:
        self._rehearsal, self._kernel = rehearsal, kernel
        self.candidate_id = candidate_id
        self.names_tuning = False
        self.is_latched = False
        self._queued: list[int] = []
        self._arena = 0
        self.given: list[list[float]] = []
        """Inputs of every call."""

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        yield

    wake = pause = attach = end_first_call = lambda *_: None

    def begin_first_call(self, arena: int, slot: int) -> None:
        self._call(slot, arena)

    def queue_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> bool:
        self._queued, self._arena = [*warm, *slots], arena
        return True

    def run_queued(self, deadline_s: float) -> GpuSegment:
        for slot in self._queued:
            self._call(slot, self._arena)
        return GpuSegment(elapsed_s=1e-9, wall_s=1e-9)

    def run_slots(
        self,
        arena: int,
        slots: Sequence[int],
        *,
        warm: Sequence[int],
        deadline_s: float,
        defer: bool = True,
        taken: Taken | None = None,
    ) -> GpuSegment:
        self._queued, self._arena = [*warm, *slots], arena
        return self._run(taken)

    def _run(self, taken: Taken | None) -> GpuSegment:
        """What was queued, as soon as the device lets it."""
        return self.run_queued(1.0)

    def _call(self, slot: int, arena: int) -> None:
        self.given.append(self._rehearsal.arenas[arena].view(slot, 0).tolist())
        self._rehearsal.run(self._kernel, slot, arena)


class EarlyWorker(Worker):
    """One whose kernel computes on a stream of its own, which no plug holds back."""

    def queue_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> bool:
        self.run_slots(arena, slots, warm=warm, deadline_s=deadline_s)
        self._queued = []
        return True


class LateWorker(EarlyWorker):
    """One that doesn't wait for that stream either: on a device that is taken, its calls are said
    to be done before they begin."""

    _is_late = False

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        yield
        if self._is_late:
            self.run_queued(1.0)
            self._is_late = False

    def _run(self, taken: Taken | None) -> GpuSegment:
        if taken is None:
            return super()._run(taken)
        self._is_late = True
        return GpuSegment(elapsed_s=1e-9, wall_s=1e-9)


class Bench:
    """Starts processes for one workload; knows each kernel by its path."""

    examination = GpuBench.examination

    def __init__(self, rehearsal: Rehearsal, root: Path, process: type[Worker] = Worker) -> None:
        self._rehearsal, self._root, self._process = rehearsal, root, process
        self.kernels: dict[Path, Callable[[], Kernel]] = {}
        self.started: list[Worker] = []
        self.examined: list[Slots] = []
        """Slots that were made for examinations."""

    def built(self, name: str, kernel: Callable[[], Kernel]) -> Built:
        """A kernel that a process makes for itself."""
        path = self._root / name
        self.kernels[path] = kernel
        return cast(Built, path)

    @contextlib.contextmanager
    def lineup(self, kernels: Sequence[Built]) -> Iterator[Bench]:
        self.started = [
            self._process(self._rehearsal, self.kernels[cast(Path, kernel)](), str(kernel))
            for kernel in kernels
        ]
        yield self

    @contextlib.contextmanager
    def inputs(self, workload: Workload, slots: int) -> Iterator[Slots]:
        number = len(self._rehearsal.arenas._arenas)
        made = Slots(self._rehearsal.slots._oracle, number, workload, slots)
        self.examined.append(made)
        try:
            yield made
        finally:
            made.close()

    def station(self, inputs: object, plan: SegmentPlan) -> GpuStation:
        budgets = self._rehearsal.budgets
        shared = Shared(budgets, "cuda", self._root, cast(Any, None), None, cast(Any, None))
        return GpuStation(cast(Any, inputs), cast(Any, self.started), plan, shared)
