"""The gate in front of GPUs: who gets one, who waits, and what was measured beside others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from roofsmith.domain.fleet import GatePolicy, GpuProcess, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.engine.admission import admission
from roofsmith.engine.gate import GpuGate
from roofsmith.engine.waiting import GateParts
from roofsmith.errors import BadReferenceError, MachineError, NoIdleGpuError
from roofsmith.ports import LeaseSource
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.fleet import (
    Life,
    Outage,
    SimulatedFleet,
    always,
    busy_gpu,
    fake_uuid,
    flapping,
    hidden_gpu,
    idle_gpu,
    mig_instance,
    mute_gpu,
    phases,
)
from roofsmith.testing.leases import MemoryHost, MemoryLeases
from roofsmith.testing.observer import SilentObserver

MINUTE = 60.0
POLICY = GatePolicy()
OWN_PID = 7
BOB = "pid 9 (bob): roofsmith optimize b.yaml, since 10:31 UTC"


@dataclass
class Watcher(SilentObserver):
    """Keeps what is shown of a wait."""

    stages: list[tuple[str, str]] = field(default_factory=list)
    countdown: list[tuple[float, str]] = field(default_factory=list)

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))

    def progress(self, fraction: float, detail: str = "") -> None:
        self.countdown.append((fraction, detail))


@dataclass
class Host:
    """GPUs, leases and a clock; several processes may share them."""

    lives: Sequence[Life]
    outages: Sequence[Outage] = ()
    policy: GatePolicy = POLICY
    waits: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    observer: Watcher = field(default_factory=Watcher)
    leased: MemoryHost = field(default_factory=MemoryHost)
    nobody: int = -1
    """A process that the driver lists and that isn't there."""

    def parts(self, leases: LeaseSource | None = None) -> GateParts:
        return GateParts(
            fleet=SimulatedFleet(self.lives, self.clock, self.outages),
            leases=leases or MemoryLeases(self.leased),
            clock=self.clock,
            observer=self.observer,
            policy=self.policy,
            own=lambda pids: {OWN_PID} & set(pids),
            gone=lambda pids: {self.nobody} & set(pids),
            waits=self.waits,
        )

    def chosen(self, product: str | None = None) -> str:
        with admission(self.parts(), "nvidia", product) as gate:
            assert self.leased.holders[gate.uuid] == MemoryLeases().process
            uuid = gate.uuid
        assert uuid not in self.leased.holders
        return uuid

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic()


def host(*lives: Life | GpuStatus, **more: object) -> Host:
    scripts = [always(life) if isinstance(life, GpuStatus) else life for life in lives]
    return Host(scripts, **more)  # type: ignore[arg-type]


# -- who gets which -----------------------------------------------------------------------------


def test_an_idle_gpu_is_had_after_one_window() -> None:
    here = host(idle_gpu())
    assert here.chosen() == fake_uuid(0)
    assert here.passed_s == pytest.approx(POLICY.window_s)
    assert not here.observer.countdown


def test_of_eight_gpus_the_idlest_is_had() -> None:
    busy = [busy_gpu(n) for n in (0, 1, 2, 4, 6, 7)]
    here = host(*busy, idle_gpu(3, temperature_c=55), idle_gpu(5, temperature_c=31))
    assert here.chosen() == fake_uuid(5)


def test_a_process_that_is_on_a_gpu_itself_is_not_in_its_own_way() -> None:
    held = GpuProcess(pid=OWN_PID, name="python3", memory_bytes=2 << 30)
    here = host(idle_gpu(used_bytes=2 << 30).model_copy(update={"processes": (held,)}))
    assert here.chosen() == fake_uuid(0)


def test_what_another_process_has_leased_is_left_to_it() -> None:
    here = host(*(idle_gpu(n) for n in range(8)))
    here.leased.holders.update({fake_uuid(n): BOB for n in (0, 1, 2, 4)})
    assert here.chosen() == fake_uuid(3)


def test_eight_processes_get_eight_gpus_and_the_ninth_waits() -> None:
    here = host(*(idle_gpu(n) for n in range(8)), waits=False)
    with ExitStack() as processes:
        got = []
        for n in range(8):
            parts = here.parts(MemoryLeases(here.leased, f"process {n}"))
            got.append(processes.enter_context(admission(parts, "nvidia")).uuid)
        assert sorted(got) == [fake_uuid(n) for n in range(8)]
        with pytest.raises(NoIdleGpuError, match="leased by process 3"):
            here.chosen()


def test_a_command_that_holds_one_gets_the_same_at_once() -> None:
    here = host(idle_gpu(0), phases((0, idle_gpu(1)), (4, busy_gpu(1))))
    parts = here.parts()
    with admission(parts, "nvidia") as outer:
        before_s = here.passed_s
        with admission(parts, "nvidia") as inner:
            assert inner.uuid == outer.uuid
        assert here.passed_s == before_s
        assert outer.uuid in here.leased.holders
    assert not here.leased.holders


