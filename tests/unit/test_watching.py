"""What the judge sees of device memory and of the device while every process is stopped."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Event, Rehearsal, setup  # noqa: E402
from latched_device import LatchedDevice  # noqa: E402

from roofsmith.domain.outcome import Failure, Incorrect  # noqa: E402
from roofsmith.domain.target import Tolerance  # noqa: E402
from roofsmith.domain.workload import Workload  # noqa: E402
from roofsmith.judge.correctness.budgets import Budgets, Finding  # noqa: E402
from roofsmith.judge.gpu import shared as shared_module  # noqa: E402
from roofsmith.judge.gpu import slots as slots_module  # noqa: E402
from roofsmith.judge.gpu import station as station_module  # noqa: E402
from roofsmith.judge.gpu.arenas import Arenas  # noqa: E402
from roofsmith.judge.gpu.device_arena import DeviceArena  # noqa: E402
from roofsmith.judge.gpu.launch_gate import Queued, mapped, new_latch  # noqa: E402
from roofsmith.judge.gpu.process import GpuSegment, Taken  # noqa: E402
from roofsmith.judge.gpu.queued_calls import MOST_LOOKS  # noqa: E402
from roofsmith.judge.gpu.segments import LONGEST_LATCHED_S  # noqa: E402
from roofsmith.judge.gpu.shared import BUSY_LOOKS, Shared  # noqa: E402
from roofsmith.judge.gpu.slots import Filled, Sight  # noqa: E402
from roofsmith.judge.gpu.station import GpuStation  # noqa: E402
from roofsmith.judge.gpu.watching import Watch  # noqa: E402
from roofsmith.judge.timing.bench import CHECKED_BY_CLOCK, SegmentPlan, SideDiedError  # noqa: E402

PLAN = SegmentPlan(4, warm=2)
CLOCK_PLAN = SegmentPlan(4, warm=2, by_clock=True, about_s=1e-3)
LONG_PLAN = SegmentPlan(400, warm=2)
WRONG = Incorrect(reason="skipped_work", detail="left it unwritten")


def reference(x: torch.Tensor, y: torch.Tensor) -> None:
    torch.mul(x, 2.0, out=y)


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    return Rehearsal(monkeypatch, setup, reference, {"N": 1000}, slots=12)


def twice(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(2 * x)


def test_between_sides_nothing_of_the_last_turn_is_left(doubled: Rehearsal) -> None:
    arena = doubled.arenas[0]
    doubled.draw()
    before = {arena.raw(slot, 0).numpy().tobytes() for slot in range(12)}
    doubled.turn(twice)
    present = {arena.raw(slot, 0).numpy().tobytes() for slot in range(12)}
    doubled.slots.scrub()
    for slot in range(12):
        raw = arena.raw(slot, 0).numpy().tobytes()
        assert raw not in present
        assert raw in before  # an earlier draw: valid inputs
        assert bool(torch.isnan(arena.view(slot, 1)).all())
    assert not any(bool(touched.any()) for touched in arena.overruns(range(12)))


def test_a_scrubbed_arena_is_filled_as_ever(doubled: Rehearsal) -> None:
    doubled.turn(twice)
    doubled.slots.scrub()
    assert all(found.failure is None for found in doubled.turn(twice))


def test_an_output_that_is_written_before_the_calls_is_seen(
    doubled: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubled.draw()
    doubled.slots.fill(range(12), watch=range(12))
    doubled.slots.look()
    assert not doubled.slots.sight().is_early
    publish = DeviceArena.publish

    def beside(arena: DeviceArena, slots: Sequence[int]) -> None:
        publish(arena, slots)
        doubled.run(twice, 11)

    monkeypatch.setattr(DeviceArena, "publish", beside)
    doubled.slots.fill(range(12), watch=range(12))
    doubled.slots.look()
    assert doubled.slots.sight().is_early


def test_inputs_come_all_at_once(doubled: Rehearsal) -> None:
    """Whoever waits for a slot's has no time while the others are put together."""
    arena = doubled.arenas[0]
    doubled.draw()
    before = arena.bytes.clone()
    doubled.slots.draw(range(12), range(12))
    guards = {"guards": [0x7FF1] * 12, "first": None, "watch": []}
    doubled.slots._ask("prepare", {"slots": list(range(12)), **guards})
    assert torch.equal(arena.bytes, before)
    doubled.slots._ask("publish", {"slots": [3], "watched": False})
    changed = (arena.bytes != before).view(12, -1).any(1)
    assert changed.nonzero().flatten().tolist() == [3]
    doubled.slots._ask("publish", {"slots": list(range(12)), "watched": False})
    assert bool((arena.bytes != before).view(12, -1).any(1).all())


