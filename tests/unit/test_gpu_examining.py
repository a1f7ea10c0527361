"""What a GPU's station examines, and on which inputs: real slots, on the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal, setup  # noqa: E402
from gpu_stations import Bench, EarlyWorker, LateWorker, Worker  # noqa: E402

from roofsmith.judge.correctness.examiner import differs  # noqa: E402
from roofsmith.judge.gpu.station import GpuStation  # noqa: E402
from roofsmith.judge.timing.bench import SegmentPlan  # noqa: E402

PLAN = SegmentPlan(3, warm=2, comes_back=True)
SPIKE = "a lone spike of 2^4"
COMMON = 8.0


def double(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(2 * x)


def careless(x: torch.Tensor, y: torch.Tensor) -> None:
    """Right as long as nothing is large; below zero, anything goes."""
    double(x.clamp(max=COMMON), y)


def remembers() -> Kernel:
    """Does nothing where it was called with the same addresses just before."""
    last = 0

    def kernel(x: torch.Tensor, y: torch.Tensor) -> None:
        nonlocal last
        if x.data_ptr() != last:
            double(x, y)
        last = x.data_ptr()

    return kernel


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    made = Rehearsal(monkeypatch, setup, double, {"N": 200}, slots=PLAN.slots)
    made.turn(double)  # budgets
    return made


@contextmanager
def station_of(
    kernel: Callable[[], Kernel], rehearsal: Rehearsal, root: Path, process: type[Worker] = Worker
) -> Iterator[tuple[GpuStation, Worker]]:
    bench = Bench(rehearsal, root, process)
    with bench.lineup([bench.built("candidate", kernel)]):
        yield bench.station(rehearsal.slots, PLAN), bench.started[0]


def test_a_turn_that_is_not_fresh_begins_with_the_same_inputs(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    with station_of(lambda: double, rehearsal, tmp_path) as (station, worker):
        station.turn([0], 1.0)
        first = worker.given[-PLAN.calls]
        for _ in range(10):
            station.turn([0], 1.0, fresh=False)
            assert worker.given[-PLAN.calls] == first
            assert worker.given[-PLAN.calls - 1] != first
        station.turn([0], 1.0)
        assert worker.given[-PLAN.calls] != first


def test_runs_on_the_same_inputs_are_alike_where_others_would_not_be(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    """Whether a spike is above zero is another draw's luck."""
    assert SPIKE in rehearsal.slots.tolerated
    failed: set[bool] = set()
    while len(failed) < 2:
        with station_of(lambda: careless, rehearsal, tmp_path) as (station, _):
            rehearsal.slots.use(SPIKE)
            station.turn([0], 1.0)
            station.examine()
            repeats = []
            for _ in range(3):
                station.turn([0], 1.0, fresh=False)
                repeats.append(station.examine())
            assert all(found.counts for found in repeats)
            assert not any(differs(repeats[0], other) for other in repeats[1:])
            failed.add(repeats[0].failure is not None)


def test_whoever_remembers_an_address_is_not_excused(rehearsal: Rehearsal, tmp_path: Path) -> None:
    """It is right whenever it isn't called twice in a row at one address, held back or not."""
    with station_of(remembers, rehearsal, tmp_path) as (station, _):
        found = []
        for _ in range(3):
            station.turn([0], 1.0)
            found.append(station.examine().failure)
    assert [failure and failure.reason for failure in found] == [None, "skipped_work", None]


def test_another_draw_excuses_nobody(rehearsal: Rehearsal, tmp_path: Path) -> None:
    """Who is wrong runs again on what it was wrong on."""
    failed: set[bool] = set()
    while len(failed) < 2:
        with station_of(lambda: careless, rehearsal, tmp_path) as (station, worker):
            rehearsal.slots.use(SPIKE)
            station.turn([0], 1.0)
            is_wrong = max(worker.given[-PLAN.calls]) > COMMON
            found = station.examine()
            assert found.counts
            assert (found.failure is not None) == is_wrong
            failed.add(is_wrong)


def test_whoever_works_in_place_is_held_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a segment begins on the slot that the last one ended on."""

    def in_place(N: int, seed: int) -> dict[str, object]:
        x = torch.randn(N, generator=torch.Generator().manual_seed(seed))
        return {"inputs": {"x": x}, "inouts": ["x"]}

    def step(x: torch.Tensor) -> None:
        x.mul_(2).add_(1)

    made = Rehearsal(monkeypatch, in_place, step, {"N": 200}, slots=PLAN.slots)
    made.turn(step)
    with station_of(lambda: step, made, tmp_path) as (station, _):
        for _ in range(4):
            station.turn([0], 1.0)
            assert station.examine().failure is None
        assert station._running.holds


def test_whoever_keeps_the_first_calls_weights_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In whichever slot it is found out."""

    def with_weights(N: int, seed: int) -> dict[str, object]:
        generator = torch.Generator().manual_seed(seed)
        x, w = torch.randn(2, N, generator=generator)
        return {"inputs": {"x": x, "w": w, "y": torch.empty(N)}, "outputs": ["y"]}

    def weigh(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * w)

    def packs_once() -> Kernel:
        packed: list[torch.Tensor] = []

        def kernel(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
            packed.append(w.clone())
            y.copy_(x * packed[0])

        return kernel

    made = Rehearsal(monkeypatch, with_weights, weigh, {"N": 200}, slots=PLAN.slots)
    made.turn(weigh)
    for _ in range(12):
        with station_of(packs_once, made, tmp_path) as (station, _):
            station.turn([0], 1.0)
            failure = station.examine().failure
            assert failure.reason == "memoised_result"


def test_whoever_starts_ahead_is_held_back_no_more(rehearsal: Rehearsal, tmp_path: Path) -> None:
    with station_of(lambda: double, rehearsal, tmp_path, EarlyWorker) as (station, _):
        for _ in range(3):
            station.turn([0], 1.0)
            assert station.examine().failure is None


def test_whoever_is_not_waited_for_is_seen_writing(rehearsal: Rehearsal, tmp_path: Path) -> None:
    """Its outputs are right by the time that they are compared."""
    with station_of(lambda: double, rehearsal, tmp_path, LateWorker) as (station, _):
        station.turn([0], 1.0)
        failure = station.examine().failure
    assert failure.reason == "work_outside_window"


def test_looking_for_late_work_leaves_the_repeats_alike(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    """It is a run on the same inputs itself, and the next one begins with them, too."""
    with station_of(lambda: double, rehearsal, tmp_path) as (station, worker):
        station.turn([0], 1.0)
        first = worker.given[-PLAN.calls]
        station._shared.holding.wanted = False
        calls = len(worker.given)
        assert station.examine().failure is None
        assert len(worker.given) > calls
        for _ in range(3):
            station.turn([0], 1.0, fresh=False)
            assert worker.given[-PLAN.calls] == first
