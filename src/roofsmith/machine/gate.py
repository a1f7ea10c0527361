"""The gate in front of the GPU that this command has leased: nothing is measured beside others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from roofsmith.domain.fleet import GpuStatus
from roofsmith.domain.health import Health
from roofsmith.errors import NoIdleGpuError, RoofsmithError
from roofsmith.machine.idle import described, foreign, untold
from roofsmith.machine.sampler import SAMPLE_S, sampled
from roofsmith.machine.waiting import SETTLING_LOOKS, TICK_S, GateParts, Obstacle, Patience, name_of
from roofsmith.ports import Result, Watched


@dataclass(slots=True)
class GpuGate:
    """Port `Gate`. A look costs one question to the driver, as long as there is nothing to see."""

    parts: GateParts
    uuid: str
    sample_s: float = SAMPLE_S
    """From one look to the next while something is measured."""
    _heard: set[str] = field(default_factory=set)
    """What has disturbed the measurement that runs."""
    _heard_at_s: float | None = None
    """When the sensors last told everything, by this process's own clock."""
    _met: dict[int, str | None] = field(default_factory=dict)
    """Processes by number, as people call them; None: ours, or the driver's."""
    _hearing: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """Who measures reads sensors, too, on another thread than the sampler."""

    def pass_through(self) -> None:
        """Wait until nobody else is on the GPU."""
        patience, settling = Patience(self.parts), SETTLING_LOOKS
        status = self.parts.gpu(self.uuid)
        while obstacles := self._obstacles(status):
            if settling:
                settling -= 1
                self.parts.clock.sleep(TICK_S)
            else:
                patience.until_next_look({name_of(status): Obstacle("; ".join(obstacles))})
                settling = SETTLING_LOOKS
            status = self.parts.gpu(self.uuid)

    def watch(
        self, measure: Callable[[], Result], stands: Callable[[Result], bool] = lambda _: False
    ) -> Watched[Result]:
        """Pass through, measure, and look again; what was disturbed is measured again.

        Meanwhile the GPU is looked at every second, unless who measures reads its sensors anyway.
        """
        disturbances: list[str] = []
        while True:
            self.pass_through()
            self._heard.clear()
            with self.blamed(), sampled(self._listen, self.sample_s):
                result = measure()
            found = self._disturbance()
            if found is None or stands(result):
                return Watched(result, tuple(disturbances))
            disturbances.append(found)
            if len(disturbances) == self.parts.policy.tries:
                return Watched(result, tuple(disturbances), void=True)

    def hear(self, health: Health) -> None:
        """A reading of the sensors, taken within a `watch`."""
        with self._hearing:
            if new := set(health.processes) - self._met.keys():
                self._meet(new)
            self._heard.update(filter(None, (self._met[pid] for pid in health.processes)))
            self._heard.update(self._held_down(health.throttle_reasons))
            if not health.unread:
                self._heard_at_s = time.monotonic()

    def sense(self) -> Health | None:
        """A reading of the GPU's sensors, which is heard; None where its driver has none."""
        found = self.parts.sensors and self.parts.sensors(self.uuid)
        if found is not None:
            self.hear(found)
        return found

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors of the block on a GPU that is gone are explained by that.

        Raises:
            NoIdleGpuError: it is gone.
        """
        try:
            yield
        except NoIdleGpuError:
            raise
        except RoofsmithError as error:
            try:
                self.parts.gpu(self.uuid)
            except NoIdleGpuError as gone:
                raise gone from error
            raise

    def _listen(self) -> None:
        """A look from beside a measurement.

        By the sensors, unless who measures has just read them; by the fleet where they don't tell
        everything, and of a MIG instance, whose own don't know what the whole GPU's clocks do.
        """
        if not self.uuid.startswith("MIG-"):
            now_s = time.monotonic()
            if self._heard_at_s is not None and now_s - self._heard_at_s < self.sample_s / 2:
                return
            health = self.sense()
            if health is not None and not health.unread:
                return
        for status in self.parts.fleet():
            if status.uuid == self.uuid:
                with self._hearing:
                    self._heard.update(self._obstacles(status))

    def _disturbance(self) -> str | None:
        status = self.parts.gpu(self.uuid)
        self._heard.update(self._obstacles(status))
        return "; ".join(sorted(self._heard)) or None

    def _obstacles(self, status: GpuStatus) -> tuple[str, ...]:
        ours = self._ours([process.pid for process in status.processes])
        strangers = [described(process) for process in foreign(status, ours)]
        unknown = untold(status, self.parts.policy)
        return (*strangers, *unknown, *self._held_down(status.throttle_reasons))

    def _meet(self, pids: set[int]) -> None:
        """Find out who they are; one that the driver's list doesn't show is only a number."""
        ours = self._ours(pids)
        self._met.update(dict.fromkeys(ours))
        if not (unknown := pids - ours):
            return
        listed = self.parts.gpu(self.uuid)
        names = {process.pid: described(process) for process in foreign(listed, ours)}
        harmless = {process.pid for process in listed.processes} - names.keys()
        self._met |= {p: None if p in harmless else names.get(p, f"pid {p}") for p in unknown}

    def _ours(self, pids: Collection[int]) -> set[int]:
        """Once this command is on the GPU, a number that means nobody is probably its own."""
        return {*self.parts.own(pids), *self.parts.nobody(pids)}

    def _held_down(self, throttle_reasons: Iterable[str]) -> tuple[str, ...]:
        held = sorted(set(throttle_reasons) & set(self.parts.policy.blocking_throttle_reasons))
        return (f"its clocks are held down: {', '.join(held)}",) if held else ()
