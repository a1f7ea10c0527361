"""What a virtual machine's host takes away of the processors is said beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import world

from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.evaluator.guard import Guard
from roofsmith.evaluator.steal import steal_note
from roofsmith.machine.probes import processor_time
from roofsmith.ports import Scope, required
from roofsmith.testing.engine import FakeWorld

SECONDS = st.floats(0, 1e9)


def reading(wanted_s: float, stolen_s: float) -> ProcessorTime:
    return ProcessorTime(wanted_s=wanted_s, stolen_s=stolen_s)


def on_host(there: FakeWorld, *readings: ProcessorTime | None) -> FakeWorld:
    left: Iterator[ProcessorTime | None] = iter(readings)
    return replace(there, guard=Guard(processor_times=lambda: next(left)))


def compared(there: FakeWorld, *readings: ProcessorTime | None) -> tuple[str, ...]:
    evaluator, candidate = on_host(there, *readings).evaluator(), there.ideas[0].candidate
    return required(evaluator.evaluate(candidate, there.target.baseline, Scope()).judgement).notes


def test_the_share_of_what_was_wanted_meanwhile() -> None:
    between = reading(110, 29).since(reading(100, 26))
    assert between == reading(10, 3)
    assert between.stolen_share == pytest.approx(0.3)


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_no_reading_gives_a_negative_time(a: float, b: float, c: float, d: float) -> None:
    between = reading(a, b).since(reading(c, d))
    assert between.wanted_s >= 0
    assert between.stolen_share >= 0


def test_a_machine_that_wanted_nothing() -> None:
    assert reading(0, 0).stolen_share == 0


def test_a_judgement_says_what_was_taken_away() -> None:
    (note,) = compared(world(0.5e-3), reading(100, 10), reading(120, 17))
    assert note.startswith("the host of this virtual machine took away 35% of the processor time")


@pytest.mark.parametrize(
    "readings",
    [(reading(100, 10), reading(200, 14.9)), (None, reading(9, 9)), (reading(9, 1), None)],
    ids=["little", "unknown before", "unknown after"],
)
def test_nothing_is_said_of_little_or_of_what_nobody_knows(
    readings: tuple[ProcessorTime | None, ProcessorTime | None],
) -> None:
    assert compared(world(0.5e-3), *readings) == ()
    assert steal_note(*readings) == ()


def test_what_was_never_timed_says_nothing() -> None:
    there = world(0.5e-3)
    wrong = Incorrect(reason="wrong_output", detail="y is off")
    there.kernels.add(there.ideas[0].candidate, outcome=wrong)
    assert compared(there, reading(0, 0), reading(10, 5)) == ()


@pytest.mark.parametrize(("timed", "notes"), [(True, 1), (False, 0)])
def test_a_kernel_on_its_own(timed: bool, notes: int) -> None:
    there = on_host(world(0.5e-3), reading(0, 0), reading(10, 5))
    scope = Scope(alone="time" if timed else "check")
    found = there.evaluator().evaluate(there.target.baseline, None, scope)
    assert len(required(found.measured).notes) == notes


def test_a_ranking_is_passed_on() -> None:
    there = on_host(world(0.5e-3), reading(0, 0), reading(10, 5))
    base, candidate = there.target.baseline, there.ideas[0].candidate
    assert there.evaluator().screen(candidate, base).speedup == pytest.approx(2.0)


def test_this_machine_tells() -> None:
    before = processor_time()
    sum(range(10**6))
    after = processor_time()
    assert 0 <= before.stolen_s <= before.wanted_s
    assert after.wanted_s >= before.wanted_s > 0


def test_a_system_without_steal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda: SimpleNamespace(user=3.0, system=1.0))
    assert processor_time() == reading(4, 0)


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("/proc isn't mounted")

    monkeypatch.setattr(psutil, "cpu_times", refuse)
    assert processor_time() is None
