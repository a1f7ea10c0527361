"""Pairs on a crowded machine count by the incumbent's time, and no candidate gains from it."""

from __future__ import annotations

import math
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.compare import compare
from roofsmith.domain.comparison import Estimate, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.host.listening import Ear
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.judge.timing.processor_time import are_asleep
from roofsmith.judge.timing.segment import Segment
from roofsmith.time_slices import ask_for_slices, short_slices

WORKLOAD = Workload(dims={"N": 1})
CLASSES = (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="one"),)
LENIENT = KeepPolicy(error_rate=0.05)
INCUMBENT_S = 2e-3

Waits = Callable[[random.Random, bool], float]
"""Seconds that a candidate's segment is held up for, by others or by itself; told whether it runs
first."""


def pair(
    sweep: int,
    incumbent_s: float,
    candidate_s: float,
    waited_s: tuple[float, float],
    *,
    first: bool = True,
    crowded: bool = True,
) -> PairSample:
    """Of true times and what others took beside them; `first`: whether the incumbent was."""
    return PairSample(
        workload=WORKLOAD.label, sweep=sweep, instance=sweep // 6,
        first="incumbent" if first else "candidate",
        incumbent_time_s=(incumbent_s + waited_s[0],),
        candidate_time_s=(candidate_s + waited_s[1],), waited_s=waited_s, crowded=crowded,
    )  # fmt: skip


def overall(samples: Sequence[PairSample], policy: KeepPolicy = LENIENT) -> Estimate:
    found = compare(samples, (WORKLOAD,), CLASSES, {}, policy)
    assert found is not None
    return found.overall


def held_up(chance: random.Random) -> float:
    """What a crowded machine takes from a segment: nothing, or some slices of others'."""
    return chance.choice((0.0, 1e-4, 1e-4, chance.uniform(1, 8) * 1e-3))


def pairs(chance: random.Random, gain: float, waits: Waits, count: int) -> Iterator[PairSample]:
    """Of a kernel whose time varies by a few percent."""
    for sweep in range(count):
        first = chance.random() < 0.5
        noise = (math.exp(chance.gauss(0.0, 0.05)) for _ in range(2))
        yield pair(
            sweep, INCUMBENT_S * next(noise), INCUMBENT_S / gain * next(noise),
            (held_up(chance), waits(chance, first)), first=first,
        )  # fmt: skip


def is_ever_faster(samples: Sequence[PairSample]) -> bool:
    """Whether any look at what there is by then says so."""
    return any(
        overall(samples[:count]).verdict == "faster" for count in range(5, len(samples) + 1, 5)
    )


WAITS: dict[str, Waits] = {
    "none": lambda *_: 0.0,
    "others'": lambda chance, _: held_up(chance),
    "lucky": lambda chance, _: 5e-3 if chance.random() < 0.4 else 0.0,
    "always": lambda *_: 3e-3,
    "when first": lambda _, first: 0.0 if first else 4e-3,
}


@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
def test_identical_kernels_are_not_faster_whatever_a_candidate_does_with_its_waits(
    waits: Waits,
) -> None:
    """At 5% for each stream, however often one looks: of 60, 8 or more have a chance of 1%."""
    streams = [list(pairs(random.Random(seed), 1.0, waits, 60)) for seed in range(60)]
    assert sum(map(is_ever_faster, streams)) <= 7


def held_up_at_times(chance: random.Random, first: bool) -> float:
    return 5e-3 if chance.random() < 0.25 else 0.0


def test_gains_are_found_where_the_incumbents_time_is_known() -> None:
    for gain in (1.5, 2.0, 5.0):
        found = [
            is_ever_faster(list(pairs(random.Random(seed), gain, held_up_at_times, 150)))
            for seed in range(10)
        ]
        assert sum(found) >= 8, gain


@given(st.lists(st.floats(0.0, 0.1), min_size=12, max_size=12))
def test_what_a_candidate_waited_raises_no_low_end(waited_s: list[float]) -> None:
    """And which sweeps count isn't its choice."""
    lost = [0.0 if sweep % 3 else 5e-3 for sweep in range(12)]
    plain = [pair(s, 2e-3, 1e-3, (lost[s], 0.0)) for s in range(12)]
    held = [pair(s, 2e-3, 1e-3, (lost[s], waited_s[s])) for s in range(12)]
    before, after = overall(plain), overall(held)
    assert after.pairs == before.pairs == 8
    assert after.ci[0] <= before.ci[0]


