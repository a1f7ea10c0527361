"""The order of what a GPU worker asks of its driver, over a driver that only takes notes."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from roofsmith.judge.gpu import worker
from roofsmith.judge.gpu.driver import DeviceError
from roofsmith.judge.gpu.launch_gate import Latch, new_latch
from roofsmith.judge.gpu.worker import GpuWorker


class Notes:
    """Stands in for driver, plug and kernel; every call is a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.begun = False
        self.events = 0
        self.broken = False
        self.defers = True

    is_shared = True

    def plug(self, latch: Latch) -> Notes:
        latch.release(0)  # it is mapped
        return self

    def hold(self, turn: int) -> None:
        self.lines.append(f"hold {turn}")

    def tell(self) -> None:
        self.lines.append("tell")

    def release(self) -> None:
        self.lines.append("release")

    def event(self) -> ctypes.c_void_p:
        self.events += 1
        return ctypes.c_void_p(self.events)

    def record(self, event: ctypes.c_void_p) -> None:
        self.lines.append(f"record {event.value}")

    def is_done(self, event: ctypes.c_void_p) -> bool:
        return self.begun

    def wait_for(self, event: ctypes.c_void_p) -> None:
        self.lines.append(f"wait for {event.value}")
        if self.broken:
            raise DeviceError("cuEventSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")

    def wait(self) -> None:
        self.lines.append("wait")

    def name_of(self, code: int) -> str:
        return f"CUDA_ERROR_{code}"

    def elapsed_s(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        assert (begin.value, end.value) == (1, 2)
        return 3e-3

    def defer_waits(self, defer: bool) -> None:
        self.defers = defer

    def refused(self) -> str | None:
        return "cudaErrorInvalidValue"

    def take(self, handle: bytes) -> int:
        return 0

    @contextmanager
    def profiled(self) -> Iterator[None]:
        self.lines.append("profile")
        yield
        self.lines.append("profiled")

    def bind(self, base: int, layout: dict[str, Any], slot: int) -> worker.Call:
        return lambda: self.lines.append(f"call {slot}")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    made = Notes()
    monkeypatch.setattr(worker, "Driver", lambda api: made)
    monkeypatch.setattr(worker, "LibraryKernel", lambda message: made)
    return made


@pytest.fixture
def ready(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> GpuWorker:
    """With a kernel, and an arena of four slots; patient, however busy this machine is."""
    monkeypatch.setattr(worker, "PLUG_PATIENCE_S", 600.0)
    made = GpuWorker()
    latch = new_latch()
    assert made.load({"api": "cuda", "form": "library"}, [latch]) == {"shared": True}
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(latch)  # the candidate, which is loaded next, finds none
    made.attach({"arena": 0, "handle": "", "slots": 4, "layout": {}})
    return made


SEGMENT = {"arena": 0, "warm": [3, 3], "slots": [2, 0, 1], "turn": 5}
AT_ONCE = {**SEGMENT, "profile": False, "defer": True}
DONE = {"elapsed_ns": 3_000_000, "refused": "cudaErrorInvalidValue"}
QUEUED = ["call 3", "call 3", "record 1", "call 2", "call 0", "call 1", "record 2"]


def test_nothing_runs_before_it_is_let_go(ready: GpuWorker, notes: Notes) -> None:
    assert ready.queue(SEGMENT) == {"early": False}
    assert notes.lines == ["hold 5", *QUEUED, "tell"]
    notes.lines.clear()
    assert ready.finish({}) == DONE
    assert notes.lines == ["release", "wait for 2"]


def test_without_a_plug_it_runs_at_once(ready: GpuWorker, notes: Notes) -> None:
    assert ready.run(AT_ONCE) == DONE
    assert notes.lines == [*QUEUED, "wait for 2"]


def test_all_of_the_device_is_waited_for_where_tools_look(ready: GpuWorker, notes: Notes) -> None:
    """Where only the event was waited for, memcheck and racecheck missed defects on an H200."""
    ready._owned[0] = worker.Owned(mmap.mmap(-1, 8), 0, 0)
    assert ready.run(AT_ONCE) == DONE
    assert notes.lines == [*QUEUED, "wait for 2", "wait"]


def test_a_profiler_sees_the_segment_and_its_end(ready: GpuWorker, notes: Notes) -> None:
    ready.run({**AT_ONCE, "profile": True})
    assert notes.lines == ["profile", *QUEUED, "wait for 2", "profiled"]


def test_calls_that_did_not_wait_are_told(ready: GpuWorker, notes: Notes) -> None:
    notes.begun = True
    assert ready.queue(SEGMENT) == {"early": True}


def test_who_is_let_go_while_calls_are_queued_was_early(
    ready: GpuWorker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def release() -> None:
        notes.lines.append("release")
        released.set()

    def held_up(base: int, layout: dict[str, Any], slot: int) -> worker.Call:
        return lambda: released.wait(20.0)

    monkeypatch.setattr(worker, "PLUG_PATIENCE_S", 0.01)
    monkeypatch.setattr(notes, "release", release)
    monkeypatch.setattr(notes, "bind", held_up)
    ready.attach({"arena": 1, "handle": "", "slots": 4, "layout": {}})
    # the first event hasn't passed yet: discarded calls still run
    assert ready.queue({**SEGMENT, "arena": 1}) == {"early": True}
    assert "release" in notes.lines


def test_a_call_that_raises_lets_the_device_go(
    ready: GpuWorker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(base: int, layout: dict[str, Any], slot: int) -> worker.Call:
        return lambda: 1 / 0

    monkeypatch.setattr(notes, "bind", failing)
    ready.attach({"arena": 1, "handle": "", "slots": 4, "layout": {}})
    with pytest.raises(ZeroDivisionError):
        ready.queue({**SEGMENT, "arena": 1})
    assert notes.lines == ["hold 5", "release"]


def test_all_segments_share_two_events(ready: GpuWorker, notes: Notes) -> None:
    for _ in range(3):
        ready.queue(SEGMENT)
        ready.finish({})
    assert notes.events == 2


def test_nothing_works_before_a_kernel_is_there() -> None:
    empty = GpuWorker()
    for operation in (empty.run, empty.queue, empty.finish):
        with pytest.raises((ValueError, KeyError)):
            operation(AT_ONCE)


def test_what_was_refused_before_an_error_goes_with_it(ready: GpuWorker, notes: Notes) -> None:
    notes.broken = True
    with pytest.raises(DeviceError) as caught:
        ready.run(AT_ONCE)
    assert caught.value.refused == "cudaErrorInvalidValue"


class Occupant:
    """Stands in for the kernel that takes the device."""

    refuses = False

    def __init__(self, driver: Notes) -> None:
        self._notes = driver
        driver.lines.append("load it")

    def take(self, seconds: float) -> None:
        if self.refuses:
            raise DeviceError("cuLaunchKernel", 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        self._notes.lines.append(f"take {seconds}")


def test_the_device_is_taken_before_one_call_by_a_kernel_that_is_loaded_once(
    ready: GpuWorker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "Occupant", Occupant)
    taken = {"before": 1, "nanoseconds": 50_000_000}
    for first in (["load it"], []):
        notes.lines.clear()
        assert ready.run({**AT_ONCE, "taken": taken}) == DONE
        assert notes.lines == [
            *QUEUED[:4], *first, "take 0.05", *QUEUED[4:], "wait for 2",
        ]  # fmt: skip


def test_a_device_that_cannot_be_taken_is_nobodys_fault(
    ready: GpuWorker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "Occupant", Occupant)
    monkeypatch.setattr(Occupant, "refuses", True)
    assert ready.run({**AT_ONCE, "taken": {"before": 0, "nanoseconds": 1}}) == DONE
    assert notes.lines == [*QUEUED[:3], "load it", *QUEUED[3:], "wait for 2"]


def test_waits_are_put_off_behind_a_plug_and_where_they_should_be(
    ready: GpuWorker, notes: Notes
) -> None:
    ready.run({**AT_ONCE, "defer": False})
    assert not notes.defers
    ready.queue(SEGMENT)
    assert notes.defers
    ready.run(AT_ONCE)
    assert notes.defers


class OutOfMemoryError(RuntimeError):
    """Torch's, by name."""


class AcceleratorError(RuntimeError):
    """Torch's, by what it has."""

    error_code = 700


def test_errors_of_the_device_in_exceptions_of_python(ready: GpuWorker) -> None:
    assert ready.cause(OutOfMemoryError()) == {"device": "CUDA_ERROR_OUT_OF_MEMORY"}
    assert ready.cause(AcceleratorError()) == {"device": "CUDA_ERROR_700"}
    assert ready.cause(ValueError()) == {}