def test_slices_of_a_gpu_are_leased_one_by_one() -> None:
    here = host(mig_instance(0, 0), mig_instance(0, 1))
    parts = here.parts()
    with admission(parts, "nvidia") as first:
        assert first.uuid == mig_instance(0, 0).uuid
        other = here.parts(MemoryLeases(here.leased, BOB))
        with admission(other, "nvidia") as second:
            assert second.uuid == mig_instance(0, 1).uuid


def test_a_campaign_goes_on_only_on_its_product() -> None:
    other = idle_gpu(0).model_copy(update={"name": "NVIDIA A100-SXM4-80GB"})
    here = host(other, idle_gpu(1))
    assert here.chosen(product=idle_gpu().name) == fake_uuid(1)
    with pytest.raises(MachineError, match="began on NVIDIA B200; here are only: NVIDIA A100"):
        here.chosen(product="NVIDIA B200")
    assert not here.observer.countdown, "nobody waits for what isn't there"


def test_a_host_without_such_a_gpu_is_told_at_once() -> None:
    amd = idle_gpu(0).model_copy(update={"kind": "amd"})
    with pytest.raises(MachineError, match="shows this process no NVIDIA GPU"):
        host(amd).chosen()


# -- who waits ----------------------------------------------------------------------------------


def test_a_busy_gpu_is_looked_at_every_ten_minutes_for_an_hour() -> None:
    here = host(busy_gpu())
    with pytest.raises(NoIdleGpuError) as refused:
        here.chosen()
    waits = [stage for stage in here.observer.stages if stage[1]]
    assert len(waits) == 6
    assert 60 * MINUTE <= here.passed_s < 62 * MINUTE
    message = str(refused.value)
    assert "pid 4242 (alice): python3 train.py, 60.0 GiB" in message
    assert "GPU 0 (NVIDIA H100 80GB HBM3)" in message
    assert "nobody is preempted" in message
    assert refused.value.exit_code == 2


def test_the_countdown_is_seen_every_second() -> None:
    here = host(phases((0, busy_gpu()), (11 * MINUTE, idle_gpu())))
    assert here.chosen() == fake_uuid(0)
    who = "; GPU 0 (NVIDIA H100 80GB HBM3): pid 4242 (alice): python3 train.py, 60.0 GiB"
    assert here.observer.stages[1][1].startswith("next look in 10:00, giving up in 59:")
    assert who in here.observer.stages[1][1]
    fractions = [fraction for fraction, _ in here.observer.countdown]
    first, second = here.observer.countdown[0][1], here.observer.countdown[1][1]
    assert first.startswith("next look in 10:00, giving up in 59:")
    assert second.startswith("next look in 9:59, giving up in 59:")
    assert len(fractions) == pytest.approx(2 * 600, abs=30)
    assert fractions[:600] == sorted(fractions[:600])


def test_a_gpu_that_falls_idle_is_had_at_the_next_look() -> None:
    here = host(phases((0, busy_gpu()), (25 * MINUTE, idle_gpu())))
    assert here.chosen() == fake_uuid(0)
    assert 30 * MINUTE <= here.passed_s < 32 * MINUTE


def test_whoever_doesnt_wait_is_told_in_seconds() -> None:
    here = host(busy_gpu(0), hidden_gpu(1), mute_gpu(2), waits=False)
    with pytest.raises(NoIdleGpuError) as refused:
        here.chosen()
    message = str(refused.value)
    assert "pid 4242 (alice)" in message
    assert "belong to no process that is listed" in message
    assert "GPU 2" in message
    assert here.passed_s < 15
    assert not here.observer.countdown


def test_what_a_command_left_behind_is_not_waited_for() -> None:
    """A driver's utilisation lags behind by a second, and so do killed processes."""
    lagging = idle_gpu().model_copy(update={"utilisation": 0.6})
    here = host(phases((0, lagging), (1.5, idle_gpu())))
    assert here.chosen() == fake_uuid(0)
    assert here.passed_s < 10


def test_one_that_flaps_is_never_had() -> None:
    here = host(flapping(idle_gpu(), busy_gpu(), 1.7))
    with pytest.raises(NoIdleGpuError, match="alice"):
        here.chosen()


def test_one_that_comes_and_goes_is_not_had_but_its_neighbour_is() -> None:
    here = host(flapping(idle_gpu(0), None, 1.3), idle_gpu(1, temperature_c=70))
    assert here.chosen() == fake_uuid(1)


