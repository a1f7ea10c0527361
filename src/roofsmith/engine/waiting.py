"""Waiting for a GPU, in sight of whoever looks on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from roofsmith.analysis.idle import remedy, settings_that_help
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.errors import MachineError, NoIdleGpuError
from roofsmith.ports import Clock, FleetSource, HealthSource, LeaseSource, Observer

TICK_S = 1.0
"""From one figure of the countdown to the next."""
SETTLING_LOOKS = 2
"""Looks at once, before anybody waits for minutes: a driver shows utilisation for up to a second,
and processes for some tenths of one, after they are gone."""
ANSWERS = 3
"""How often a driver is asked that doesn't answer, or a GPU looked for that isn't there."""


@dataclass(frozen=True, slots=True)
class GateParts:
    """What a gate is made of."""

    fleet: FleetSource
    leases: LeaseSource
    clock: Clock
    observer: Observer
    policy: GatePolicy
    own: Callable[[Iterable[int]], Collection[int]]
    """Which of some processes are this command's."""
    nobody: Callable[[Iterable[int]], Collection[int]]
    """Which of some numbers, as the driver lists them, mean no process here that uses a GPU."""
    waits: bool = True
    """False gives up where else one would wait."""
    sensors: HealthSource | None = None
    """Quicker than the fleet; None where a GPU's driver has nothing of the kind."""

    def gpu(self, uuid: str) -> GpuStatus:
        """One GPU now.

        Raises:
            NoIdleGpuError: it isn't there any more, or its driver doesn't answer.
        """
        why = "its driver no longer lists it"
        for _ in range(ANSWERS):
            try:
                found = [status for status in self.fleet.gpus() if status.uuid == uuid]
            except MachineError as error:
                why = error.message
            else:
                if found:
                    return found[0]
            self.clock.sleep(TICK_S)
        raise NoIdleGpuError(
            f"the GPU {uuid}, which was leased, is gone: {why}",
            hint="look at `dmesg | grep -i -e xid -e amdgpu`; it may need a reset",
        )


class Patience:
    """How long one waits in front of one gate."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        self._began_s = parts.clock.monotonic()

    def until_next_look(
        self,
        why: Mapping[str, str],
        may_look: Callable[[], bool] = lambda: False,
        lasting: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Count down to the next look.

        Args:
            why: what is in the way, by GPU, for people.
            may_look: asked every second; True ends the wait at once.
            lasting: what no waiting changes, of those GPUs of which there is such a thing.

        Raises:
            NoIdleGpuError: time is up, or there is no waiting.
        """
        policy, clock = self._parts.policy, self._parts.clock
        give_up_s = self._began_s + policy.give_up_s
        now_s = began_s = clock.monotonic()
        if not self._parts.waits or now_s >= give_up_s:
            raise self._no_idle_gpu(why, now_s - self._began_s, lasting or {})
        look_s = min(now_s + policy.wait_s, give_up_s)
        first, more = next(iter(why.items())), len(why) - 1
        place = f"{first[0]}: {first[1]}" + (f" (and {more} more)" if more else "")

        def standing() -> str:
            left = f"next look in {_minutes(look_s - now_s)}"
            if give_up_s > look_s:
                left += f", giving up in {_minutes(give_up_s - now_s)}"
            return f"{left}; {place}"

        self._parts.observer.stage("gate", standing())
        while now_s < look_s and not may_look():
            self._parts.observer.progress((now_s - began_s) / (look_s - began_s), standing())
            clock.sleep(min(TICK_S, look_s - now_s))
            now_s = clock.monotonic()
        self._parts.observer.progress(1.0, f"looking again; {place}")

    def _no_idle_gpu(
        self, why: Mapping[str, str], spent_s: float, lasting: Mapping[str, Collection[str]]
    ) -> NoIdleGpuError:
        asked = f" for {_minutes(spent_s)}" if self._parts.waits else ""
        hint = (
            "again when one is idle, or with another one in CUDA_VISIBLE_DEVICES"
            " (ROCR_VISIBLE_DEVICES); docs/gate.md says what idle means"
        )
        if settings := settings_that_help({gpu: lasting.get(gpu, ()) for gpu in why}):
            hint = f"{settings}; or {hint}"
        return NoIdleGpuError(
            f"no GPU was idle{asked}; nobody is preempted{_lines(why)}", hint=hint
        )


def never_idle(why: Mapping[str, str], lasting: Mapping[str, Collection[str]]) -> NoIdleGpuError:
    """Nobody waits for what waiting doesn't change.

    Args:
        why: what is in the way, by GPU, for people.
        lasting: of each GPU, those reasons that last.
    """
    return NoIdleGpuError(
        f"no GPU here can pass the gate, however long one waits{_lines(why)}", hint=remedy(lasting)
    )


def name_of(status: GpuStatus) -> str:
    """`GPU 0 (NVIDIA H100 80GB HBM3)`, with the UUID of a MIG instance, which has no number."""
    own = f", {status.uuid}" if status.parent_uuid else ""
    return f"GPU {status.index} ({status.name}{own})"


def _lines(why: Mapping[str, str]) -> str:
    return "".join(f"\n  {gpu}: {reason}" for gpu, reason in why.items())


def _minutes(seconds: float) -> str:
    """`9:05`."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
