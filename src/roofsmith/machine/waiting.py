"""What a gate is made of, and how one waits in front of it, in sight of whoever looks on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from roofsmith.domain.fleet import Fleet, GatePolicy, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.errors import MachineError, NoIdleGpuError
from roofsmith.machine.idle import remedy, settings_that_help
from roofsmith.machine.lease import FileLease, FileLeases, Holder
from roofsmith.ports import Clock, Observer

TICK_S = 1.0
"""From one figure of the countdown to the next."""
SETTLING_LOOKS = 2
"""Looks at once, before anybody waits for minutes: a driver shows utilisation for up to a second,
and processes for some tenths of one, after they are gone."""
TURN_S = 0.1
"""From one look at the line to the next, for whoever measures in turns with others. Chosen."""
ANSWERS = 3
"""How often a driver is asked that doesn't answer, or a GPU looked for that isn't there."""


@dataclass(frozen=True, slots=True)
class GateParts:
    fleet: Fleet
    leases: FileLeases
    clock: Clock
    observer: Observer
    policy: GatePolicy
    own: Callable[[Iterable[int]], Collection[int]]
    """Which of some processes are this command's."""
    nobody: Callable[[Iterable[int]], Collection[int]]
    """Which of some numbers, as the driver lists them, mean no process here that uses a GPU."""
    waits: bool = True
    """False gives up where else one would wait."""
    sensors: Callable[[str], Health | None] | None = None
    """Reads a GPU's in under 1 ms, by UUID; None where a driver has nothing of the kind."""
    worked: Callable[[str, float], Collection[int] | None] = lambda _uuid, _since_s: None
    """Processes whose kernels ran on a GPU since a time of the Unix clock, by UUID; None where the
    driver doesn't tell."""

    def resting(self, uuid: str, pids: Collection[int], since_s: float) -> Collection[int]:
        """Those of others who take turns on a GPU and have computed nothing there since a time.

        None of them where the driver doesn't tell who computes.
        """
        partners = self.leases.partners(uuid, pids)
        worked = self.worked(uuid, since_s) if partners else None
        return frozenset() if worked is None else partners - set(worked)

    def gpu(self, uuid: str) -> GpuStatus:
        """One GPU now.

        Raises:
            NoIdleGpuError: it isn't there any more, or its driver doesn't answer.
        """
        why = "its driver no longer lists it"
        for _ in range(ANSWERS):
            try:
                if found := [status for status in self.fleet() if status.uuid == uuid]:
                    return found[0]
            except MachineError as error:
                why = error.message
            self.clock.sleep(TICK_S)
        raise NoIdleGpuError(
            f"the GPU {uuid}, which was leased, is gone: {why}",
            hint="look at `dmesg | grep -i -e xid -e amdgpu`; it may need a reset",
        )


@dataclass(frozen=True, slots=True)
class Obstacle:
    why: str
    """For people."""
    lasting: tuple[str, ...] = ()
    """Reasons that no waiting removes."""
    leased: str | None = None
    """Its UUID, where another process has the lease."""


Obstacles = Mapping[str, Obstacle]
"""By what people call the GPU."""


@dataclass(slots=True)
class Patience:
    """How long one waits in front of one gate."""

    parts: GateParts
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = self.parts.clock.monotonic()

    def until_next_look(
        self, obstacles: Obstacles, may_look: Callable[[], bool] = lambda: False
    ) -> None:
        """Count down to the next look.

        Args:
            obstacles: what is in the way.
            may_look: asked every second; True ends the wait at once.

        Raises:
            NoIdleGpuError: time is up, or there is no waiting.
        """
        clock, observer = self.parts.clock, self.parts.observer
        give_up_s = self._began_s + self.parts.policy.give_up_s
        now_s = began_s = clock.monotonic()
        if not self.parts.waits or now_s >= give_up_s:
            raise self._no_idle_gpu(obstacles, now_s - self._began_s)
        look_s = min(now_s + self.parts.policy.wait_s, give_up_s)
        more = f" (and {len(obstacles) - 1} more)" if len(obstacles) > 1 else ""

        def place() -> str:
            gpu, obstacle = next(iter(obstacles.items()))
            return f"{gpu}: {obstacle.why}{more}"

        def standing() -> str:
            left = f"next look in {_minutes(look_s - now_s)}"
            if give_up_s > look_s:
                left += f", giving up in {_minutes(give_up_s - now_s)}"
            return f"{left}; {place()}"

        observer.stage("gate", standing())
        while now_s < look_s and not may_look():
            observer.progress((now_s - began_s) / (look_s - began_s), standing())
            clock.sleep(min(TICK_S, look_s - now_s))
            now_s = clock.monotonic()
        observer.progress(1.0, f"looking again; {place()}")

    def for_turn(self, uuid: str) -> FileLease:
        """The lease of a GPU on which this process takes turns, once it is our turn.

        Raises:
            NoIdleGpuError: time is up, or there is no waiting.
        """
        taken = self.parts.leases.take(uuid)
        if not isinstance(taken, Holder):
            return taken
        clock, observer, said = self.parts.clock, self.parts.observer, ""
        gpu = name_of(self.parts.gpu(uuid))
        with self.parts.leases.line((uuid,)):
            while isinstance(taken := self.parts.leases.take(uuid), Holder):
                spent_s, most_s = clock.monotonic() - self._began_s, self.parts.policy.give_up_s
                if not self.parts.waits or spent_s >= most_s:
                    raise self._no_idle_gpu({gpu: Obstacle(taken.standing)}, spent_s)
                if said != (said := f"{gpu}: {taken.standing}"):
                    observer.stage("gate", said)
                left = f"giving up in {_minutes(most_s - spent_s)}"
                observer.progress(spent_s / most_s, f"{left}; {said}")
                clock.sleep(TURN_S)
        return taken

    def _no_idle_gpu(self, obstacles: Obstacles, spent_s: float) -> NoIdleGpuError:
        asked = f" for {_minutes(spent_s)}" if self.parts.waits else ""
        hint = (
            "again when one is idle, or with another one in CUDA_VISIBLE_DEVICES"
            " (ROCR_VISIBLE_DEVICES); docs/gate.md says what idle means"
        )
        if settings := settings_that_help(_lasting(obstacles)):
            hint = f"{settings}; or {hint}"
        return NoIdleGpuError(
            f"no GPU was idle{asked}; nobody is preempted{_lines(obstacles)}", hint=hint
        )


def never_idle(obstacles: Obstacles) -> NoIdleGpuError:
    """Nobody waits for what waiting doesn't change."""
    return NoIdleGpuError(
        f"no GPU here can pass the gate, however long one waits{_lines(obstacles)}",
        hint=remedy(_lasting(obstacles)),
    )


def name_of(status: GpuStatus) -> str:
    """`GPU 0 (NVIDIA H100 80GB HBM3)`, with the UUID of a MIG instance, which has no number."""
    own = f", {status.uuid}" if status.parent_uuid else ""
    return f"GPU {status.index} ({status.name}{own})"


def _lasting(obstacles: Obstacles) -> dict[str, tuple[str, ...]]:
    return {gpu: obstacle.lasting for gpu, obstacle in obstacles.items()}


def _lines(obstacles: Obstacles) -> str:
    return "".join(f"\n  {gpu}: {obstacle.why}" for gpu, obstacle in obstacles.items())


def _minutes(seconds: float) -> str:
    """`9:05`."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