def test_without_room_for_a_draft_inputs_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Rehearsal(monkeypatch, setup, reference, {"N": 1000}, slots=4)
    monkeypatch.setattr(Arenas, "_free_bytes", lambda arenas: 0)
    slots = slots_module.Slots(made.slots._oracle, 1, made.slots.workload, 4)
    slots.draw(range(4), range(4))
    slots.fill(range(4))
    arena = made.arenas[1]
    assert arena._draft is arena.bytes
    assert not bool(torch.isnan(arena.view(3, 0)).any())


def test_what_bringing_inputs_takes_longer_than_ever_is_told(
    doubled: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who slows it down by working meanwhile has that time counted."""
    took_ms = iter([3.0, 1.0, 5.0, 1.5])
    doubled.slots.draw(range(12), range(12))
    doubled.slots._least_s.clear()
    monkeypatch.setattr(Event, "elapsed_time", lambda *_: next(took_ms))
    late_s = [doubled.slots.fill(range(12)).late_s for _ in range(4)]
    assert late_s == pytest.approx([0.0, 0.0, 4e-3, 0.5e-3])


def test_that_time_is_the_segments(tmp_path: Path) -> None:
    slots = Slots([])
    slots.late_s = 7.0
    made = station(slots, [Worker([])], shared(tmp_path), CLOCK_PLAN)
    (segment,) = made.turn([0], 1.0).segments
    assert 7 < segment.wall_s < 8
    quick = station(slots, [Worker([])], shared(tmp_path))
    (segment,) = quick.turn([0], 1.0).segments
    assert segment.wall_s < 1


def test_an_output_that_is_written_after_the_answer_is_seen(doubled: Rehearsal) -> None:
    doubled.draw()
    doubled.slots.fill(range(12), watch=range(12))
    for slot in range(11):
        doubled.run(twice, slot)
    doubled.slots.look()
    assert not doubled.slots.has_changed()
    doubled.run(twice, 11)
    assert doubled.slots.has_changed()


def test_a_tenth_of_the_last_call_is_enough_to_see(doubled: Rehearsal) -> None:
    arena = doubled.arenas[0]
    doubled.draw()
    doubled.slots.fill(range(12), watch=range(12))
    for slot in range(12):
        doubled.run(twice, slot)
    arena.view(11, 1)[:100] = float("nan")
    doubled.slots.look()
    doubled.run(twice, 11)
    assert doubled.slots.has_changed()


def test_calls_that_left_something_unwritten_are_told(doubled: Rehearsal) -> None:
    doubled.draw()
    doubled.slots.fill(range(12), watch=range(12))
    for slot in set(range(12)) - {3, 7}:
        doubled.run(twice, slot)
    doubled.slots.look()
    assert doubled.slots.sight().unwritten == (3, 7)
    for slot in (3, 7):
        doubled.run(twice, slot)
    assert doubled.slots.sight().unwritten == (3, 7), "what was there at the last look"
    doubled.slots.look()
    assert doubled.slots.sight().unwritten == ()


def test_outputs_without_elements_have_nothing_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(N: int, seed: int) -> dict[str, object]:
        return {"inputs": {"x": torch.randn(N), "y": torch.empty(0)}, "outputs": ["y"]}

    made = Rehearsal(monkeypatch, none, lambda x, y: None, {"N": 10}, slots=4)
    made.draw()
    made.slots.fill(range(4), watch=range(4))
    made.slots.look()
    assert made.slots.sight() == Sight(is_early=False, unwritten=())
    assert not made.slots.has_changed()


class Slots:
    """Device memory in which nothing is wrong, unless it is said so."""

    number, is_blank = 0, False
    workload = Workload(dims={"N": 8})
    outputs = ()

    def __init__(self, diary: list[str]) -> None:
        self._diary = diary
        self.is_early, self.changes = False, False
        self.left: tuple[int, ...] = ()
        self.late_s = 0.0
        self.took_s: float | None = 4.0
        self.verified: list[int] = []
        self.failures: list[Failure | None] = []

    def draw(self, slots: Sequence[int], seeds: Sequence[int]) -> None:
        pass

    def deal(self, order: Sequence[int]) -> None:
        pass

    def fill(
        self,
        slots: Sequence[int],
        *,
        first: int | None = None,
        watch: Sequence[int] = (),
        queued: Queued | None = None,
        patience_s: float = 0.0,
    ) -> Filled:
        self._diary.append("fill and watch" if watch else "fill")
        at_s = time.perf_counter()
        if queued is None:
            return Filled(self.late_s, at_s)
        self._diary.append("let go and look")
        return Filled(self.late_s, at_s, None if self.took_s is None else at_s + self.took_s)

    @contextlib.contextmanager
    def guarded_like(self, slot: int) -> Iterator[None]:
        yield

    def scrub(self) -> None:
        self._diary.append("scrub")

    def let_go(self, queued: Queued, patience_s: float) -> float | None:
        self._diary.append("let go, awake, and look")
        return None if self.took_s is None else time.perf_counter() + self.took_s

    def look(self) -> None:
        self._diary.append("look")

    def sight(self) -> Sight:
        self._diary.append("what was seen")
        return Sight(self.is_early, self.left)

    def has_changed(self) -> bool:
        return self.changes

    def learn(self, slot: int, budgets: Budgets) -> None:
        pass

    def verify(
        self, slots: Sequence[int], budgets: Budgets, *, exact: bool, named: bool = True
    ) -> Iterator[Finding]:
        self._diary.append("verify")
        self.verified = list(slots)
        failure = self.failures.pop(0) if self.failures else None
        return iter([Finding("N=8", "own", failure, {})])


class Worker:
    """A process whose calls are queued in time, but for those of some segments."""

    def __init__(
        self, diary: list[str], early: Sequence[bool] = (), name: str = "one", room: int = 10**6
    ) -> None:
        self._diary, self._early = diary, list(early)
        self.candidate_id = name
        self.names_tuning = False
        self._room = room
        """Calls that its launch queue has room for."""
        self.timed: list[list[int]] = []
        self.warm: list[int] = []
        """Discarded calls that were queued, by segment."""
        self.ended = False
        self.is_latched = False
        self.queued = Queued(latch=-1, turn=1)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        yield
        self._diary.append("stop")

    def attach(self, slots: object) -> None:
        pass

    wake = pause = begin_first_call = end_first_call = lambda *_: None

    def queue_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> bool:
        self._diary.append("queue")
        self.warm.append(len(warm))
        self.timed.append(list(slots))
        return len(slots) <= self._room and not (self._early.pop(0) if self._early else False)

    def run_queued(self, deadline_s: float) -> GpuSegment:
        self._diary.append("go")
        return GpuSegment(elapsed_s=1e-9, wall_s=1e-9)

    def run_slots(
        self, arena: int, slots: Sequence[int], *, taken: Taken | None = None, **_: object
    ) -> GpuSegment:
        if taken is not None:
            assert 0 <= taken.before < len(slots)
            self._diary.append("occupy")
        self._diary.append("run" if slots else "discard")
        return GpuSegment(elapsed_s=1e-9, wall_s=1e-9)

    def end(self) -> None:
        self.ended = True

    close = end


def shared(tmp_path: Path) -> Shared:
    """A bench without a device."""
    return Shared(Budgets(Tolerance()), "cuda", tmp_path, cast(Any, None), None, cast(Any, None))


def station(
    slots: Slots, workers: Sequence[Worker], bench: Shared, plan: SegmentPlan = PLAN
) -> GpuStation:
    return GpuStation(cast(Any, slots), cast(Any, workers), plan, bench)


def test_the_second_side_queues_its_calls_beside_other_inputs(tmp_path: Path) -> None:
    diary: list[str] = []
    made = station(Slots(diary), [Worker(diary), Worker(diary)], shared(tmp_path))
    made.turn([1, 0], 1.0)
    diary.clear()
    made.turn([0, 1], 1.0)
    first = ["queue", "stop", "fill", "go", "stop", "verify"]
    assert diary == [*first, "scrub", *first]


def test_by_the_clock_the_memory_is_seen_before_and_right_after_the_calls(tmp_path: Path) -> None:
    diary: list[str] = []
    workers = [Worker(diary), Worker(diary)]
    turn = station(Slots(diary), workers, shared(tmp_path), CLOCK_PLAN).turn([0, 1], 1.0)
    # What was left unwritten is asked for once the clock has stopped.
    watched = ["queue", "stop", "fill and watch", "go", "look", "stop", "what was seen", "verify"]
    assert diary[-9:] == ["scrub", *watched]
    # The worker's word came at once; what counts is the time until the memory was seen.
    assert all(segment.wall_s > 1e-9 for segment in turn.segments)


def latched(diary: list[str], name: str = "one") -> Worker:
    """A process whose calls others can let go."""
    made = Worker(diary, name=name)
    made.is_latched = True
    return made


def test_by_the_clock_processes_are_stopped_while_their_calls_run(tmp_path: Path) -> None:
    diary: list[str] = []
    slots = Slots(diary)
    slots.late_s = 0.5
    made = station(slots, [latched(diary), latched(diary)], shared(tmp_path), CLOCK_PLAN)
    turn = made.turn([0, 1], 1.0)
    run = ["queue", "stop", "fill and watch", "let go and look", "go", "stop"]
    assert diary[-9:] == ["scrub", *run, "what was seen", "verify"]
    assert [segment.wall_s for segment in turn.segments] == [4.5, 4.5]
    assert turn.void is None


def test_calls_that_need_their_process_have_it_from_then_on(tmp_path: Path) -> None:
    """And so has whoever is timed beside them, or messages would count on one side only."""
    diary: list[str] = []
    slots = Slots(diary)
    made = station(slots, [latched(diary), latched(diary, "other")], shared(tmp_path), CLOCK_PLAN)
    slots.took_s = None
    turn = made.turn([0, 1], 1.0)
    assert turn.void is not None
    assert diary.count("let go and look") == 1
    assert diary.count("look") == 2
    diary.clear()
    slots.took_s = 4.0
    turn = made.turn([1, 0], 1.0)
    assert turn.void is None
    assert diary[-7:-2] == ["stop", "fill and watch", "let go, awake, and look", "go", "stop"]
    assert "let go and look" not in diary
    assert "look" not in diary
    assert all(4 < segment.wall_s < 5 for segment in turn.segments)


@pytest.mark.parametrize("is_latched", [False, True])
def test_time_counts_from_when_inputs_are_there(is_latched: bool, tmp_path: Path) -> None:
    """However long it takes until somebody lets calls go, or that is waited for in vain."""

    class Slow(Slots):
        def fill(self, slots: Sequence[int], **how: Any) -> Filled:
            filled = super().fill(slots, **how)
            time.sleep(0.05)
            return replace(filled, seen_s=None)

    worker = latched([]) if is_latched else Worker([])
    made = station(Slow([]), [worker], shared(tmp_path), CLOCK_PLAN)
    (segment,) = made.turn([0], 1.0).segments
    assert segment.wall_s >= 0.05


def test_nobody_says_that_his_end_cannot_be_seen(tmp_path: Path) -> None:
    """Unless nobody's can: the driver is one for both."""
    sides = [latched([]), Worker([])]
    made = station(Slots([]), sides, shared(tmp_path), CLOCK_PLAN)
    with pytest.raises(SideDiedError) as caught:
        made.turn([0, 1], 1.0)
    assert (caught.value.side, caught.value.outcome.reason) == (1, "garbled_answer")
    diary: list[str] = []
    made = station(Slots(diary), [Worker(diary), Worker(diary)], shared(tmp_path), CLOCK_PLAN)
    assert made.turn([0, 1], 1.0).void is None
    assert diary.count("look") == 2


@pytest.mark.parametrize(("about_s", "is_latched"), [(LONGEST_LATCHED_S, True), (0.2, False)])
def test_beside_long_calls_messages_are_short(
    about_s: float, is_latched: bool, tmp_path: Path
) -> None:
    diary: list[str] = []
    plan = replace(CLOCK_PLAN, about_s=about_s)
    station(Slots(diary), [latched(diary)], shared(tmp_path), plan).turn([0], 1.0)
    assert ("let go and look" in diary) == is_latched


@pytest.mark.parametrize(("plan", "discarded"), [(CLOCK_PLAN, 0), (PLAN, PLAN.warm)])
def test_the_clock_sees_no_call_that_nobody_verifies(
    plan: SegmentPlan, discarded: int, tmp_path: Path
) -> None:
    """Who can tell discarded calls from others would leave them out: half of all, of long ones."""
    worker = Worker([])
    (segment,) = station(Slots([]), [worker], shared(tmp_path), plan).turn([0], 1.0).segments
    assert worker.warm == [discarded]
    assert segment.wall_calls == plan.calls + discarded


def test_other_segments_are_let_go_by_their_workers(tmp_path: Path) -> None:
    diary: list[str] = []
    station(Slots(diary), [latched(diary)], shared(tmp_path)).turn([0], 1.0)
    assert "let go and look" not in diary


def test_the_reference_lets_go_and_looks(doubled: Rehearsal) -> None:
    """A thread stands for the device."""
    latch, turn = new_latch(), 3
    device = LatchedDevice(latch)
    doubled.draw()
    before = Queued(latch, turn - 1)
    filled = doubled.slots.fill(range(12), watch=range(12), queued=before, patience_s=0.01)
    assert filled.seen_s is None

    def work() -> None:
        device.await_release(turn)
        for slot in range(12):
            doubled.run(twice, slot)
        device.tell(turn)

    thread = threading.Thread(target=work)
    thread.start()
    begin = time.perf_counter()
    now = Queued(latch, turn)
    filled = doubled.slots.fill(range(12), watch=range(12), queued=now, patience_s=60.0)
    thread.join()
    assert filled.seen_s is not None
    assert begin < filled.at_s < filled.seen_s < time.perf_counter()
    doubled.slots.look()
    seen_s = doubled.slots.let_go(now, 0.0)
    assert seen_s is not None
    assert filled.seen_s < seen_s < time.perf_counter()
    assert doubled.slots.let_go(Queued(latch, turn + 1), 0.0) is None
    assert doubled.slots.sight() == Sight(is_early=False, unwritten=())
    assert not doubled.slots.has_changed()
    os.close(latch)


class Stream:
    """Stands for a plug and the device's stream: what was queued runs in a thread, in order."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        fd = new_latch()
        self._latch, self._device = mapped(fd), LatchedDevice(fd)
        os.close(fd)
        self._turn = 0
        threading.Thread(target=self._run, daemon=True).start()

    def hold(self, turn: int) -> None:
        self._turn = turn
        self.put(lambda: self._device.await_release(turn))

    def put(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def tell(self) -> None:
        turn = self._turn
        self.put(lambda: self._device.tell(turn))

    def release(self) -> None:
        self._latch.release(self._turn)

    def is_done(self, patience_s: float) -> bool:
        return self._latch.is_done(self._turn, patience_s)

    def _run(self) -> None:
        while True:
            self._work.get()()


class Looks:
    """Stands for a sample."""

    def __init__(self, stream: Stream, happened: list[str]) -> None:
        self._stream, self._happened = stream, happened

    def look(self) -> None:
        self._stream.put(lambda: self._happened.append("look"))


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A device's default stream, which torch works on within the block that asks for it."""
    made = Stream()
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: made)
    monkeypatch.setattr(torch.cuda, "stream", lambda asked: contextlib.nullcontext(asked))
    return made