def test_a_rival_that_waits_where_its_inputs_are_fast_is_no_gain() -> None:
    """Who runs first sees the inputs that decide how fast its rival is, and leaves work behind."""
    chance = random.Random(1)
    samples = []
    for sweep in range(200):
        first, true_s = chance.random() < 0.5, chance.choice((1.6e-3, 2.4e-3))
        lost_s = 5e-3 if true_s < 2e-3 and not first else 0.0
        samples.append(pair(sweep, true_s, 2e-3, (lost_s, 0.0), first=first))
    assert overall(samples).verdict != "faster"
    known = [s for s in samples if not s.waited_s[0] and s.first == "candidate"]
    assert overall([s.model_copy(update={"first": "incumbent"}) for s in known]).verdict == "faster"


def test_where_no_time_is_known_nothing_is_said_for_a_candidate() -> None:
    samples = [pair(sweep, 2e-3, 1e-5, (1e-3, 0.0)) for sweep in range(40)]
    assert overall(samples).ci[0] < 1
    assert overall(samples).verdict != "faster"


def test_where_a_measurement_began_anew_what_came_before_does_not_count() -> None:
    ordinary = [pair(s, 1e-3, 2e-3, (0.0, 0.0), crowded=False) for s in range(10)]
    later = [pair(s, 2e-3, 1e-3, (0.0, 0.0)) for s in range(10, 20)]
    assert overall(ordinary).verdict == "slower"
    assert overall([*ordinary, *later]).verdict == "faster"
    assert overall([*ordinary, *later]).pairs == 10


def test_ordinary_pairs_count_as_they_did() -> None:
    """Disturbed or not: only processes made for it leave pairs out."""
    lost = [0.0 if sweep % 3 else 5e-3 for sweep in range(12)]
    samples = [pair(s, 2e-3, 1e-3, (lost[s], 0.0), crowded=False) for s in range(12)]
    assert overall(samples).pairs == 12


def test_all_waiting_is_told_where_segments_are_short() -> None:
    segment = Segment((1e-3, 1e-3), 2.2e-3, 3e-4, 2)
    assert segment.disturbed_s() == 0.0
    assert segment.disturbed_s(is_crowded=True) == pytest.approx(1.5e-4)
    assert segment.disturbed_s(by_clock=True, is_crowded=True) == pytest.approx(1.5e-4)


# -- the process that listens ----------------------------------------------------------------

ANSWERS = """
import socket, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
channel.recv(1000)
time.sleep(0.02)
channel.sendall(b"done")
while True: pass
"""


@pytest.fixture
def worker() -> Iterator[tuple[int, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, "-S", "-c", ANSWERS, str(theirs.fileno())]
        process = subprocess.Popen(words, pass_fds=(theirs.fileno(),))
    with ours, process:
        yield process.pid, ours
        process.kill()


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_a_worker_is_stopped_as_soon_as_it_answers(worker: tuple[int, socket.socket]) -> None:
    pid, ours = worker
    assert eventually(lambda: are_asleep(pid)), "it waits for a message"
    begin = time.perf_counter()
    with Ear() as ear:
        had = ear.attend(
            ours, {"op": "run"}, pid=pid, processors=[*os.sched_getaffinity(0)], deadline_s=20
        )
    end = time.perf_counter()
    assert ours.recv(100) == b"done"
    assert 0.02 <= had.wall_s <= end - begin
    assert begin <= had.stopped_at <= end
    assert had.waited_s >= 0
    assert eventually(lambda: state_of(pid) == "T")


def test_who_never_answers_is_stopped_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sleep", "60"]) as process:
        with Ear() as ear:
            had = ear.attend(ours, {}, pid=process.pid, processors=[0], deadline_s=0.05)
        process.kill()
    assert had.wall_s >= 0.05


def test_slices_are_asked_for_and_given_back() -> None:
    with short_slices(1e-4):
        pass
    ask_for_slices(0.0)
