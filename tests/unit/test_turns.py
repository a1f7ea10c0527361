"""Commands that share a GPU: one measures at a time, in the order of arrival."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import pytest
from simulated_fleet import fake_uuid, idle_gpu
from simulated_host import BOB, POLICY, Host, host

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.errors import NoIdleGpuError
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.host.oracle import ReferenceProcess
from roofsmith.machine.admission import admission
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.lease import FileLease, Holder
from roofsmith.machine.waiting import GateParts

GPU = fake_uuid(0)
WAIT = """
import sys, time
from pathlib import Path
from roofsmith.machine.lease import FileLeases
from roofsmith.testing.clock import FakeClock
with FileLeases(FakeClock(), "roofsmith optimize far.yaml", Path(sys.argv[1])).line([sys.argv[2]]):
    print("waits", flush=True)
    time.sleep(60)
"""


def test_turns_are_taken_in_the_order_of_arrival() -> None:
    here = host(idle_gpu())
    ann, bob, eve = (here.process(name) for name in ("ann", "bob", "eve"))
    lease = ann.take(GPU)
    assert isinstance(lease, FileLease)
    with ExitStack() as bobs, ExitStack() as eves:
        bobs.enter_context(bob.line([GPU]))
        here.clock.advance(1)
        eves.enter_context(eve.line([GPU]))
        told = eve.take(GPU)
        assert isinstance(told, Holder)
        assert (told.place, told.waiting) == (2, 2)
        assert ": ann, since" in told.standing
        lease.release()
        for early in (ann, eve):
            early_told = early.take(GPU)
            assert isinstance(early_told, Holder)
            assert ": bob, since" in early_told.who
        second = bob.take(GPU)
        assert isinstance(second, FileLease)
        bobs.close()
        second.release()
        assert isinstance(ann.take(GPU), Holder)
        third = eve.take(GPU)
        assert isinstance(third, FileLease)
        third.release()
    assert isinstance(ann.take(GPU), FileLease)


def test_a_killed_command_waits_no_more() -> None:
    here = host(idle_gpu())
    waiting = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(here.folder), GPU], stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "waits\n"
    told = here.ours.take(GPU)
    assert isinstance(told, Holder)
    assert f"pid {waiting.pid} " in told.who
    waiting.kill()
    waiting.communicate()
    assert isinstance(here.ours.take(GPU), FileLease)
    assert [path.suffix for path in here.folder.iterdir()] == [".lock"]


def test_between_two_measurements_others_have_their_turns() -> None:
    here = host(idle_gpu())
    bob = here.process(BOB)
    with admission(here.parts(), "nvidia") as gate:
        assert isinstance(bob.take(GPU), Holder)
        gate.let_go()
        assert isinstance(gate.watch(lambda: bob.take(GPU)).result, Holder)
        with gate.passed(), gate.leased():
            assert isinstance(bob.take(GPU), Holder)
        lease = bob.take(GPU)
        assert isinstance(lease, FileLease)
        lease.release()


def test_what_is_held_in_turns_is_let_go_with_each() -> None:
    here, said = host(idle_gpu()), list[str]()
    gate = GpuGate(here.parts(), GPU)
    gate.ends.append(lambda: said.append("ended"))
    gate.watch(lambda: said.append("measured"))
    gate.watch(lambda: said.append("again"))
    assert said == ["measured", "ended", "again", "ended"]


def waiting_behind_bob(here: Host, release_after_s: float) -> GpuGate:
    """A gate whose turn comes when bob has had his."""
    (lease,) = here.leased_by(BOB, 0)

    def let_go(_: float, detail: str = "") -> None:
        here.observer.countdown.append((_, detail))
        if here.passed_s > release_after_s:
            lease.release()

    here.observer.progress = let_go  # type: ignore[method-assign]
    return GpuGate(here.parts(), GPU)


def test_who_waits_is_told_its_place_and_measures_at_once_when_it_is_first() -> None:
    here = host(idle_gpu())
    assert waiting_behind_bob(here, 100).watch(lambda: "measured").result == "measured"
    ((name, said),) = here.observer.stages
    assert name == "gate"
    assert said.startswith("GPU 0 (NVIDIA H100 80GB HBM3): leased by pid ")
    assert said.endswith("place 1 of 1 in line")
    assert BOB in said
    assert here.passed_s == pytest.approx(100, abs=1)


@pytest.mark.parametrize(("waits", "most_s"), [(True, POLICY.give_up_s), (False, 0.0)])
def test_a_turn_that_never_comes_is_no_idle_gpu(waits: bool, most_s: float) -> None:
    here = host(idle_gpu(), waits=waits)
    gate = waiting_behind_bob(here, float("inf"))
    with pytest.raises(NoIdleGpuError, match=f"leased by pid .*{BOB}"):
        gate.watch(lambda: pytest.fail("it is bob's turn"))
    assert here.passed_s == pytest.approx(most_s, abs=1)
    assert isinstance(here.process("eve").take(GPU), Holder)


def beside(*pids: int) -> GpuStatus:
    listed = tuple(GpuProcess(pid=pid, name="python3", memory_bytes=1 << 30) for pid in pids)
    return idle_gpu(used_bytes=len(pids) << 30).model_copy(update={"processes": listed})


def parts_where(here: Host, *workers: int, tells: bool = True) -> GateParts:
    """Of a driver that says whose kernels ran."""

    def worked(_: str, since_s: float) -> Collection[int] | None:
        assert since_s <= here.clock.now().timestamp() + 1
        return workers if tells else None

    return replace(here.parts(), worked=worked)


PARTNER = os.getpid()
"""Bob's process is this one: he takes turns."""


