"""What the gate sees of a GPU before, during and after a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from simulated_fleet import Outage, always, busy_gpu, fake_uuid, idle_gpu, mig_instance
from simulated_host import MINUTE, OWN_PID, POLICY, Host, host

from roofsmith.domain.fleet import GatePolicy, GpuProcess, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.errors import BadReferenceError, NoIdleGpuError
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.idle import busy_reasons
from roofsmith.testing.clock import FakeClock

TRAIN = "pid 4242 (alice): python3 train.py, 60.0 GiB"


@dataclass
class Bench:
    """A GPU that this command has leased, whose state a test changes as it goes."""

    status: GpuStatus | None = field(default_factory=idle_gpu)
    policy: GatePolicy = POLICY
    clock: FakeClock = field(default_factory=FakeClock)
    runs: int = 0
    left_at_s: float | None = None

    def __post_init__(self) -> None:
        here = Host([self._now], policy=self.policy, clock=self.clock)
        self.gate = GpuGate(here.parts(), fake_uuid(0))

    def measure(self, *states: GpuStatus | None) -> Callable[[], int]:
        """A measurement that leaves the GPU in the next of these states, or in the last."""

        def measure() -> int:
            self.status = states[min(self.runs, len(states) - 1)]
            self.runs += 1
            return self.runs

        return measure

    def leaves_after(self, seconds: float) -> None:
        """Whoever is on the GPU now is gone after a while."""
        self.left_at_s = self.clock.monotonic() + seconds

    def _now(self, at_s: float) -> GpuStatus | None:
        if self.left_at_s is not None and at_s > self.left_at_s:
            self.status, self.left_at_s = idle_gpu(), None
        return self.status


def with_processes(*pids: int, name: str = "python3", **more: object) -> GpuStatus:
    listed = tuple(GpuProcess(pid=pid, name=name) for pid in pids)
    return idle_gpu().model_copy(update={"processes": listed, **more})


def test_our_own_processes_disturb_nobody() -> None:
    here = Bench(with_processes(OWN_PID, utilisation=1.0, memory_used_bytes=50 << 30))
    seen = here.gate.watch(here.measure(with_processes(OWN_PID)))
    assert (seen.result, seen.disturbances, seen.void) == (1, (), False)


def test_a_number_that_nobody_has_keeps_a_gpu_busy_but_is_ours_once_we_are_on_it() -> None:
    """A process that was killed, or one of a container that the driver numbers as the host does."""
    nobody = with_processes(9999)
    here = host(nobody, waits=False, nobody=9999)
    with pytest.raises(NoIdleGpuError, match="pid 9999"):
        here.chosen()
    GpuGate(here.parts(), fake_uuid(0)).pass_through()


def test_a_daemon_of_the_driver_is_no_stranger() -> None:
    status = with_processes(55, name="/usr/bin/nvidia-persistenced")
    here = Bench(status)
    here.gate.pass_through()

    def measure() -> None:
        here.gate.hear(Health(uuid=fake_uuid(0), at_s=0, processes=(55, OWN_PID)))

    assert not here.gate.watch(measure).disturbances


def test_who_came_during_a_measurement_voids_it_and_it_is_made_again() -> None:
    here = Bench()

    def measure() -> int:
        here.runs += 1
        if here.runs == 1:
            here.status = busy_gpu()
            here.leaves_after(15 * MINUTE)
        return here.runs

    seen = here.gate.watch(measure)
    assert seen.result == 2
    assert seen.disturbances == (TRAIN,)
    assert 20 * MINUTE <= here.clock.monotonic() < 21 * MINUTE, "until the neighbour had left"


HEAT = "its clocks are held down: hw_thermal_slowdown"


@pytest.mark.parametrize(
    ("sensed", "status", "said"),
    [
        ({"processes": (4242, OWN_PID)}, busy_gpu(), TRAIN),
        ({"processes": (4242,)}, idle_gpu(), "pid 4242"),  # gone before anybody looks
        ({"throttle_reasons": ("hw_thermal_slowdown", "sw_power_cap")}, idle_gpu(), HEAT),
    ],
    ids=["neighbour", "number", "heat"],
)
def test_what_sensors_saw_voids_a_measurement(
    sensed: dict[str, object], status: GpuStatus, said: str
) -> None:
    here = Bench()

    def measure() -> int:
        here.runs += 1
        if here.runs == 1:
            here.status = status
            here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, **sensed))
            here.status = idle_gpu()
        else:  # a power cap is load of our own
            own = Health(uuid=fake_uuid(0), at_s=1, throttle_reasons=("sw_power_cap",))
            here.gate.hear(own)
        return here.runs

    seen = here.gate.watch(measure)
    assert (seen.result, seen.disturbances, seen.void) == (2, (said,), False)


def test_a_measurement_is_tried_so_often_and_no_more() -> None:
    here = Bench(policy=POLICY.model_copy(update={"tries": 2}))

    def measure() -> None:
        here.runs += 1
        here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, processes=(4242,)))

    seen = here.gate.watch(measure)
    assert (here.runs, seen.void, len(seen.disturbances)) == (2, True, 2)


def test_a_result_may_stand_although_it_was_disturbed() -> None:
    here = Bench()
    seen = here.gate.watch(here.measure(busy_gpu()), lambda result: result == 1)
    assert (seen.result, seen.disturbances) == (1, ())


LISTLESS = idle_gpu().model_copy(update={"unread": ("processes",)})
VAGUE = idle_gpu().model_copy(update={"unread": ("throttle_reasons",)})


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (LISTLESS, "the driver doesn't list its processes"),
        (VAGUE, "the driver doesn't tell whether its clocks are held down"),
    ],
)
def test_a_driver_that_stops_telling_voids_what_is_measured(status: GpuStatus, said: str) -> None:
    here = Bench()
    here.leaves_after(15 * MINUTE)
    seen = here.gate.watch(here.measure(status, idle_gpu()))
    assert (seen.result, seen.disturbances, seen.void) == (2, (said,), False)
    assert here.clock.monotonic() >= 15 * MINUTE, "until it told again"


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (LISTLESS, {"must_list_processes": False}),
        (VAGUE, {"blocking_throttle_reasons": ()}),
        (VAGUE.model_copy(update={"kind": "amd"}), {}),
        (mig_instance().model_copy(update={"uuid": fake_uuid(0)}), {}),
    ],
)
def test_what_lets_a_gpu_be_had_lets_it_be_measured_on(
    status: GpuStatus, changes: dict[str, object]
) -> None:
    policy = POLICY.model_copy(update=changes)
    assert busy_reasons([status] * policy.samples, policy, ()) == ()
    here = Bench(status, policy=policy)
    assert not here.gate.watch(here.measure(status)).disturbances


@pytest.mark.rule("gate-first")
def test_before_every_measurement_one_waits_until_others_have_left() -> None:
    here = Bench(busy_gpu())
    here.leaves_after(20 * MINUTE - 1)
    seen = here.gate.watch(here.measure(idle_gpu()))
    assert seen.result == 1
    assert 20 * MINUTE <= here.clock.monotonic() < 21 * MINUTE


@pytest.mark.rule("gate-gives-up")
def test_who_never_leaves_ends_the_wait_after_an_hour_and_is_named() -> None:
    here = Bench(busy_gpu())
    with pytest.raises(NoIdleGpuError, match="pid 4242 \\(alice\\)"):
        here.gate.watch(here.measure(idle_gpu()))
    assert here.runs == 0


def test_a_gpu_that_is_gone_is_said_to_be() -> None:
    here = Bench(None)
    with pytest.raises(NoIdleGpuError, match="is gone: its driver no longer lists it") as gone:
        here.gate.pass_through()
    assert "xid" in str(gone.value)


def test_a_driver_may_stumble_once() -> None:
    clock = FakeClock()
    parts = Host([always(idle_gpu())], outages=[Outage(0, 1.5)], clock=clock).parts()
    GpuGate(parts, fake_uuid(0)).pass_through()
    parts = Host([always(idle_gpu())], outages=[Outage(0, 60)], clock=FakeClock()).parts()
    with pytest.raises(NoIdleGpuError, match="no GPU driver answers"):
        GpuGate(parts, fake_uuid(0)).pass_through()


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_fails_on_a_gpu_that_is_gone_fails_for_that(is_gone: bool) -> None:
    here = Bench()

    def measure() -> None:
        here.status = None if is_gone else here.status
        raise BadReferenceError("the reference died")

    error, said = (NoIdleGpuError, "is gone") if is_gone else (BadReferenceError, "died")
    with pytest.raises(error, match=said) as raised:
        here.gate.watch(measure)
    assert isinstance(raised.value.__cause__, BadReferenceError) is is_gone
