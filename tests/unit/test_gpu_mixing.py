"""Calls on other inputs among those that are timed on a GPU: real slots, on the host's memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal, setup  # noqa: E402
from gpu_stations import Bench  # noqa: E402

from roofsmith.domain.outcome import Crashed, Failure  # noqa: E402
from roofsmith.judge.correctness.budgets import Finding  # noqa: E402
from roofsmith.judge.correctness.distributions import OWN  # noqa: E402
from roofsmith.judge.gpu.station import GpuStation  # noqa: E402
from roofsmith.judge.timing import decoys as mixing  # noqa: E402
from roofsmith.judge.timing.bench import Odd, SegmentPlan, SideDiedError, odd_among, random_order  # noqa: E402

pytestmark = pytest.mark.slow

PLAN = SegmentPlan(11, warm=2)
OTHERS = ("times 2^10",)
FEW_BYTES = 100_000
"""More than an examination's four slots, less than the twelve of `PLAN`."""
COMMON = 16.0
"""No normal number is ever as large."""


def square(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x * x + 1)


def careless(x: torch.Tensor, y: torch.Tensor) -> None:
    square(x.clamp(-COMMON, COMMON), y)


def careful_for(calls: int) -> Kernel:
    """As exact as it needs to be while it counts, and careless from then on."""
    left = iter(range(calls))

    def kernel(x: torch.Tensor, y: torch.Tensor) -> None:
        (square if next(left, None) is not None else careless)(x, y)

    return kernel


def careful_amid_few(x: torch.Tensor, y: torch.Tensor) -> None:
    """Where the memory around its arrays is an examination's."""
    few = x.untyped_storage().nbytes() < FEW_BYTES
    (square if few else careless)(x, y)


class Examiner:
    """Incumbents were right on all of these."""

    def others(self, inputs: object) -> tuple[str, ...]:
        return OTHERS

    def deadline_s(self, workload: object) -> float:
        return 1.0


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    monkeypatch.setattr(mixing, "ONE_IN", 1)
    monkeypatch.setattr(mixing, "MIXED_SHARE", 1.0)
    made = Rehearsal(monkeypatch, setup, square, {"N": 200}, slots=PLAN.slots)
    assert set(OTHERS) <= set(made.slots.tolerated)
    made.turn(square)  # budgets
    return made


def looked(
    candidate: Callable[[], Kernel], rehearsal: Rehearsal, root: Path, looks: int = 8
) -> Failure | None:
    """What is held against a candidate after some looks at it beside an honest incumbent."""
    bench = Bench(rehearsal, root)
    built = bench.built("candidate", candidate)
    mixer = mixing.Mixer(cast(Any, bench), cast(Any, Examiner()), built)
    inputs = cast(Any, rehearsal.slots)
    with bench.lineup([bench.built("incumbent", lambda: square), built]):
        station = bench.station(inputs, PLAN)
        for _ in range(looks):
            station.turn(random_order(2), 1.0)
            assert station.spot_check() is None
            if failure := mixer.look(station, inputs, PLAN):
                return failure
    return None


def test_who_is_careful_only_while_it_is_examined_is_wrong_among_timed_calls(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    failure = looked(lambda: careful_for(5), rehearsal, tmp_path)
    assert (failure.kind, failure.reason) == ("incorrect", "wrong_output")
    assert "among timed calls, but not alone in a fresh process, " in failure.detail
    assert "times 2^10" in failure.detail


def test_who_is_right_is_right_among_timed_calls(rehearsal: Rehearsal, tmp_path: Path) -> None:
    assert looked(lambda: square, rehearsal, tmp_path) is None


def test_who_is_careful_only_in_an_examinations_memory_is_wrong_among_timed_calls(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    failure = looked(lambda: careful_amid_few, rehearsal, tmp_path)
    assert (failure.kind, failure.reason) == ("incorrect", "wrong_output")
    assert "not where the same inputs are an examination's, " in failure.detail
    assert "times 2^10" in failure.detail


def test_what_a_fresh_process_does_as_well_was_for_the_examination_to_find(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    assert looked(lambda: careless, rehearsal, tmp_path) is None


def test_whoever_dies_alone_accuses_no_incumbent(
    rehearsal: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, the candidate is the first side."""

    def dies(station: GpuStation, odd: Odd, deadline_s: float) -> Finding:
        raise SideDiedError(0, Crashed(reason="signal_sigsegv", detail="it died"))

    monkeypatch.setattr(GpuStation, "alone", dies)
    assert looked(lambda: careful_for(5), rehearsal, tmp_path) is None


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_odd_calls_are_those_that_the_candidate_was_given_last(
    order: list[int], rehearsal: Rehearsal, tmp_path: Path
) -> None:
    bench = Bench(rehearsal, tmp_path)
    kernels = [bench.built(name, lambda: square) for name in ("incumbent", "candidate")]
    counts = set()
    with bench.lineup(kernels):
        station = bench.station(rehearsal.slots, PLAN)
        for _ in range(20):
            for worker in bench.started:
                worker.given.clear()
            odd = station.mixed(order, 1.0, OTHERS)
            counts.add(len(odd))
            assert all(one.finding.distribution == "times 2^10" for one in odd)
            _, *timed = (worker.given for worker in bench.started)
            large = [x for x in timed[0][-PLAN.calls :] if max(map(abs, x)) > COMMON]
            assert len(large) == len(odd)
            rehearsal.slots.fill([one.slot for one in odd])  # where they are by now
            arena = rehearsal.arenas[0]
            assert all(arena.view(one.slot, 0).abs().max() > COMMON for one in odd)
            assert rehearsal.slots.distribution == OWN
    assert max(counts) > 1


def test_a_process_of_its_own_is_given_the_odd_call_only(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    bench = Bench(rehearsal, tmp_path)
    kernels = [bench.built(name, lambda: square) for name in ("incumbent", "candidate")]
    odd: tuple[Odd, ...] = ()
    with bench.lineup(kernels):
        station = bench.station(rehearsal.slots, PLAN)
        while not odd:
            odd = station.mixed([1, 0], 1.0, OTHERS)
    with bench.lineup(kernels[1:]):
        alone = bench.station(rehearsal.slots, PLAN).alone(odd[0], 1.0)
        (worker,) = bench.started
    assert alone.failure is None
    assert alone.counts
    assert len(worker.given) == 2  # the first call, and the one that is judged
    assert worker.given[0] == worker.given[1]
    assert max(map(abs, worker.given[0])) > COMMON


def test_a_quarter_of_the_calls_is_odd_at_most() -> None:
    for slots in range(1, 40):
        for _ in range(20):
            odd = odd_among(range(slots), ("times 2^10", "normal"))
            assert 1 <= len(odd) <= max(slots // 4, 1)
            assert set(odd) <= set(range(slots))
            assert set(odd.values()) <= {"times 2^10", "normal"}
    assert odd_among(range(secrets.randbelow(40)), ()) == {}