def test_a_look_that_was_queued_comes_once_calls_are_done(stream: Stream) -> None:
    happened: list[str] = []
    watch, looks = Watch(cast(Any, stream)), cast(Any, Looks(stream, happened))
    fd = new_latch()
    device = LatchedDevice(fd)

    def work(turn: int) -> None:
        device.await_release(turn)
        time.sleep(0.01)
        happened.append("call")
        device.tell(turn)

    for turn in (1, 2):
        thread = threading.Thread(target=work, args=(turn,))
        thread.start()
        begin = time.perf_counter()
        with watch.queued(looks):
            assert len(happened) == 2 * (turn - 1), "nothing was let go"
            assert not gc.isenabled()
            seen_s = watch.see(mapped(fd), turn, 60.0)
        assert seen_s is not None
        assert begin + 0.01 < seen_s < time.perf_counter()
        thread.join()
    assert happened == ["call", "look"] * 2
    assert gc.isenabled()
    os.close(fd)


def settled(stream: Stream) -> bool:
    """Whether nothing holds the stream back."""
    done = threading.Event()
    stream.put(done.set)
    return done.wait(60.0)


def test_calls_that_are_not_done_hold_nobody_up(stream: Stream) -> None:
    happened: list[str] = []
    watch, looks = Watch(cast(Any, stream)), cast(Any, Looks(stream, happened))
    fd = new_latch()
    for turn in (1, 2):
        with watch.queued(looks):
            assert watch.see(mapped(fd), turn, 0.05) is None
    assert settled(stream)
    assert happened == ["look"] * 2
    os.close(fd)


