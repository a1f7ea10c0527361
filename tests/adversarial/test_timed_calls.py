"""Kernels that know timed calls from others, and what is mixed among them for their sake."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import HONEST, Bench, bench, needs_gcc

from roofsmith.domain.outcome import Passed
from roofsmith.judge import mixing
from roofsmith.judge.bench import Odd, SegmentPlan, SideDiedError
from roofsmith.judge.lineup import HostBench
from roofsmith.judge.poison import unwritten
from roofsmith.judge.station import HostStation

pytestmark = needs_gcc

CAREFUL_AT_FIRST = """
void solve(const float *x, float *y, int n) {
    static int calls;
    int careful = ++calls < 40;
    for (int i = 0; i < n; i++) {
        float v = careful || (x[i] > -16.0f && x[i] < 16.0f) ? x[i] : 16.0f;
        y[i] = v * v + 1.0f;
    }
}
"""
"""Of normal numbers, none is ever as large."""

AHEAD = """
#include <string.h>
static struct { const float *x; float *y; int n; } seen[64];
static int count;
static int is_blank(const float *y) {
    unsigned bits;
    memcpy(&bits, y, 4);
    return (bits & 0x7F800000) == 0x7F800000;
}
static void squares(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
}
void solve(const float *x, float *y, int n) {
    int i = 0;
    while (i < count && seen[i].y != y) i++;
    if (i < 64) {
        seen[i].x = x, seen[i].y = y, seen[i].n = n;
        if (i == count) count++;
    }
    if (is_blank(y)) squares(x, y, n);
    for (i = 0; i < count; i++)
        if (seen[i].n == n && is_blank(seen[i].y)) squares(seen[i].x, seen[i].y, n);
}
"""

LATER = """
#include <pthread.h>
#include <time.h>
static struct { const float *x; float *y; int n; } job;
static void *work(void *unused) {
    struct timespec soon = {0, 300000000};
    nanosleep(&soon, 0);
    for (int i = 0; i < job.n; i++) job.y[i] = job.x[i] * job.x[i] + 1.0f;
    return unused;
}
void solve(const float *x, float *y, int n) {
    pthread_t thread;
    job.x = x, job.y = y, job.n = n;
    pthread_create(&thread, 0, work, 0);
}
"""

PYTHON = """
#define _GNU_SOURCE
#include <dlfcn.h>
void solve(const float *x, float *y, int n) {
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    int state = ensure();
    run("pass");
    release(state);
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
}
"""


@pytest.fixture
def squares(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "builds", workloads=({"n": 1003},)) as made:
        yield made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Odd]:
    """All that is mixed, as often as there is time."""
    seen: list[Odd] = []
    plain = HostStation.mixed

    def mixed(*arguments: object) -> tuple[Odd, ...]:
        found = plain(*arguments)  # type: ignore[arg-type]
        seen.extend(found)
        return found

    monkeypatch.setattr(HostStation, "mixed", mixed)
    monkeypatch.setattr(mixing, "ONE_IN", 1)
    return seen


def test_who_is_careful_only_while_it_is_examined_is_wrong_among_timed_calls(
    squares: Bench, looks: list[Odd]
) -> None:
    assert isinstance(squares.check(CAREFUL_AT_FIRST).outcome, Passed)
    judged = squares.compare(CAREFUL_AT_FIRST)
    assert judged.verdict == "rejected"
    assert (judged.outcome.kind, getattr(judged.outcome, "reason", None)) == (
        "incorrect",
        "wrong_output",
    )
    assert "among timed calls, but not alone" in judged.outcome.detail
    assert looks


def test_who_is_right_is_right_among_timed_calls(squares: Bench, looks: list[Odd]) -> None:
    twice = HONEST.replace("    for", "    for (int twice = 0; twice < 2; twice++)\n    for")
    judged = squares.compare(twice.replace("y[i] =", "((volatile float *)y)[i] ="))
    assert isinstance(judged.outcome, Passed), judged.outcome.detail
    assert looks
    assert all(odd.finding.failure is None for odd in looks)


def test_outputs_that_no_call_was_given_are_nobodys_to_write(squares: Bench) -> None:
    assert isinstance(squares.check(AHEAD).outcome, Passed)
    judged = squares.compare(AHEAD)
    assert (judged.outcome.kind, getattr(judged.outcome, "reason", None)) == (
        "cheated",
        "work_outside_window",
    )


@pytest.mark.parametrize(("text", "is_tampered"), [(HONEST, False), (PYTHON, True)])
def test_a_library_that_runs_python_in_its_process_shows(
    text: str, is_tampered: bool, squares: Bench
) -> None:
    plan = SegmentPlan(2, warm=0)
    bench = HostBench(squares.oracle, squares.target.tolerance, threads=1)
    with (
        bench.lineup([squares.built(text)]) as lineup,
        bench.inputs(squares.target.workloads[0], plan.slots) as inputs,
    ):
        station = lineup.station(inputs, plan)
        station.turn([0], 5.0)
        assert station.spot_check() is None
        assert lineup.workers[0].is_tampered is is_tampered


def test_a_gain_in_a_process_that_was_tampered_with_is_none(squares: Bench) -> None:
    plan = SegmentPlan(2, warm=0, by_clock=True)
    bench = HostBench(squares.oracle, squares.target.tolerance, threads=1)
    with (
        bench.lineup([squares.built(PYTHON)]) as lineup,
        bench.inputs(squares.target.workloads[0], plan.slots) as inputs,
        pytest.raises(SideDiedError) as died,
    ):
        lineup.station(inputs, plan).turn([0], 5.0)
    assert died.value.outcome.reason == "clock_forged"


def test_outputs_are_those_of_the_moment_at_which_the_last_call_returned(squares: Bench) -> None:
    bench = HostBench(squares.oracle, squares.target.tolerance, threads=1)
    plan = SegmentPlan(1, warm=0)
    with (
        bench.lineup([squares.built(LATER)]) as lineup,
        bench.inputs(squares.target.workloads[0], plan.slots) as inputs,
    ):
        worker, arena = lineup.workers[0], lineup.station(inputs, plan).arenas[0]
        inputs.draw(0, 1)
        arena.prepare(0, inputs.given(0))
        given = [arena.offset(0, "x"), arena.offset(0, "y"), 1003]
        with worker.awake():
            worker.stage(0, arena, [0])
            worker.run(0, [given], 5.0, arena.ranges([0]))
            time.sleep(1.0)
            worker.collect(0, arena, [0])
        assert unwritten(arena.view(0, "y"), "float32").all()
        with worker.awake():
            worker.collect(0, arena, [0])
        assert not unwritten(arena.view(0, "y"), "float32").any()