def test_what_a_partner_keeps_on_the_gpu_is_in_nobodys_way() -> None:
    here = host(beside(PARTNER))
    with here.process(BOB).turns(GPU):
        with admission(parts_where(here), "nvidia") as gate:
            sensed = Health(uuid=GPU, at_s=0, processes=(PARTNER,))
            assert not gate.watch(lambda: gate.hear(sensed)).disturbances
        for parts in (parts_where(here, PARTNER), parts_where(here, tells=False)):
            with (
                pytest.raises(NoIdleGpuError, match=f"pid {PARTNER}"),
                admission(replace(parts, waits=False), "nvidia"),
            ):
                pytest.fail("who computes is busy, and so is who may")
    with (
        pytest.raises(NoIdleGpuError, match=f"pid {PARTNER}"),
        admission(replace(parts_where(here), waits=False), "nvidia"),
    ):
        pytest.fail("bob takes no turns any more")


def test_a_partner_who_computes_in_our_turn_disturbs_it() -> None:
    here = host(beside(PARTNER))
    with here.process(BOB).turns(GPU):
        workers = list[int]()
        gate = GpuGate(replace(here.parts(), worked=lambda *_: workers), GPU)
        runs = list[int]()

        def measure() -> int:
            workers[:] = [] if runs else [PARTNER]
            runs.append(len(runs))
            return len(runs)

        def calms_down(*_: object) -> None:
            workers.clear()

        here.observer.stage = calms_down  # type: ignore[method-assign]
        seen = gate.watch(measure)
    assert seen.result == 2
    assert f"pid {PARTNER} computed out of turn" in seen.disturbances[0]
    assert not seen.void


def test_a_stranger_is_one_beside_partners_too() -> None:
    here = host(beside(PARTNER, 4242), waits=False)
    with (
        here.process(BOB).turns(GPU),
        pytest.raises(NoIdleGpuError, match="pid 4242"),
    ):
        GpuGate(parts_where(here), GPU).watch(lambda: pytest.fail("a stranger is there"))


def test_the_reference_computes_in_our_turns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    here, seen = host(idle_gpu()), list[object]()
    gate, bob = GpuGate(here.parts(), GPU), here.process(BOB)
    monkeypatch.setattr(ReferenceProcess, "ask", lambda *_: seen.append(bob.take(GPU)))
    nothing = cast(Any, None)
    GpuOracle(nothing, nothing, None, gate.leased).ask("describe", {})
    assert isinstance(seen[0], Holder)
    assert isinstance(bob.take(GPU), FileLease)
