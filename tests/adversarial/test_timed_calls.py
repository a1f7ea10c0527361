"""Kernels that know timed calls from others, and what is mixed among them for their sake."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import HONEST, Bench, bench, needs_gcc

from kinds import another
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.judge.correctness.distributions import LARGE
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.correctness.poison import unwritten
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.station import HostStation
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.judge.timing import decoys as mixing
from roofsmith.judge.timing.bench import Inputs, Odd, SegmentPlan, SideDiedError

pytestmark = needs_gcc

CAREFUL_AT_FIRST = """
void solve(const float *x, float *y, int n) {
    static int calls;
    int careful = ++calls < 100;
    for (int i = 0; i < n; i++) {
        float v = careful || (x[i] > -16.0f && x[i] < 16.0f) ? x[i] : 16.0f;
        y[i] = v * v + 1.0f;
    }
}
"""
"""Of normal numbers, none is ever as large."""

CAREFUL_AMID_ONE_SLOT = """
#include <stdio.h>
#include <string.h>
static long arenas(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    long found = 0;
    unsigned long low, high;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "-arena") && sscanf(line, "%lx-%lx", &low, &high) == 2)
            found += high - low;
    fclose(maps);
    return found;
}
void solve(const float *x, float *y, int n) {
    static long found;
    if (!found) found = arenas();
    for (int i = 0; i < n; i++) {
        float v = found < 32768 || (x[i] > -16.0f && x[i] < 16.0f) ? x[i] : 16.0f;
        y[i] = v * v + 1.0f;
    }
}
"""
"""Of 1003 numbers a slot takes 16384 bytes."""

PADDED = """
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    y[:64] = x[:64]
    y[64:] = 0
"""

PADS = """
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void clear(char *from, char *to) { memset(from, 0, to - from); }
static void give_back(char *from, char *to, int and_read) {
    char *first = (char *)(((uintptr_t)from + 4095) & ~(uintptr_t)4095);
    char *last = (char *)((uintptr_t)to & ~(uintptr_t)4095);
    clear(from, first);
    madvise(first, last - first, MADV_DONTNEED);
    for (volatile char *at = first; and_read && at < last; at += 4096) (void)*at;
    clear(last, to);
}
static void with_memory_of_its_own(char *from, char *to) {
    static char *kept;
    long size = 1 << 21;
    char *own = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!kept) kept = aligned_alloc(4096, size);
    memset(own, 1, size);
    memset(kept, 1, size);
    madvise(kept, size, MADV_DONTNEED);
    munmap(own, size);
    clear(from, to);
}
void solve(const float *x, float *y, int n) {
    memcpy(y, x, 64 * sizeof(float));
    HOW
}
"""

HOWS = {
    "clears": "clear((char *)(y + 64), (char *)(y + n));",
    "gives back its own": "with_memory_of_its_own((char *)(y + 64), (char *)(y + n));",
    "gives back the output": "give_back((char *)(y + 64), (char *)(y + n), 0);",
    "gives back the output and reads it": "give_back((char *)(y + 64), (char *)(y + n), 1);",
}

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
    """All that is mixed, in front of every turn."""
    seen: list[Odd] = []
    plain = HostStation.mixed

    def mixed(*arguments: object) -> tuple[Odd, ...]:
        found = plain(*arguments)  # type: ignore[arg-type]
        seen.extend(found)
        return found

    monkeypatch.setattr(HostStation, "mixed", mixed)
    monkeypatch.setattr(mixing, "ONE_IN", 1)
    monkeypatch.setattr(mixing, "MIXED_SHARE", math.inf)
    return seen


@pytest.fixture
def large_looks(looks: list[Odd], monkeypatch: pytest.MonkeyPatch) -> list[Odd]:
    """As above, of inputs that are larger than 16, whichever the incumbent was examined on."""

    def others(examiner: Examiner, inputs: Inputs) -> tuple[str, ...]:
        return tuple(name for name in inputs.tolerated if name in LARGE)

    monkeypatch.setattr(Examiner, "others", others)
    return looks


def named(outcome: Outcome) -> tuple[str, str | None]:
    """Its kind and its reason."""
    return outcome.kind, getattr(outcome, "reason", None)


def test_who_is_careful_only_while_it_is_examined_is_wrong_among_timed_calls(
    squares: Bench, large_looks: list[Odd]
) -> None:
    assert isinstance(squares.check(CAREFUL_AT_FIRST).outcome, Passed)
    judged = squares.compare(CAREFUL_AT_FIRST)
    assert judged.verdict == "rejected"
    assert named(judged.outcome) == ("incorrect", "wrong_output")
    assert "timed calls" in judged.outcome.detail
    assert large_looks


def test_who_is_careful_only_in_an_examinations_memory_is_wrong_among_timed_calls(
    squares: Bench, large_looks: list[Odd]
) -> None:
    """The process that it is run in once more, alone, has a measurement's memory."""
    assert isinstance(squares.check(CAREFUL_AMID_ONE_SLOT).outcome, Passed)
    judged = squares.compare(CAREFUL_AMID_ONE_SLOT)
    assert named(judged.outcome) == ("incorrect", "wrong_output")
    assert "not where the same inputs are an examination's, " in judged.outcome.detail
    assert large_looks


