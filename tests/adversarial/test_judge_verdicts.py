"""Kernels that pass: what their times come to, and that other types and threads pass as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from judge_bench import HONEST, REFERENCE, Bench, bench, needs_gcc, undisturbed

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import BuildSpec
from roofsmith.domain.outcome import Passed
from roofsmith.domain.workload import AS_DRAWN
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.testing.observer import RecordingObserver, SilentObserver

pytestmark = needs_gcc

WORK = """
void solve(const float *x, float *y, int n) {{
    for (int i = 0; i < n; i++) {{
        volatile float burnt = x[i];
        for (int turn = 0; turn < {turns}; turn++) burnt = burnt * 0.5f + 1.0f;
        y[i] = x[i] * x[i] + 1.0f;
    }}
}}
"""
"""A kernel whose time is nearly proportional to `turns`."""


def work(turns: int) -> str:
    return WORK.format(turns=turns)


@pytest.fixture(scope="module")
def patient(builds: Path, scratch: Path) -> Iterator[Bench]:
    """With more time than a quiet machine needs: the judge stops once it is decided."""
    with bench(builds, budget_s=6.0) as made:
        yield made


@pytest.fixture(scope="module")
def slower(patient: Bench, alone: Callable[[], AbstractContextManager[None]]) -> Judgement:
    with alone():
        return patient.compare(work(80), work(40))


@pytest.fixture(scope="module")
def faster(patient: Bench, alone: Callable[[], AbstractContextManager[None]]) -> Judgement:
    with alone():
        return patient.compare(work(40), work(80))


def test_who_is_clearly_slower_ends_before_what_is_dear(patient: Bench, slower: Judgement) -> None:
    judged = undisturbed(slower)
    assert isinstance(judged.outcome, Passed)
    assert judged.verdict == "slower"
    assert not judged.confirmation
    assert judged.comparison is not None
    assert judged.comparison.overall.ci[1] < 1
    assert drawn_for(patient, judged) == {AS_DRAWN}


def drawn_for(bench: Bench, judged: Judgement) -> set[str]:
    """The distributions on which the given workloads were examined."""
    given = {workload.label for workload in bench.target.workloads}
    return {one.inputs for one in judged.errors if one.workload in given}


@pytest.mark.rule("measured-twice")
def test_half_the_work_is_faster_and_measured_again_in_fresh_processes(
    patient: Bench, faster: Judgement
) -> None:
    judged = undisturbed(faster)
    assert isinstance(judged.outcome, Passed)
    assert judged.verdict == "faster"
    assert drawn_for(patient, judged) > {AS_DRAWN}
    assert judged.comparison is not None
    assert judged.comparison.overall.ci[0] > 1
    assert judged.confirmation
    first, again = ({s.instance for s in part} for part in (judged.samples, judged.confirmation))
    assert not first & again
    assert len(again) > 1, "processes are replaced while a measurement lasts"


@pytest.mark.whole
@pytest.mark.rule("measured-twice")
@pytest.mark.timing
def test_both_clocks_time_the_same_segments_where_a_call_is_a_long_one(builds: Path) -> None:
    """Some 0.1 s a call, and 0.01 s."""
    with bench(builds, budget_s=6.0, workloads=({"n": 1000},)) as slow:
        judged = undisturbed(slow.compare(work(5_000), work(50_000)))
    assert judged.verdict == "faster"
    assert len(judged.samples) < len(judged.confirmation) == len(judged.clock)
    for told, clocked in zip(judged.confirmation, judged.clock, strict=True):
        assert (told.sweep, told.instance, told.first) == (
            clocked.sweep, clocked.instance, clocked.first
        )  # fmt: skip
        assert (told.incumbent_time_s, told.candidate_time_s) == tuple(
            (time_s,) for time_s in clocked.claimed_s or ()
        )
        assert clocked.incumbent_time_s > told.incumbent_time_s


@pytest.mark.timing
def test_a_kernel_is_never_faster_than_itself(squares: Bench) -> None:
    """Same code, other content: neither side may profit from its place in the pair."""
    judged = squares.compare(work(20) + "/* the same */\n", work(20))
    assert isinstance(judged.outcome, Passed)
    assert judged.verdict != "faster"


DEFERS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct { const float *x; float *y; int n; } queue[64];
static volatile int queued, started, tid;
static pthread_t caller;

static void work(int number) {
    for (int call = 0; call < queued; call++)
        for (int i = 0; i < queue[call].n; i++) {
            volatile float burnt = queue[call].x[i];
            for (int turn = 0; turn < 4000; turn++) burnt = burnt * 0.5f + 1.0f;
            queue[call].y[i] = queue[call].x[i] * queue[call].x[i] + 1.0f;
        }
    queued = 0;
}

static char state(void) {
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(name, "r");
    if (!file) return '?';
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    char *end = strrchr(text, ')');
    return end ? end[2] : '?';
}

static void *wait_for_the_answer(void *unused) {
    for (;;)
        if (queued && state() == 'S') {
            pthread_kill(caller, SIGUSR1);
            while (queued) usleep(100);
        } else usleep(5);
}

void solve(const float *x, float *y, int n) {
    if (!started) {
        struct sigaction action = {.sa_handler = work, .sa_flags = SA_RESTART};
        sigaction(SIGUSR1, &action, 0);
        caller = pthread_self();
        tid = syscall(SYS_gettid);
        pthread_t thread;
        pthread_create(&thread, 0, wait_for_the_answer, 0);
        started = 1;
    }
    queue[queued].x = x; queue[queued].y = y; queue[queued].n = n;
    queued++;
}
"""
"""Returns at once, and works between the clock's last reading and the collection of outputs."""


