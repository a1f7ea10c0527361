"""A real GPU in the fleet: idle, taken by another process, idle again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from gpu_bench import environment_or_skip

from roofsmith.analysis.idle import busy_reasons, idlest
from roofsmith.devices.fleet import HostFleet
from roofsmith.devices.fleet_nvidia_smi import NvidiaSmiFleet
from roofsmith.devices.fleet_nvml import NvmlFleet
from roofsmith.devices.fleet_visible import pinned_environment
from roofsmith.devices.nvidia import NvidiaSource
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.ports import FleetSource

pytestmark = pytest.mark.device

POLICY = GatePolicy()
GIB = 1 << 30
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


def window(source: FleetSource, uuid: str) -> list[GpuStatus]:
    """As long and as close as the gate watches."""
    found = []
    for look in range(POLICY.samples):
        if look:
            time.sleep(POLICY.window_s / (POLICY.samples - 1))
        found += [status for status in source.gpus() if status.uuid == uuid]
    return found


def until(
    source: FleetSource, uuid: str, wanted: Callable[[tuple[str, ...]], bool]
) -> list[GpuStatus]:
    """Watch until the reasons are as wanted, or for long enough; the last window."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        readings = window(source, uuid)
        if wanted(busy_reasons(readings, POLICY, ())) or time.monotonic() > give_up_s:
            return readings


@pytest.mark.parametrize("make", [NvmlFleet, NvidiaSmiFleet], ids=["NVML", "nvidia-smi"])
def test_a_gpu_is_idle_then_busy_then_idle_again(make: Callable[[], FleetSource]) -> None:
    environment_or_skip()
    source, uuid = make(), NvidiaSource().uuid()
    idle = until(source, uuid, lambda reasons: not reasons)
    print("idle:", idle[-1].model_dump_json())
    assert busy_reasons(idle, POLICY, ()) == ()
    assert idlest({uuid: idle}, POLICY, ()) == uuid
    with occupied() as pid:
        busy = until(source, uuid, lambda reasons: any(f"pid {pid}" in said for said in reasons))
        print("busy:", busy_reasons(busy, POLICY, ()))
        (process,) = [one for one in busy[-1].processes if one.pid == pid]
        assert process.memory_bytes is not None
        assert process.memory_bytes >= GIB
        assert process.name is not None
        assert "python" in process.name
        assert any(f"pid {pid}" in said for said in busy_reasons(busy, POLICY, ()))
        assert idlest({uuid: busy}, POLICY, ()) is None
        # Were it ours, its memory would not count, but its work would.
        assert not any(f"pid {pid}" in said for said in busy_reasons(busy, POLICY, {pid}))
        assert not any("no process" in said for said in busy_reasons(busy, POLICY, {pid}))
        assert any("utilisation" in said for said in busy_reasons(busy, POLICY, {pid}))
    after = until(source, uuid, lambda reasons: not reasons)
    assert busy_reasons(after, POLICY, ()) == ()


def test_the_fleet_has_the_gpu_that_cuda_sees_and_can_pin_it() -> None:
    environment_or_skip()
    uuid = NvidiaSource().uuid()
    gpus = {status.uuid: status for status in HostFleet("nvidia").gpus()}
    assert uuid in gpus
    for status in gpus.values():
        pinned = pinned_environment(status)
        seen = subprocess.run(
            [sys.executable, "-m", "roofsmith.devices.cuda_probe"],
            env={**os.environ, **pinned}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        print(pinned, seen)
        assert '"devices": 1' in seen
        assert status.parent_uuid or status.uuid in seen
        assert HostFleet("nvidia", pinned).gpus()[0].uuid == status.uuid


def test_nvml_and_nvidia_smi_agree_on_the_fleet() -> None:
    environment_or_skip()
    managed, printed = NvmlFleet().gpus(), NvidiaSmiFleet().gpus()
    for one, other in zip(managed, printed, strict=True):
        assert one.uuid == other.uuid
        assert (one.index, one.parent_uuid) == (other.index, other.parent_uuid)
        assert (one.name, one.compute_mode) == (other.name, other.compute_mode)
        assert (one.unread, other.unread) == ((), ())
        assert one.memory_total_bytes is not None
        assert other.memory_total_bytes is not None
        assert abs(one.memory_total_bytes - other.memory_total_bytes) < 2 << 20
