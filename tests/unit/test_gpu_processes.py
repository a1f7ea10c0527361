"""GPU workers and the fork server, as far as a machine without a GPU can tell."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from driver_here import has_driver
from tool_stand_ins import built_file

from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.channel import Channel
from roofsmith.judge.gpu.driver import DeviceError, Driver
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.launch_gate import RELEASED, Latch, mapped, new_latch
from roofsmith.judge.gpu.layout import ALIGNMENT_BYTES, BFLOAT16, GUARD_BYTES, kernel_dtype, lay_out
from roofsmith.judge.gpu.process import STUCK_S, GpuWorkerProcess, server_environment
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.judge.host import process
from roofsmith.judge.host.arena import Layout
from roofsmith.judge.wire import receive, send
from roofsmith.ports import KernelDiedError

pytestmark = pytest.mark.slow

LONG_S = 60.0
"""For what takes milliseconds on a machine that has nothing else to do."""

without_gpu = pytest.mark.skipif(has_driver(), reason="this machine has a GPU")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Warm once for all whose workers alone end."""
    with ForkServer(server_environment()) as one:
        yield one


@without_gpu
def test_no_driver_is_said() -> None:
    with pytest.raises(DeviceError, match=r"libcuda\.so\.1 is not installed"):
        Driver("cuda")


@without_gpu
@needs_gcc
def test_a_worker_without_a_device_ends_with_a_reason(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("void solve(void) {}\n")
    library = tmp_path / "kernel.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    worker = GpuWorkerProcess(
        built_file(library, "cuda"), api="cuda", cache_dir=tmp_path / "cache", fork_server=None
    )
    with pytest.raises(KernelDiedError) as caught:
        worker.wait_until_loaded()
    worker.close()
    assert "libcuda" in caught.value.outcome.detail


@without_gpu
def test_modules_get_a_fork_and_a_cache_of_their_own(tmp_path: Path, server: ForkServer) -> None:
    module = tmp_path / "kernel.py"
    module.write_text("def run_kernel(**inputs): pass\n")
    worker = GpuWorkerProcess(
        built_file(module, "torch"), api="cuda", cache_dir=tmp_path / "cache", fork_server=server
    )
    with pytest.raises(KernelDiedError) as caught:
        worker.wait_until_loaded()
    worker.close()
    assert "libcuda" in caught.value.outcome.detail
    assert (tmp_path / "cache" / "c").is_dir()


def test_a_forked_worker_is_reaped(tmp_path: Path, server: ForkServer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = server.spawn(theirs, cwd=tmp_path, log=tmp_path / "log", environment={})
        assert worker.poll() is None
        ours.shutdown(socket.SHUT_RDWR)  # hangs up: a worker that hears nothing ends
        assert worker.wait(LONG_S) == 0


def test_a_killed_worker_says_which_signal(tmp_path: Path, server: ForkServer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = server.spawn(theirs, cwd=tmp_path, log=tmp_path / "log", environment={})
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.wait(LONG_S) == -signal.SIGKILL


def test_workers_end_with_their_server(tmp_path: Path) -> None:
    server = ForkServer(server_environment())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = server.spawn(theirs, cwd=tmp_path, log=tmp_path / "log", environment={})
        server.close()
        theirs.close()
        ours.settimeout(LONG_S)
        assert worker.pid > 0
        assert ours.recv(1) == b""


def test_arrays_lie_between_guards() -> None:
    arrays = (
        ArraySpec("x", "input", "float32", (3, 5)),
        ArraySpec("y", "output", "bfloat16", (7,)),
    )
    layout: Layout = lay_out(arrays)
    end = 0
    for array, offset in zip(layout.arrays, layout.offsets, strict=True):
        assert offset % ALIGNMENT_BYTES == 0
        assert offset - end >= GUARD_BYTES
        end = offset + array.size_bytes
    assert layout.slot_bytes - end >= GUARD_BYTES


def test_bfloat16_keeps_its_name_on_the_host() -> None:
    assert kernel_dtype(np.zeros(3, BFLOAT16).dtype) == "bfloat16"
    assert kernel_dtype(np.zeros(3, BFLOAT16).copy().dtype) == "bfloat16"
    assert kernel_dtype(np.zeros(3, np.uint16).dtype) == "uint16"


def has_ended(pid: int) -> bool:
    """Whether a process ends soon; a zombie that nobody asks about has."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def test_a_profiler_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    hanging = tmp_path / "ncu"
    hanging.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > '{started}'\nwait\n")
    hanging.chmod(0o755)
    runner = GpuRunner("cuda", tmp_path / "cache")
    library = tmp_path / "kernel.so"
    library.write_bytes(b"never loaded")
    for deadline_s in (1.0, 5.0, 25.0):  # a busy machine takes longer to start both
        monkeypatch.setattr(process, "LAUNCHED_DEADLINE_S", deadline_s)
        under = runner.open(built_file(library, "cuda"), {}, launcher=(str(hanging),))
        with pytest.raises(KernelDiedError) as caught, under:
            pass
        assert caught.value.outcome.kind == "timed_out"
        assert caught.value.outcome.reason == "worker_deadline"
        if started.exists() and started.read_text():
            break
    assert has_ended(int(started.read_text()))


@contextlib.contextmanager
def queueing(play: Callable[[socket.socket, Latch], None]) -> Iterator[GpuWorkerProcess]:
    """A worker whose process is a thread here: it plays what happens after calls are queued."""
    ours, theirs = socket.socketpair()
    worker = GpuWorkerProcess.__new__(GpuWorkerProcess)
    worker._channel, worker._latch, worker._turn = Channel(ours), new_latch(), 0
    worker.is_latched = True
    thread = threading.Thread(target=play, args=(theirs, mapped(worker._latch)))
    thread.start()
    try:
        yield worker
    finally:
        thread.join()
        worker._channel.close()
        theirs.close()
        os.close(worker._latch)


def let_go(latch: Latch, turn: int, patience_s: float) -> bool:
    """Whether calls that a turn holds back are let go before long."""
    released = ctypes.c_uint32.from_address(latch.address + RELEASED)
    until = time.monotonic() + patience_s
    while released.value < turn and time.monotonic() < until:
        time.sleep(0.001)
    return released.value >= turn


def test_calls_are_let_go_for_a_worker_that_can_do_nothing_itself() -> None:
    """An extension that waits for the device with Python's lock held stops every thread there."""
    seen = []

    def waits(theirs: socket.socket, latch: Latch) -> None:
        receive(theirs, LONG_S)
        seen.append(let_go(latch, 1, LONG_S))
        send(theirs, {"early": False})

    with queueing(waits) as worker:
        assert not worker.queue_slots(0, [0], warm=[], deadline_s=LONG_S)
    assert seen == [True]


def test_calls_that_are_queued_in_time_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofsmith.judge.gpu.process.STUCK_S", LONG_S)  # however busy it is here
    seen = []

    def answers(theirs: socket.socket, latch: Latch) -> None:
        receive(theirs, LONG_S)
        send(theirs, {"early": False})
        seen.append(let_go(latch, 1, 2 * STUCK_S))

    with queueing(answers) as worker:
        assert worker.queue_slots(0, [0], warm=[], deadline_s=LONG_S)
    assert seen == [False]