@pytest.mark.timing
def test_work_that_is_put_off_until_the_clock_has_stopped_wins_nothing(
    builds: Path, scratch: Path
) -> None:
    link = BuildSpec(link=("-lm", "-pthread"))
    with bench(builds, workloads=[{"n": 1000}], build=link) as made:
        judged = made.compare(DEFERS, work(4000))
    assert judged.verdict != "faster", judged.comparison


def test_samples_hold_everything_that_the_verdict_rests_on(
    patient: Bench, slower: Judgement
) -> None:
    judged = undisturbed(slower)
    labels = {workload.label for workload in patient.target.workloads}
    sweeps = {sample.sweep for sample in judged.samples}
    assert {sample.workload for sample in judged.samples} == labels
    assert len(judged.samples) == len(labels) * len(sweeps)
    assert {sample.first for sample in judged.samples} == {"incumbent", "candidate"}
    assert all(t > 0 for s in judged.samples for t in (*s.incumbent_time_s, *s.candidate_time_s))
    assert judged.isolation == isolate("standard").label
    assert {report.workload for report in judged.errors} >= labels  # hidden ones as well
    assert all(r.norm_error <= r.norm_budget for r in judged.errors)


@pytest.mark.timing
def test_measure_times_every_workload_and_tells_its_stages(squares: Bench) -> None:
    observer = RecordingObserver()
    found = squares.judge().measure(squares.built(work(40)), observer)
    if found.outcome.kind == "unstable":
        pytest.skip(f"this machine is too busy to measure: {found.outcome.detail}")
    assert isinstance(found.outcome, Passed)
    assert [timing.dims for timing in found.timings] == [w.dims for w in squares.target.workloads]
    for timing in found.timings:
        assert timing.ci[0] <= timing.time_s <= timing.ci[1]
    assert observer.stages == ["check", "time"]


@pytest.mark.timing
def test_screening_ranks_and_rejects(squares: Bench) -> None:
    judge, incumbent = squares.judge(), squares.built(work(40))
    slow = judge.screen(squares.built(work(400)), incumbent)
    assert isinstance(slow.outcome, Passed)
    assert slow.speedup is not None
    assert slow.speedup < 1
    wrong = judge.screen(squares.built(HONEST.replace("1.0f", "2.0f")), incumbent)
    assert wrong.outcome.kind == "incorrect"
    assert wrong.speedup is None


def check(builds: Path, **options: object) -> None:
    """The target's own kernel passes its own judge."""
    with bench(builds, **options) as made:
        built = made.built(made.target.kernel.text)
        found = made.judge().measure(built, SilentObserver(), timed=False)
        assert isinstance(found.outcome, Passed), found.outcome
        assert found.errors


