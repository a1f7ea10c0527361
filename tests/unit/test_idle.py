"""When a GPU is idle, and which one is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_fleet import GIB, busy_gpu, hidden_gpu, idle_gpu, mig_instance, mute_gpu

from roofsmith.config import Settings
from roofsmith.domain.fleet import MIB, GatePolicy, GpuProcess, GpuStatus
from roofsmith.machine.fleet_tools import DEADLINE_S
from roofsmith.machine.idle import (
    PROHIBITED,
    REMEDIES,
    UNTOLD_USE,
    busy_reasons,
    described,
    foreign,
    idlest,
    lasting_reasons,
    remedy,
    settings_that_help,
)

POLICY = GatePolicy()
OWN = frozenset({1000, 1001})


def window(status: GpuStatus, **changes: Any) -> list[GpuStatus]:
    return [status.model_copy(update=changes)] * POLICY.samples


def reason(window: Sequence[GpuStatus], policy: GatePolicy = POLICY) -> str:
    (only,) = busy_reasons(window, policy, OWN)
    return only


def process(pid: int, **changes: Any) -> GpuProcess:
    return GpuProcess(**{"pid": pid, "memory_bytes": 500 * MIB, **changes})


def test_each_reason_is_a_sentence_of_its_own() -> None:
    idle = idle_gpu()
    assert busy_reasons(window(idle), POLICY, OWN) == ()
    assert reason(window(idle, utilisation=0.37)) == "utilisation 37% (at most 5%)"
    assert reason(window(idle, temperature_c=86.4)) == "86 °C (at most 80 °C)"
    assert reason(window(idle, throttle_reasons=("hw_power_brake", "sw_power_cap"))) == (
        "its clocks are held down: hw_power_brake"
    )
    assert reason(window(idle, compute_mode="Prohibited")).startswith("its compute mode is Prohib")
    assert reason(window(idle, memory_used_bytes=2 * GIB)) == (
        "2.0 GiB of its memory (2.5%) belong to no process that is listed (at most 0.5%): another"
        " container's or user's, perhaps"
    )
    assert reason(window(idle)[1:]) == "it was there 3 of 4 times"
    assert busy_reasons(window(busy_gpu()), POLICY, OWN)[0] == (
        "pid 4242 (alice): python3 train.py, 60.0 GiB"
    )


def test_processes_are_described_as_far_as_they_are_known() -> None:
    assert described(process(7, name="a", user="bob")) == "pid 7 (bob): a, 500 MiB"
    unseen = GpuProcess(pid=7)
    assert described(unseen) == "pid 7: a process that can't be seen from here"


@pytest.mark.parametrize(
    "name", ["utilisation", "memory_used_bytes", "memory_total_bytes", "temperature_c"]
)
def test_a_field_that_is_missing_once_is_enough(name: str) -> None:
    readings = window(idle_gpu())
    readings[2] = readings[2].model_copy(update={name: None})
    assert "doesn't tell" in reason(readings)


def test_a_driver_that_tells_nothing_has_no_idle_gpu() -> None:
    assert len(busy_reasons(window(mute_gpu()), POLICY, OWN)) == 5


def test_what_the_policy_does_not_look_at_may_be_missing() -> None:
    lenient = POLICY.model_copy(update={"max_temperature_c": None, "blocking_throttle_reasons": ()})
    vague = window(idle_gpu(), temperature_c=None, unread=("throttle_reasons",))
    assert busy_reasons(vague, lenient, OWN) == ()
    assert len(busy_reasons(vague, POLICY, OWN)) == 2


def test_what_is_never_told_lasts_and_has_a_remedy_where_the_gate_can_do_without() -> None:
    mute = window(mute_gpu(), compute_mode="Prohibited")
    assert set(lasting_reasons(mute, POLICY, OWN)) == set(REMEDIES)
    assert lasting_reasons(window(busy_gpu()), POLICY, OWN) == ()
    assert lasting_reasons([*mute[1:], idle_gpu()], POLICY, OWN) == (), "it may tell again"
    assert lasting_reasons(mute[1:], POLICY, OWN) == (), "it may stay the next time"
    vague = window(idle_gpu(), temperature_c=None, unread=("processes",))
    helped = remedy({"GPU 0": (UNTOLD_USE,), "GPU 1": lasting_reasons(vague, POLICY, OWN)})
    assert helped.startswith(
        "export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false;"
        " export ROOFSMITH_GATE_MAX_TEMPERATURE_C=none for GPU 1 ("
    )
    assert remedy({"GPU 0": (UNTOLD_USE,)}).startswith("use another GPU")


def test_of_different_gpus_each_setting_is_said_of_those_that_it_helps() -> None:
    listless, hot = lasting_reasons(window(idle_gpu(), unread=("processes",)), POLICY, OWN), ()
    fleet = {"GPU 0": (PROHIBITED,), "GPU 1": listless, "GPU 2": listless, "GPU 3": hot}
    assert (settings_that_help(fleet) or "").startswith(
        "sudo nvidia-smi -c DEFAULT for GPU 0,"
        " or export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false for GPU 1, GPU 2 ("
    )
    alike = settings_that_help({"GPU 1": listless, "GPU 2": listless})
    assert (alike or "").startswith("export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false (")
    assert settings_that_help({"GPU 0": (UNTOLD_USE,), "GPU 3": hot}) is None


def test_settings_that_help_are_settings() -> None:
    named = [way.removeprefix("export ") for way in REMEDIES.values() if way and "=" in way]
    given = dict(way.split("=") for way in named)
    gate = Settings.from_environment({"HOME": "/home/u", **given}, Path("/w")).gate
    assert lasting_reasons(window(mute_gpu()), gate, OWN) == (
        "the driver doesn't tell its utilisation",
        "the driver doesn't tell how much of its memory is in use, or how much of it by us",
    )


def test_one_reading_in_which_it_is_busy_is_enough() -> None:
    readings = window(idle_gpu())
    readings[1] = busy_gpu()
    assert len(busy_reasons(readings, POLICY, OWN)) == 2


def test_our_own_processes_and_their_memory_do_not_count() -> None:
    ours = (process(1000), process(1001, memory_bytes=GIB))
    used = 500 * MIB + GIB
    assert busy_reasons(window(idle_gpu(used_bytes=used), processes=ours), POLICY, OWN) == ()
    both = (*ours, process(7, name="python3"))
    taken = window(idle_gpu(used_bytes=used + 500 * MIB), processes=both)
    assert reason(taken) == "pid 7: python3, 500 MiB"


def test_if_ours_hold_nobody_knows_how_much_the_rest_is_not_known() -> None:
    ours = (process(1000, memory_bytes=None),)
    assert "by us" in reason(window(idle_gpu(used_bytes=GIB), processes=ours))


@pytest.mark.parametrize(
    "name",
    ["/usr/bin/nvidia-persistenced", "nvidia-cuda-mps-server", "nv-hostengine", "dcgm-exporter"],
)
def test_daemons_are_no_foreign_work(name: str) -> None:
    daemon = (process(7, name=f"{name} --verbose"),)
    assert busy_reasons(window(idle_gpu(used_bytes=500 * MIB), processes=daemon), POLICY, OWN) == ()
    client = (*daemon, process(8, name="python3"))
    assert [one.pid for one in foreign(window(idle_gpu(), processes=client)[0], OWN)] == [8]


def test_a_desktop_may_stay_and_a_game_may_not() -> None:
    desktop = (
        process(7, name="/usr/lib/xorg/Xorg", memory_bytes=300 * MIB, drawing=True),
        process(8, name="/usr/bin/gnome-shell", memory_bytes=200 * MIB),
        process(9, name="firefox", memory_bytes=100 * MIB, drawing=True),
    )
    drawn = window(idle_gpu(used_bytes=620 * MIB), processes=desktop)
    assert busy_reasons(drawn, POLICY, OWN) == ()
    game = (*desktop, process(10, name="game", memory_bytes=GIB, drawing=True))
    played = window(idle_gpu(used_bytes=620 * MIB + GIB), processes=game)
    assert reason(played) == "programs that draw hold 1.6 GiB of its memory (at most 1.0 GiB)"


@pytest.mark.rule("idle")
def test_memory_that_grows_is_somebody_who_starts() -> None:
    large = idle_gpu().model_copy(update={"memory_total_bytes": 192 * GIB})
    readings = [large.model_copy(update={"memory_used_bytes": n * 60 * MIB}) for n in range(4)]
    assert reason(readings) == "its memory in use grew by 180 MiB while it was watched"
    assert busy_reasons(readings[::-1], POLICY, OWN) == ()


def test_a_mig_instance_is_judged_by_processes_and_memory() -> None:
    assert busy_reasons(window(mig_instance()), POLICY, OWN) == ()
    assert reason(window(mig_instance(), utilisation=0.5)).startswith("utilisation")
    assert "belong to no process" in reason(window(mig_instance(), memory_used_bytes=GIB))
    assert reason(window(mig_instance(), processes=(process(7, memory_bytes=0),)))


def test_the_idlest_has_the_least_memory_then_the_lowest_heat_then_the_lowest_number() -> None:
    def chosen(*gpus: GpuStatus) -> str | None:
        return idlest({gpu.uuid: window(gpu) for gpu in gpus}, POLICY, OWN)

    full, warm = idle_gpu(0, used_bytes=9 * MIB), idle_gpu(1, temperature_c=50.0)
    cool, also = idle_gpu(2, temperature_c=40.0), idle_gpu(3, temperature_c=40.0)
    assert chosen(full, warm) == warm.uuid
    assert chosen(full, warm, also, cool) == cool.uuid
    assert chosen(full, busy_gpu(4), hidden_gpu(5)) == full.uuid
    assert chosen(busy_gpu(4), hidden_gpu(5)) is None
    assert chosen() is None
    assert idlest({"GPU-x": []}, POLICY, OWN) is None


@given(st.permutations(range(8)))
def test_the_choice_does_not_depend_on_the_order(order: list[int]) -> None:
    gpus = [idle_gpu(index, used_bytes=(index % 3) * MIB) for index in order]
    assert idlest({gpu.uuid: window(gpu) for gpu in gpus}, POLICY, OWN) == idle_gpu(0).uuid


def test_without_a_list_of_processes_memory_may_decide() -> None:
    lenient = POLICY.model_copy(update={"must_list_processes": False})
    hidden = window(idle_gpu(), unread=("processes",))
    assert busy_reasons(hidden, lenient, OWN) == ()
    assert busy_reasons(hidden, POLICY, OWN) == ("the driver doesn't list its processes",)
    taken = window(idle_gpu(used_bytes=GIB), unread=("processes",))
    assert "belong to no process" in reason(taken, lenient)


@pytest.mark.rule("idle")
@given(
    utilisation=st.none() | st.floats(0, 1),
    used=st.none() | st.integers(0, 80 * GIB),
    heat=st.none() | st.floats(0, 120),
    hidden=st.booleans(),
)
def test_idle_means_known_and_below_every_bound(
    utilisation: float | None, used: int | None, heat: float | None, hidden: bool
) -> None:
    readings = window(
        idle_gpu(),
        utilisation=utilisation,
        memory_used_bytes=used,
        temperature_c=heat,
        unread=("processes",) if hidden else (),
    )
    idle = (
        not hidden
        and utilisation is not None
        and utilisation <= POLICY.max_utilisation
        and used is not None
        and used <= POLICY.max_memory_share * 80 * GIB
        and heat is not None
        and heat <= 80
    )
    assert (busy_reasons(readings, POLICY, OWN) == ()) == idle


def test_the_page_gives_the_bounds_that_hold() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
    for said in (
        f"`window_s` ({POLICY.window_s:.0f} s)",
        f"`samples` ({POLICY.samples})",
        f"`max_utilisation`: {POLICY.max_utilisation:.0%}",
        f"`max_memory_share`: {POLICY.max_memory_share:.1%}",
        f"`max_memory_growth_bytes`: {POLICY.max_memory_growth_bytes // MIB} MiB",
        f"`max_drawing_bytes`: {POLICY.max_drawing_bytes // GIB} GiB",
        f"`max_temperature_c`: {POLICY.max_temperature_c:.0f} °C",
        f"Each has {DEADLINE_S:.0f} s",
    ):
        assert said in page, said