def test_whatever_goes_wrong_nothing_is_held_back(stream: Stream) -> None:
    watch = Watch(cast(Any, stream))
    with pytest.raises(AttributeError), watch.queued(cast(Any, None)):
        pass
    with pytest.raises(KeyError), watch.queued(cast(Any, Looks(stream, []))):
        raise KeyError
    assert settled(stream)
    assert gc.isenabled()


@pytest.mark.parametrize("came", ["before", "while it waits"])
def test_inputs_are_there_at_the_latest_when_they_are_seen_to_be(
    came: str, doubled: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but letting go is left to do by then; what came while a look was queued counts."""
    happened: list[str] = []
    watch = doubled.server.stage._watch
    times_s = {"queued": 0.0, "there": 0.0}

    @contextlib.contextmanager
    def queued(sample: object) -> Iterator[None]:
        happened.append("queue")
        times_s["queued"] = time.perf_counter()
        yield

    def waited(event: Event) -> None:
        happened.append("wait")
        times_s["there"] = time.perf_counter()

    monkeypatch.setattr(watch, "queued", queued)
    monkeypatch.setattr(watch, "see", lambda *_: happened.append("see"))
    monkeypatch.setattr(Event, "query", lambda event: came == "before")
    monkeypatch.setattr(Event, "synchronize", waited)
    doubled.draw()
    happened.clear()
    latch = new_latch()
    filled = doubled.slots.fill(range(12), watch=range(12), queued=Queued(latch, 1))
    os.close(latch)
    if came == "before":
        assert happened == ["queue", "see"]
        assert filled.at_s < times_s["queued"]
    else:
        assert happened == ["queue", "wait", "see"]
        assert filled.at_s > times_s["there"]


def test_outputs_that_are_written_early_or_late_are_no_outputs(tmp_path: Path) -> None:
    slots = Slots([])
    made = station(slots, [Worker([]), Worker([])], shared(tmp_path), CLOCK_PLAN)
    made.turn([0, 1], 1.0)
    assert made.spot_check() is None
    slots.changes = True
    made.turn([1, 0], 1.0)
    wrong = made.spot_check()
    assert (wrong[0], wrong[1].reason) == (1, "work_outside_window")
    slots.changes, slots.is_early = False, True
    made.turn([0, 1], 1.0)
    wrong = made.spot_check()
    assert (wrong[0], wrong[1].reason) == (0, "work_outside_window")


def test_a_call_that_left_something_unwritten_is_among_those_that_are_verified(
    tmp_path: Path,
) -> None:
    slots = Slots([])
    plan = SegmentPlan(200, warm=2, by_clock=True)
    made = station(slots, [Worker([])], shared(tmp_path), plan)
    made.turn([0], 1.0)
    made.spot_check()
    left = min({*range(200)} - {*slots.verified})
    slots.left = (left,)
    made.turn([0], 1.0)
    made.spot_check()
    assert left in slots.verified
    assert len(slots.verified) <= CHECKED_BY_CLOCK + 1


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_module, "BUSY_LOOK_S", 0.0)


def watched(tmp_path: Path, workers: Sequence[Worker], busy: Iterator[bool] | None) -> Shared:
    """A bench whose device works for the second process until that has ended, or as given."""
    bench = shared(tmp_path)
    is_at_work = (lambda: not workers[1].ended) if busy is None else (lambda: next(busy))
    return replace(bench, is_at_work=is_at_work)


@pytest.mark.usefixtures("hurried")
def test_who_left_work_behind_is_whose_end_leaves_the_device_idle(tmp_path: Path) -> None:
    workers = [Worker([]), Worker([])]
    made = station(Slots([]), workers, watched(tmp_path, workers, None))
    with pytest.raises(SideDiedError) as caught:
        made.turn([0, 1], 1.0)
    assert (caught.value.side, caught.value.outcome.reason) == (1, "leftover_work")
    assert not workers[0].ended


@pytest.mark.usefixtures("hurried")
def test_work_for_somebody_else_is_nobodys_fault(tmp_path: Path) -> None:
    workers = [Worker([]), Worker([])]
    made = station(Slots([]), workers, watched(tmp_path, workers, iter([True] * 1000)))
    with pytest.raises(SideDiedError) as caught:
        made.turn([0, 1], 1.0)
    assert (caught.value.outcome.kind, caught.value.outcome.reason) == ("unstable", "device_busy")


@pytest.mark.usefixtures("hurried")
def test_a_device_that_is_busy_for_a_moment_accuses_nobody(tmp_path: Path) -> None:
    workers = [Worker([]), Worker([])]
    moments = iter([True] * (2 * BUSY_LOOKS - 1) + [False] * 2)
    made = station(Slots([]), workers, watched(tmp_path, workers, moments))
    assert made.turn([0, 1], 1.0).void is None


def test_a_host_that_is_held_up_once_changes_nothing_but_that_pair(tmp_path: Path) -> None:
    diary: list[str] = []
    workers = [Worker(diary), Worker(diary, early=[True])]
    made = station(Slots(diary), workers, shared(tmp_path))
    assert "queueing took too long" in str(made.turn([0, 1], 1.0).void)
    diary.clear()
    assert made.turn([0, 1], 1.0).void is None
    assert "run" not in diary


def test_a_kernel_that_waits_each_time_is_held_back_no_more(tmp_path: Path) -> None:
    diary: list[str] = []
    workers = [Worker(diary), Worker(diary, early=[True] * 9, name="waits")]
    made = station(Slots(diary), workers, shared(tmp_path))
    made.turn([0, 1], 1.0)
    assert "from now on" in str(made.turn([0, 1], 1.0).void)
    diary.clear()
    assert made.turn([0, 1], 1.0).void is None
    assert "queue" not in diary


def test_only_who_waits_is_held_back_no_more_and_who_is_timed_beside_it(tmp_path: Path) -> None:
    bench = shared(tmp_path)
    diary: list[str] = []
    workers = [Worker(diary), Worker(diary, early=[True] * 9, name="waits")]
    made = station(Slots(diary), workers, bench)
    for _ in range(3):
        made.turn([0, 1], 1.0)
    diary.clear()
    made.turn([0, 1], 1.0)
    assert "queue" not in diary
    others = station(Slots(diary), [Worker(diary), Worker(diary, name="other")], bench)
    others.turn([0, 1], 1.0)
    assert diary.count("queue") == 2


def test_a_launch_queue_that_is_full_gets_fewer_calls(tmp_path: Path) -> None:
    bench = shared(tmp_path)
    for _ in range(2):  # fresh processes, and what was learned before
        workers = [Worker([], room=100), Worker([], room=100, name="other")]
        made = station(Slots([]), workers, bench, LONG_PLAN)
        turns = [made.turn([0, 1], 1.0) for _ in range(4)]
    assert bench.holding.waiting == set()
    assert all(turn.void is None for turn in turns)
    assert [len(worker.timed[-1]) for worker in workers] == [100, 100]
    assert all(segment.times_s == (1e-9 / 100,) for segment in turns[-1].segments)


def test_who_starts_early_with_few_calls_waits_for_the_device(tmp_path: Path) -> None:
    bench = shared(tmp_path)
    workers = [Worker([]), Worker([], room=0, name="waits")]
    made = station(Slots([]), workers, bench, LONG_PLAN)
    void = [made.turn([0, 1], 1.0).void is not None for _ in range(7)]
    assert bench.holding.waiting == {("N=8", "waits")}
    assert void == [True] * 5 + [False] * 2
    others = [Worker([]), Worker([], name="other")]
    station(Slots([]), others, bench, LONG_PLAN).turn([0, 1], 1.0)
    assert [len(worker.timed[-1]) for worker in others] == [LONG_PLAN.calls] * 2


@pytest.mark.parametrize(("elapsed_s", "outcome"), [(1.04e-3, "void"), (1.11e-3, "forged")])
def test_more_time_than_passed_is_no_time(
    elapsed_s: float, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may say which pairs are void may leave out those that it lost."""
    claimed = GpuSegment(elapsed_s=elapsed_s, wall_s=1e-3)
    workers = [Worker([]), Worker([], name="other")]
    made = station(Slots([]), workers, shared(tmp_path))
    made.turn([0, 1], 1.0)
    monkeypatch.setattr(workers[1], "run_queued", lambda deadline_s: claimed)
    if outcome == "void":
        assert "the events say 1.040 ms" in str(made.turn([0, 1], 1.0).void)
        return
    with pytest.raises(SideDiedError) as caught:
        made.turn([0, 1], 1.0)
    assert (caught.value.side, caught.value.outcome.reason) == (1, "clock_forged")


def test_events_void_nothing_where_they_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for afterwards: whoever saw that it was slow would have the pair void."""
    slots = Slots([])
    slots.took_s = 1e-3
    worker = latched([])
    claimed = GpuSegment(elapsed_s=1.04e-3, wall_s=1e-3)
    monkeypatch.setattr(worker, "run_queued", lambda deadline_s: claimed)
    assert station(slots, [worker], shared(tmp_path), CLOCK_PLAN).turn([0], 1.0).void is None


def test_a_segment_that_started_early_is_not_looked_at(tmp_path: Path) -> None:
    """Nothing was chosen to be looked at: its calls ran beside other inputs."""
    diary: list[str] = []
    workers = [Worker(diary), Worker(diary, early=[True])]
    turn = station(Slots(diary), workers, shared(tmp_path), CLOCK_PLAN).turn([0, 1], 1.0)
    assert turn.void is not None
    assert diary[diary.index("go", diary.index("scrub")) + 1] == "stop"
    assert diary.count("look") == diary.count("fill and watch") == 2


def examined(tmp_path: Path, failures: Sequence[Failure | None]) -> tuple[Finding, Shared]:
    """What examining one kernel comes to, whose outputs are right or wrong in turn."""
    slots, bench = Slots([]), shared(tmp_path)
    slots.failures = list(failures)
    made = station(slots, [Worker([])], bench)
    made.turn([0], 1.0)
    return made.examine(), bench


def test_a_stream_of_its_own_is_no_fault(tmp_path: Path) -> None:
    """What starts whatever is held back is right if nothing is, and wrong whenever something is."""
    found, bench = examined(tmp_path, [WRONG, None, WRONG])
    assert found.failure is None
    assert bench.holding.waiting == {("N=8", "one")}


def test_chance_is_a_fault(tmp_path: Path) -> None:
    found, bench = examined(tmp_path, [WRONG, None, None])
    assert found.failure == WRONG
    assert bench.holding.waiting == set()


def test_who_is_wrong_either_way_is_wrong_for_the_reason_that_was_looked_for(
    tmp_path: Path,
) -> None:
    """The second time; the first time one only wants to know whether it is wrong."""
    other = Incorrect(reason="error_budget", detail="off")
    found, bench = examined(tmp_path, [WRONG, other])
    assert found.failure == other
    assert bench.holding.waiting == set()


def waiting(slots: Slots, diary: list[str], bench: Shared) -> GpuStation:
    """One kernel that waits for the device itself, after a turn."""
    bench.holding.waiting.add(("N=8", "one"))
    made = station(slots, [Worker(diary)], bench)
    made.turn([0], 1.0)
    diary.clear()
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is taken for no time at all."""
    monkeypatch.setattr(station_module, "OCCUPIED_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_whether_a_kernel_is_waited_for_is_looked_at_once(tmp_path: Path) -> None:
    """Only of those that aren't held back: the end of those that are is on the stream that is."""
    diary: list[str] = []
    bench = shared(tmp_path)
    made = waiting(Slots(diary), diary, bench)
    assert made.examine().failure is None
    assert diary == [
        "verify", "discard", "stop", "fill and watch", "occupy", "run", "look", "stop",
        "what was seen",
    ]  # fmt: skip
    diary.clear()
    for _ in range(2):  # in other processes, too
        made.turn([0], 1.0)
        made.examine()
        made = waiting(Slots(diary), diary, bench)
    held = station(Slots(diary), [Worker(diary, name="held")], shared(tmp_path))
    held.turn([0], 1.0)
    held.examine()
    assert "occupy" not in diary


def test_a_device_that_was_not_taken_is_tried_a_few_times(tmp_path: Path) -> None:
    """Its worker answers at once, and changes nothing later: nothing is known."""
    diary: list[str] = []
    made = waiting(Slots(diary), diary, shared(tmp_path))
    for _ in range(MOST_LOOKS + 2):
        made.turn([0], 1.0)
        assert made.examine().failure is None
    assert diary.count("occupy") == MOST_LOOKS


@pytest.mark.usefixtures("at_once")
def test_who_writes_after_its_word_wrote_outside_the_window(tmp_path: Path) -> None:
    slots = Slots([])
    slots.changes = True
    made = waiting(slots, [], shared(tmp_path))
    for _ in range(2):  # and whoever was seen to is looked at again
        made.turn([0], 1.0)
        failure = made.examine().failure
        assert failure.reason == "work_outside_window"


@pytest.mark.usefixtures("at_once")
def test_who_is_wrong_is_wrong_whenever_it_writes(tmp_path: Path) -> None:
    slots = Slots(diary := [])
    made = waiting(slots, diary, shared(tmp_path))
    slots.failures = [WRONG]
    assert made.examine().failure == WRONG
    assert "occupy" not in diary


@pytest.mark.usefixtures("at_once")
def test_a_stream_of_its_own_that_nobody_waits_for_is_seen(tmp_path: Path) -> None:
    slots, bench = Slots([]), shared(tmp_path)
    slots.failures, slots.changes = [WRONG, None, WRONG], True
    made = station(slots, [Worker([])], bench)
    made.turn([0], 1.0)
    failure = made.examine().failure
    assert failure.reason == "work_outside_window"
