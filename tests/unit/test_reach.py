"""Reaching into a stopped process's memory, and telling whether it stood still."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from roofsmith.judge.sandbox.enclosure import is_stopped
from roofsmith.judge.sandbox.isolation import probe
from roofsmith.judge.sandbox.process_memory import REACH, beside, read_memory, write_memory
from roofsmith.judge.timing.processor_time import Spent, await_stillness, ran_s, spent, waited_s

HOLDER = """
import ctypes, sys
held = ctypes.create_string_buffer(b"theirs", 4096)
print(ctypes.addressof(held), flush=True)
while sys.stdin.readline():
    print(held.value.decode(), flush=True)
"""

needs_reach = pytest.mark.skipif(
    probe()[REACH] is not None, reason=f"no memory access here: {probe()[REACH]}"
)


class Holder:
    """A process with some memory."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLDER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.at = int(self._line())

    def stop(self) -> None:
        """From when on the scheduler has counted all the time that it ran."""
        os.kill(self.process.pid, signal.SIGSTOP)
        while not is_stopped(self.process.pid):
            os.sched_yield()
        await_stillness(self.process.pid, time.monotonic() + 60.0)

    def holds(self) -> str:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        return self.process.stdout.readline().strip()


@pytest.fixture
def holder() -> Iterator[Holder]:
    made = Holder()
    with made.process:
        yield made
        made.process.kill()


@needs_reach
def test_memory_of_a_stopped_process(holder: Holder) -> None:
    pid = holder.process.pid
    holder.stop()
    ours = ctypes.create_string_buffer(b"ours", 4096)
    read_memory(pid, holder.at, ctypes.addressof(ours), 7)
    assert ours.value == b"theirs"
    ours.value = b"written"
    with beside(pid):
        write_memory(pid, holder.at, ctypes.addressof(ours), 4096)
    os.kill(pid, signal.SIGCONT)
    assert holder.holds() == "written"


@needs_reach
def test_memory_that_is_not_there(holder: Holder) -> None:
    ours = ctypes.create_string_buffer(16)
    with pytest.raises(OSError, match="Bad address"):
        read_memory(holder.process.pid, 4096, ctypes.addressof(ours), 16)


def test_affinity_is_restored(holder: Holder) -> None:
    before = os.sched_getaffinity(0)
    with beside(holder.process.pid):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_processor_time_is_that_of_the_process() -> None:
    begin, until = ran_s(os.getpid()), time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert ran_s(os.getpid()) - begin >= 0.02
    assert waited_s(os.getpid()) >= 0


def test_a_process_that_is_gone_has_no_times() -> None:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    process.wait()
    assert ran_s(process.pid) == waited_s(process.pid) == 0


def test_work_is_neither_longer_than_the_time_nor_than_the_threads_ran(holder: Holder) -> None:
    holder.stop()
    begin, own = spent(holder.process.pid), spent(os.getpid())
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert begin.worked_s() == 0
    worked_s = own.worked_s()
    assert 0.02 <= worked_s <= time.perf_counter() - own.wall_s


def test_what_stood_still(holder: Holder) -> None:
    pid = holder.process.pid
    holder.stop()
    assert Spent(pid, 0, ran_s(pid)).stirred() is None
    stirred = Spent(pid, 0, ran_s(pid) - 0.012).stirred()
    assert stirred.reason == "ran_out_of_turn"
    assert "12.0 ms" in stirred.detail


def test_no_more_than_its_processors(holder: Holder) -> None:
    pid, now_s = holder.process.pid, time.perf_counter()
    assert Spent(pid, now_s - 10, ran_s(pid) - 19).beyond_processors(2) is None
    taken = Spent(pid, now_s - 10, ran_s(pid) - 19).beyond_processors(1)
    assert taken.reason == "extra_processors"
    assert "on 1 processor" in taken.detail


def test_all_threads_must_be_stopped(holder: Holder) -> None:
    pid = holder.process.pid
    assert not is_stopped(pid)
    holder.stop()
    os.kill(pid, signal.SIGKILL)
    holder.process.wait()
    assert is_stopped(pid)
