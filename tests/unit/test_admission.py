"""Who gets a GPU, and who waits for one."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from simulated_fleet import (
    Outage,
    busy_gpu,
    fake_uuid,
    flapping,
    hidden_gpu,
    idle_gpu,
    mig_instance,
    mute_gpu,
    phases,
)
from simulated_host import BOB, MINUTE, OWN_PID, POLICY, host

from roofsmith.domain.fleet import GpuProcess
from roofsmith.errors import MachineError, NoIdleGpuError
from roofsmith.machine.admission import admission, looked_ahead

# -- who gets which -----------------------------------------------------------------------------


def test_an_idle_gpu_is_had_after_one_window() -> None:
    here = host(idle_gpu())
    assert here.chosen() == fake_uuid(0)
    assert here.passed_s == pytest.approx(POLICY.window_s)
    assert not here.observer.countdown


@pytest.mark.rule("idlest")
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
    leases = here.leased_by(BOB, 0, 1, 2, 4)
    assert len(leases) == 4
    assert here.chosen() == fake_uuid(3)


def test_eight_processes_get_eight_gpus_and_the_ninth_waits() -> None:
    here = host(*(idle_gpu(n) for n in range(8)), waits=False)
    with ExitStack() as processes:
        got = []
        for n in range(8):
            parts = here.parts(here.process(f"process {n}"))
            got.append(processes.enter_context(admission(parts, "nvidia")).uuid)
        assert sorted(got) == [fake_uuid(n) for n in range(8)]
        with pytest.raises(NoIdleGpuError, match=r"leased by .*process 3"):
            here.chosen()


def test_a_command_that_holds_one_gets_the_same_at_once() -> None:
    here = host(idle_gpu(0), phases((0, idle_gpu(1)), (4, busy_gpu(1))))
    parts = here.parts()
    with admission(parts, "nvidia") as outer:
        before_s = here.passed_s
        with admission(parts, "nvidia") as inner:
            assert inner.uuid == outer.uuid
        assert here.passed_s == before_s
        assert here.ours.held() == {outer.uuid}
    assert not here.ours.held()


def test_a_look_that_was_begun_before_is_not_repeated() -> None:
    here = host(busy_gpu(0), idle_gpu(1))
    parts = here.parts()
    with looked_ahead(parts, "nvidia") as looked:
        looked()
        before_s = here.passed_s
        with admission(parts, "nvidia") as gate:
            assert gate.uuid == fake_uuid(1)
        assert here.passed_s == before_s
        assert here.ours.held() == {fake_uuid(1)}
    assert not here.ours.held()


def test_what_a_look_finds_in_the_way_is_found_again_by_who_waits() -> None:
    here = host(phases((0, busy_gpu()), (5, idle_gpu())))
    with looked_ahead(here.parts(), "nvidia") as looked:
        looked()
        assert not here.ours.held()
        assert here.chosen() == fake_uuid(0)


def test_slices_of_a_gpu_are_leased_one_by_one() -> None:
    here = host(mig_instance(0, 0), mig_instance(0, 1))
    parts = here.parts()
    with admission(parts, "nvidia") as first:
        assert first.uuid == mig_instance(0, 0).uuid
        other = here.parts(here.process(BOB))
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


@pytest.mark.rule("nobody-preempted")
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
    assert (1.0, f"looking again{who}") in [
        (fraction, detail.partition("; utilisation")[0])
        for fraction, detail in here.observer.countdown
    ]
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


def test_nobody_waits_for_what_no_waiting_changes() -> None:
    listless = idle_gpu(0).model_copy(update={"unread": ("processes",)})
    here = host(listless, mute_gpu(1))
    with pytest.raises(NoIdleGpuError, match="no GPU here can pass the gate") as refused:
        here.chosen()
    assert "the driver doesn't list its processes (no waiting changes that)" in str(refused.value)
    assert "ROOFSMITH_GATE_MUST_LIST_PROCESSES=false" in (refused.value.hint or "")
    assert here.passed_s < 15, "a driver that stumbles is asked again"
    assert not here.observer.countdown
    waiting = host(listless, busy_gpu(1))
    with pytest.raises(NoIdleGpuError, match="no GPU was idle for"):
        waiting.chosen()


@pytest.mark.parametrize("waits", [True, False])
def test_beside_a_busy_gpu_the_setting_that_lets_another_one_pass_is_named(waits: bool) -> None:
    model = {"unread": ("processes",), "name": "NVIDIA L4"}
    here = host(busy_gpu(0), idle_gpu(1).model_copy(update=model), waits=waits)
    with pytest.raises(NoIdleGpuError, match="no GPU was idle") as refused:
        here.chosen()
    hint = refused.value.hint or ""
    setting = "export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false for GPU 1 (NVIDIA L4)"
    assert hint.startswith(setting)
    assert "or again when one is idle" in hint


def test_what_a_driver_tells_again_is_waited_for() -> None:
    here = host(phases((0, mute_gpu()), (5, busy_gpu()), (20 * MINUTE, idle_gpu())))
    assert here.chosen() == fake_uuid(0)


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
    (lease,) = here.leased_by(BOB, 0)

    def let_go(_fraction: float, detail: str = "") -> None:
        here.observer.countdown.append((_fraction, detail))
        if here.passed_s > 100:
            lease.release()

    here.observer.progress = let_go  # type: ignore[method-assign]
    assert here.chosen() == fake_uuid(0)
    assert here.passed_s < 100 + 10
    assert BOB in here.observer.countdown[0][1]


def test_who_is_busy_by_a_lease_is_named_by_it() -> None:
    here = host(busy_gpu(), waits=False)
    assert here.leased_by(BOB, 0)
    with pytest.raises(NoIdleGpuError, match=r"leased by pid \d+ .*: roofsmith optimize"):
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
