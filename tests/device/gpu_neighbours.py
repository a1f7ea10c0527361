"""Somebody else on a real GPU, and what its driver shows of him from where the tests run."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.idle import busy_reasons, described
from roofsmith.machine.processes import OwnProcesses, exists, nobody, pid_namespace

POLICY = GatePolicy()
PATIENCE_S = 60.0
"""For a driver to show that a process came or went."""
OCCUPANT = """
import ctypes, sys
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
def do(call, *arguments):
    if code := getattr(cuda, call)(*arguments):
        sys.exit(f"{call}: {code}")
do("cuInit", 0)
do("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
do("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 30))
print("ready", flush=True)
while True:
    for value in range(100):
        do("cuMemsetD32_v2", memory, value, ctypes.c_size_t(1 << 28))
    do("cuCtxSynchronize")
"""


@contextmanager
def occupied() -> Iterator[int]:
    """Another process holds 1 GiB of the GPU and keeps writing to it; its number."""
    with subprocess.Popen(
        [sys.executable, "-c", OCCUPANT], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def gpu() -> GpuStatus:
    """The first GPU that may be used, now."""
    return HostFleet("nvidia").gpus()[0]


def idle_or_skip() -> None:
    """Wait until nobody is on the GPU; the test is skipped where somebody stays."""
    give_up_s = time.monotonic() + PATIENCE_S
    one_look = POLICY.model_copy(update={"samples": 1})
    while reasons := busy_reasons([gpu()], one_look, ()):
        if time.monotonic() > give_up_s:
            pytest.skip(f"somebody is on the GPU beside these tests: {'; '.join(reasons)}")
        time.sleep(1.0)


def named_or_skip() -> None:
    """The test is skipped where the driver doesn't list processes by the numbers of this place."""
    if (why := _unnamed()) is not None:
        pytest.skip(why)


@functools.cache
def _unnamed() -> str | None:
    """What the driver lists instead of a process that is on the GPU; None if it lists that one."""
    with occupied() as pid:
        give_up_s = time.monotonic() + 5.0
        while pid not in (listed := {process.pid for process in gpu().processes}):
            if time.monotonic() > give_up_s:
                return f"of process {pid} the driver shows {sorted(listed) or 'nothing'} here"
            time.sleep(0.2)
    return None


def place() -> str:
    """Whose numbers are known here: of the container, and of those around it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    numbers = next((line for line in status.splitlines() if line.startswith("NSpid")), "no NSpid")
    return (
        f"pid {os.getpid()}, namespace {pid_namespace()}, {' '.join(numbers.split())},"
        f" user {os.geteuid()}, first process {Path('/proc/1/comm').read_text().strip()}"
    )


def portrait(status: GpuStatus) -> str:
    """A reading, and what the gate knows of each process in it, a line each."""
    used, total = status.memory_used_bytes or 0, status.memory_total_bytes or 0
    lines = [
        f"{status.name}: {used >> 20} of {total >> 20} MiB, utilisation {status.utilisation},"
        f" {status.temperature_c} °C, {status.throttle_reasons}, unread {status.unread}"
    ]
    for process in status.processes:
        pid = process.pid
        known = {
            "exists": exists(pid),
            "nobody": bool(nobody([pid])),
            "of these tests": bool(OwnProcesses().among([pid])),
        }
        lines.append(f"  {described(process)} {known}")
    return "\n".join(lines)