def test_a_lease_that_is_let_go_is_had_within_seconds() -> None:
    here = host(idle_gpu())
    here.leased.holders[fake_uuid(0)] = BOB

    def let_go(_fraction: float, detail: str = "") -> None:
        here.observer.countdown.append((_fraction, detail))
        if here.passed_s > 100:
            here.leased.holders.pop(fake_uuid(0), None)

    here.observer.progress = let_go  # type: ignore[method-assign]
    assert here.chosen() == fake_uuid(0)
    assert here.passed_s < 100 + 10
    assert BOB in here.observer.countdown[0][1]


def test_who_is_busy_by_a_lease_is_named_by_it() -> None:
    here = host(busy_gpu(), waits=False)
    here.leased.holders[fake_uuid(0)] = BOB
    with pytest.raises(NoIdleGpuError, match="leased by pid 9 \\(bob\\): roofsmith optimize"):
        here.chosen()


def test_a_driver_that_fails_at_first_is_an_error_and_later_a_reason_to_wait() -> None:
    with pytest.raises(MachineError, match="no GPU driver answers") as refused:
        host(idle_gpu(), outages=[Outage(0, 5)]).chosen()
    assert not isinstance(refused.value, NoIdleGpuError)
    life = phases((0, busy_gpu()), (15 * MINUTE, idle_gpu()))
    here = host(life, outages=[Outage(9 * MINUTE, 12 * MINUTE)])
    assert here.chosen() == fake_uuid(0)
    assert any("no GPU driver answers" in detail for _, detail in here.observer.stages)


def test_one_that_is_pulled_while_it_is_waited_for_leaves_a_sentence() -> None:
    here = host(phases((0, busy_gpu()), (5 * MINUTE, None)))
    with pytest.raises(NoIdleGpuError, match="lists no GPU any more"):
        here.chosen()


# -- what is seen of a measurement --------------------------------------------------------------


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
    assert seen.disturbances == ("pid 4242 (alice): python3 train.py, 60.0 GiB",)
    assert 20 * MINUTE <= here.clock.monotonic() < 21 * MINUTE, "until the neighbour had left"


def test_a_neighbour_who_came_and_went_is_known_from_the_sensors() -> None:
    here = Bench()

    def measure() -> int:
        here.runs += 1
        if here.runs == 1:
            here.status = busy_gpu()
            here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, processes=(4242, OWN_PID)))
            here.status = idle_gpu()
        return here.runs

    seen = here.gate.watch(measure)
    assert seen.result == 2
    assert not seen.void
    assert seen.disturbances == ("pid 4242 (alice): python3 train.py, 60.0 GiB",)


def test_one_who_is_gone_before_anybody_looks_is_a_number() -> None:
    here = Bench()

    def measure() -> None:
        here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, processes=(4242,)))

    assert here.gate.watch(measure).disturbances == ("pid 4242",) * POLICY.tries


def test_clocks_that_were_held_down_by_heat_void_a_measurement() -> None:
    here = Bench()

    def measure() -> int:
        here.runs += 1
        reasons = ("hw_thermal_slowdown", "sw_power_cap") if here.runs == 1 else ("sw_power_cap",)
        here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, throttle_reasons=reasons))
        return here.runs

    seen = here.gate.watch(measure)
    assert seen.result == 2, "a power cap is load of our own"
    assert seen.disturbances == ("its clocks are held down: hw_thermal_slowdown",)


def test_a_measurement_is_tried_so_often_and_no_more() -> None:
    here = Bench(policy=POLICY.model_copy(update={"tries": 2}))

    def measure() -> None:
        here.runs += 1
        here.gate.hear(Health(uuid=fake_uuid(0), at_s=1, processes=(4242,)))

    seen = here.gate.watch(measure)
    assert seen.void
    assert here.runs == 2
    assert len(seen.disturbances) == 2


def test_a_result_may_stand_although_it_was_disturbed() -> None:
    here = Bench()
    seen = here.gate.watch(here.measure(busy_gpu()), lambda result: result == 1)
    assert (seen.result, seen.disturbances) == (1, ())


def test_before_every_measurement_one_waits_until_others_have_left() -> None:
    here = Bench(busy_gpu())
    here.leaves_after(20 * MINUTE - 1)
    seen = here.gate.watch(here.measure(idle_gpu()))
    assert seen.result == 1
    assert 20 * MINUTE <= here.clock.monotonic() < 21 * MINUTE


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


def test_what_fails_on_a_gpu_that_is_gone_fails_for_that() -> None:
    here = Bench()

    def measure() -> None:
        here.status = None
        raise BadReferenceError("the reference died: CUDA error 999")

    with pytest.raises(NoIdleGpuError, match="is gone") as gone:
        here.gate.watch(measure)
    assert isinstance(gone.value.__cause__, BadReferenceError)


def test_what_fails_on_a_gpu_that_is_there_fails_as_it_did() -> None:
    here = Bench()

    def measure() -> None:
        raise BadReferenceError("the reference is wrong")

    with pytest.raises(BadReferenceError, match="is wrong"):
        here.gate.watch(measure)
