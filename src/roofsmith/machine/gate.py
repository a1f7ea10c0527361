"""The gate in front of this command's GPU: whoever measures has its turn, and no one beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from roofsmith.domain.fleet import GpuStatus
from roofsmith.domain.health import Health
from roofsmith.errors import NoIdleGpuError, RoofsmithError
from roofsmith.machine.idle import SAMPLE_S, described, foreign, sampled, untold
from roofsmith.machine.lease import FileLease
from roofsmith.machine.waiting import SETTLING_LOOKS, TICK_S, GateParts, Obstacle, Patience, name_of
from roofsmith.ports import Result, Watched

LAG_S = 1.0
"""A driver's figure of who computes covers up to so long before it (NVML, nvmlUtilization_t)."""


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
    ends: list[Callable[[], object]] = field(default_factory=list)
    """Called before each of our turns ends."""
    _around: list[Callable[[], AbstractContextManager[object]]] = field(default_factory=list)
    """Entered after a turn has begun, and left before it ends."""
    _turn: ExitStack = field(default_factory=ExitStack, repr=False)
    """What is held while it is our turn."""
    _users: int = 0
    """Parts of this command that hold the turn."""
    _settled_s: float = 0.0
    """By the Unix clock: whoever computes later than this does so out of turn."""
    _changing: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _measuring: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """One use of the GPU at a time, on whichever thread."""

    @contextmanager
    def leased(self) -> Iterator[None]:
        """The GPU is this process's as long as the block lasts; it waits for its turn.

        Raises:
            NoIdleGpuError: that took too long.
        """
        with self._changing:
            if not self._users:
                self.begin(Patience(self.parts).for_turn(self.uuid))
            else:
                self._users += 1
        try:
            yield
        finally:
            self.let_go()

    def begin(self, lease: FileLease) -> None:
        """It is our turn, until it is let go."""
        self._settled_s = self.parts.clock.now().timestamp() + LAG_S
        with ExitStack() as turn:
            turn.callback(lease.release)
            for end in self.ends:
                turn.callback(end)
            if self._around:  # nobody holds clocks beside strangers
                self.pass_through()
            for around in self._around:
                turn.enter_context(around())
            self._turn, self._users = turn.pop_all(), 1

    def let_go(self) -> None:
        """Let others have their turns, unless another part of this command still needs this one."""
        with self._changing:
            self._users -= 1
            if not self._users:
                self._turn.close()

    def around(self, held: Callable[[], AbstractContextManager[Result]]) -> Result:
        """Have something held in each of our turns, this one included.

        Args:
            held: entered after a turn has begun, and left before it ends.
        """
        with self._changing:
            entered = self._turn.enter_context(held())
            self._around.append(held)
            return entered

    def close(self) -> None:
        with self._changing:
            self._users = 0
            self._turn.close()

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Our turn, with nobody else on the GPU when it begins: for what others may disturb, but
        not change."""
        with self._measuring, self.leased():
            self.pass_through()
            yield

    def pass_through(self) -> None:
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

        All in one turn. Meanwhile the GPU is looked at every second, unless who measures reads its
        sensors anyway.
        """
        disturbances: list[str] = []
        with self._measuring, self.leased():
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
        out_of_turn = self._out_of_turn()
        with self._hearing:
            self._heard.update(out_of_turn)
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
        self._heard.update((*self._obstacles(status), *self._out_of_turn()))
        return "; ".join(sorted(self._heard)) or None

    def _obstacles(self, status: GpuStatus) -> tuple[str, ...]:
        pids = {process.pid for process in status.processes}
        ours = self._ours(pids)
        ours |= set(self.parts.resting(self.uuid, pids - ours, self._lately_s))
        strangers = [described(process) for process in foreign(status, ours)]
        unknown = untold(status, self.parts.policy)
        return (*strangers, *unknown, *self._held_down(status.throttle_reasons))

    @property
    def _lately_s(self) -> float:
        """From when on it is asked who computes: a driver's figure is a mean of all since then, in
        which a short kernel of a long turn would be rounded away."""
        return max(self._settled_s, self.parts.clock.now().timestamp() - 2 * self.sample_s)

    def _out_of_turn(self) -> tuple[str, ...]:
        """Who takes turns with us, and computed in ours; it may be gone again."""
        ran = set(self.parts.worked(self.uuid, self._lately_s) or ())
        partners = self.parts.leases.partners(self.uuid, ran - self._ours(ran))
        return tuple(f"pid {pid} computed out of turn" for pid in sorted(partners))

    def _meet(self, pids: set[int]) -> None:
        """Find out who they are; one that the driver's list doesn't show is only a number."""
        ours = self._ours(pids)
        ours |= self.parts.leases.partners(self.uuid, pids - ours)  # looked at for themselves
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
