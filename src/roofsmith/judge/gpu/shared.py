"""What all lineups of a GPU's bench share: its processes, and whose fault it is when one is in the
way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.domain.health import Health
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Unstable
from roofsmith.judge.correctness.budgets import Budgets
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.oracle import DeviceFullError
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.gpu.queued_calls import Holding
from roofsmith.judge.gpu.reasons import device_failure
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.judge.timing.bench import SideDiedError

BUSY_LOOKS = 20
BUSY_LOOK_S = 5e-3
"""A device is at work for somebody if it is in all of so many looks, so far apart."""
HOARD_BYTES = 2**30
"""Device memory that no process takes for nothing: a context and the code of torch take half."""


def ids(kernels: Iterable[Built]) -> tuple[str, ...]:
    """What a set of kernels is remembered by."""
    return tuple(built.candidate_id for built in kernels)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all lineups of a bench share."""

    budgets: Budgets
    api: Api
    cache_dir: Path
    fork_server: ForkServer
    read_health: Callable[[], Health | None] | None
    isolation: Isolation
    holding: Holding = field(default_factory=Holding)
    """Whose calls are queued before any may start."""
    is_at_work: Callable[[], bool] = bool
    """Whether the device works for anybody but the reference, at this instant."""
    free_bytes: Callable[[], int] = int
    """Device memory that nobody holds."""
    living: list[GpuWorkerProcess] = field(default_factory=list)
    """Of the lineup that is up, by side."""
    ahead: list[list[GpuWorkerProcess]] = field(default_factory=list)
    """Of lineups to come, by side: loaded and stopped."""
    ending: list[GpuWorkerProcess] = field(default_factory=list)
    """Killed, but perhaps not gone yet."""
    footprints: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Device memory in bytes that fresh processes of these candidates hold together."""

    def footprint(self, kernels: Sequence[Built]) -> int | None:
        """What fresh processes of some kernels hold, if that was seen, be it of each alone."""
        if (known := self.footprints.get(ids(kernels))) is not None:
            return known
        each = [self.footprints.get(ids([built])) for built in kernels]
        held = [size for size in each if size is not None]
        return sum(held) if len(held) == len(each) else None

    @contextlib.contextmanager
    def blaming(self) -> Iterator[None]:
        """Where the reference finds no device memory, the kernel that holds most of it is at fault.

        Raises:
            SideDiedError: it does, and all kernels that were up have ended.
            DeviceFullError: no kernel holds much.
        """
        try:
            yield
        except DeviceFullError as error:
            held = self._held_bytes()
            most = max(held, default=0)
            if most < HOARD_BYTES:
                raise
            said = f"it holds {most / 1e9:.1f} GB of device memory, and none is left to judge it in"
            failure = device_failure("CUDA_ERROR_OUT_OF_MEMORY", said)
            raise SideDiedError(held.index(most), failure) from error

    def _held_bytes(self) -> list[int]:
        """How much memory the device has back from each kernel that is up, once it has ended."""
        self.dismiss()
        self.bury()
        held, before = [], self.free_bytes()
        for worker in self.living:
            worker.end()
            worker.close()
            now = self.free_bytes()
            held.append(now - before)
            before = now
        return held

    def end(self, workers: Iterable[GpuWorkerProcess]) -> None:
        for worker in workers:
            worker.end()
            self.ending.append(worker)

    def dismiss(self) -> None:
        """Begin to end what was started ahead."""
        while self.ahead:
            self.end(self.ahead.pop())

    def bury(self) -> None:
        """Wait until nothing is left of processes that were ended."""
        while self.ending:
            self.ending.pop().close()

    def require_idle(self, workers: Sequence[GpuWorkerProcess]) -> None:
        """Nobody's turn begins while the device works for somebody: all processes are stopped.

        Raises:
            SideDiedError: it does. Whose end leaves it idle has left work behind; all have ended.
        """
        if not self._is_busy():
            return
        self.bury()  # those that are ending may still give memory back
        if not self._is_busy():
            return
        for side in reversed(range(len(workers))):
            # Of lineups to come, too: what a kernel starts when it is loaded runs in all of them.
            own = [workers[side], *(later[side] for later in self.ahead)]
            for worker in own:
                worker.end()
            for worker in own:
                worker.close()
            if not self._is_busy():
                detail = (
                    "the device went on working for it while its process was stopped, and was idle"
                    " once that had ended"
                )
                raise SideDiedError(side, Cheated(reason="leftover_work", detail=detail))
        detail = "the device is at work for somebody else: measure when it is idle"
        raise SideDiedError(0, Unstable(reason="device_busy", detail=detail))

    def _is_busy(self) -> bool:
        for look in range(BUSY_LOOKS):
            if look:
                time.sleep(BUSY_LOOK_S)
            if not self.is_at_work():
                return False
        return True

    def health(self) -> Health | None:
        """The device's sensors, if anybody reads them."""
        return self.read_health() if self.read_health is not None else None