def test_what_was_wrong_among_timed_calls_is_drawn_again_for_an_examination(
    squares: Bench, looks: list[Odd]
) -> None:
    """Who isn't as exact as the incumbent there, but in every way alike, stays unharmed."""
    careless = CAREFUL_AMID_ONE_SLOT.replace("found < 32768", "0")
    against, plan = squares.built(HONEST), SegmentPlan(4, warm=1)
    host = HostBench(squares.oracle, squares.target.tolerance, threads=1)
    examiner = Examiner(squares.target, host)
    assert isinstance(examiner.examine(against, lambda *_: None)[0], Passed)
    built = squares.built(careless)
    mixer = mixing.Mixer(host, examiner, built, lambda: 0.0)
    with (
        host.inputs(squares.target.workloads[0], plan.slots) as inputs,
        host.lineup([against, built]) as lineup,
    ):
        station = lineup.station(inputs, plan)
        for _ in range(12):
            station.turn([0, 1], 5.0)
            assert mixer.look(station, inputs, plan) is None
    assert any(odd.finding.failure is not None for odd in looks)


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


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="nobody sees pages here")
@pytest.mark.parametrize("by_clock", [True, another(False)])
@pytest.mark.parametrize("isolation", ["standard", another("none")])
@pytest.mark.parametrize("how", HOWS)
def test_the_systems_clearing_is_nobodys_to_leave_to_whoever_reads(
    how: str, isolation: IsolationMode, by_clock: bool, tmp_path: Path
) -> None:
    text = PADS.replace("HOW", HOWS[how])
    plan, workloads = SegmentPlan(2, warm=0, by_clock=by_clock), ({"n": 300007},)
    with bench(tmp_path / "builds", reference=PADDED, workloads=workloads) as padded:
        host = HostBench(
            padded.oracle, padded.target.tolerance, threads=1, isolation=isolate(isolation)
        )
        with (
            host.lineup([padded.built(text)]) as lineup,
            host.inputs(padded.target.workloads[0], plan.slots) as inputs,
        ):
            station = lineup.station(inputs, plan)

            def turn() -> None:
                station.turn([0], 5.0)
                assert station.spot_check() is None

            turn()
            if "the output" not in how:
                turn()
                return
            if isolation == "none" and how.endswith("reads it"):
                pytest.skip("a child may share pages: nobody tells whose they are")
            with pytest.raises(SideDiedError, match="gave pages of its outputs back") as died:
                turn()
            assert died.value.outcome.reason == "work_outside_window"


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


@pytest.mark.parametrize("plan", [SegmentPlan(2, warm=1, by_clock=True), SegmentPlan(1, warm=0)])
def test_what_the_judges_own_clock_times_maps_none_of_its_memory(
    plan: SegmentPlan, squares: Bench
) -> None:
    bench = HostBench(squares.oracle, squares.target.tolerance, threads=1)
    with (
        bench.lineup([squares.built(HONEST)]) as lineup,
        bench.inputs(squares.target.workloads[0], plan.slots) as inputs,
    ):
        worker, station = lineup.workers[0], lineup.station(inputs, plan)
        if not worker.is_reachable:
            pytest.skip("no memory access here")
        for _ in range(2):
            station.turn([0], 5.0)
            assert station.spot_check() is None
        maps = Path(f"/proc/{worker.pid}/maps").read_text()
        assert ("-arena" in maps) is not plan.by_clock