def test_float64(builds: Path, scratch: Path) -> None:
    check(
        builds,
        kernel="void solve(const double *x, double *y, long n)"
        " { for (long i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0; }",
        reference="import numpy as np\n"
        "def setup(n, seed=0):\n"
        "    x = np.random.default_rng(seed).standard_normal(n)\n"
        "    return {'inputs': {'x': x, 'y': np.empty(n), 'n': n}, 'outputs': ['y']}\n"
        "def reference(x, y, n):\n    y[:] = x * x + 1\n",
    )


COUNTS = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).integers(-9, 9, n, dtype=np.int32)
    return {"inputs": {"x": x, "y": np.zeros(n, np.int32), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    np.cumsum(x, out=y)
"""
COUNT = """
void solve(const int *x, int *y, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) y[i] = sum += x[i];
}
"""


def test_integers_are_exact(builds: Path, scratch: Path) -> None:
    with bench(builds, kernel=COUNT, reference=COUNTS) as made:
        assert isinstance(made.check(COUNT).outcome, Passed)
        off = made.check(COUNT.replace("sum += x[i];", "sum += x[i]; y[n - 1] ^= 1;")).outcome
        assert (off.kind, getattr(off, "reason", None)) == ("incorrect", "wrong_output")
        assert "1 of 1000 integers differ" in off.detail


def test_two_outputs_and_an_alias_free_layout(builds: Path, scratch: Path) -> None:
    check(
        builds,
        kernel="void solve(const float *x, float *y, double *total, int n)"
        " { *total = 0; for (int i = 0; i < n; i++) { y[i] = -x[i]; *total += x[i]; } }",
        reference="import numpy as np\n"
        "def setup(n, seed=0):\n"
        "    x = np.random.default_rng(seed).random(n, dtype=np.float32)\n"
        "    return {'inputs': {'x': x, 'y': np.empty(n, np.float32), 'total': np.empty(1),\n"
        "                       'n': n}, 'outputs': ['y', 'total']}\n"
        "def reference(x, y, total, n):\n"
        "    y[:] = -x\n    total[0] = x.sum(dtype=np.float64)\n",
    )


def test_reference_without_setup_and_const_inputs(builds: Path, scratch: Path) -> None:
    check(
        builds,
        reference="def reference(x, y, n):\n    y[:n] = x[:n] * x[:n] + 1\n",
        workloads=[{"n": 500}],
    )


def test_reference_without_setup_and_without_const(builds: Path, scratch: Path) -> None:
    """Every buffer is input and output then: what the kernel leaves alone must stay as it was."""
    text = "void solve(float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] += x[i]; }"
    reference = "def reference(x, y, n):\n    y[:n] += x[:n]\n"
    with bench(builds, kernel=text, reference=reference, workloads=[{"n": 300}]) as made:
        assert isinstance(made.check(text).outcome, Passed)
        spoils = text.replace("y[i] += x[i];", "{ y[i] += x[i]; x[i] = 0; }")
        assert made.check(spoils).outcome.kind == "incorrect"


def test_reference_without_setup_takes_the_given_length(builds: Path, scratch: Path) -> None:
    reference = "def reference(x, y, n):\n    assert len(x) == 777\n    y[:] = x * x + 1\n"
    check(
        builds,
        kernel=HONEST.replace("i < n", "i < 777"),
        reference=reference,
        workloads=[{"n": 3}],
        ptr_size=777,
    )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_two_threads(builds: Path, scratch: Path) -> None:
    text = HONEST.replace("    for", "#pragma omp parallel for num_threads(2)\n    for")
    check(
        builds,
        kernel=text,
        threads=2,
        build=BuildSpec(flags=("-O2", "-fopenmp"), link=("-lm", "-fopenmp")),
    )


def test_tolerances_of_the_reference_replace_the_budget(builds: Path, scratch: Path) -> None:
    sloppy = HONEST.replace("1.0f", "1.001f")
    with bench(builds, reference=REFERENCE + "\natol = 0.01\nrtol = 0.01\n") as made:
        assert isinstance(made.check(sloppy).outcome, Passed)
    with bench(builds, reference=REFERENCE + "\natol = 1e-4\nrtol = 1e-4\n") as made:
        assert made.check(sloppy).outcome.kind == "incorrect"
