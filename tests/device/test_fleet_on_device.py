"""A real GPU in the fleet: idle, taken by another process, idle again.

`pytest -m device -n0 -rsP tests/device/test_fleet_on_device.py` prints what was seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import pynvml
import pytest
from gpu_bench import environment_or_skip
from gpu_neighbours import (
    PATIENCE_S,
    POLICY,
    gpu,
    idle_or_skip,
    named_or_skip,
    occupied,
    place,
    portrait,
)

from roofsmith.domain.fleet import Fleet, GpuStatus
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.fleet_nvml import NvmlFleet
from roofsmith.machine.fleet_visible import pinned_environment
from roofsmith.machine.idle import busy_reasons, idlest
from roofsmith.machine.nvidia import NvidiaSource
from roofsmith.machine.nvml import NvmlHealth

pytestmark = pytest.mark.device

GIB = 1 << 30
LOOKS = 100


LISTED_S = 5.0
"""For a driver to list whom it shows at work already."""

Windows = list[GpuStatus]
"""Readings of one GPU."""


@dataclass(frozen=True)
class Story:
    """What NVML shows of a GPU that somebody takes and leaves."""

    pid: int
    """His."""
    idle: Windows
    busy: Windows
    named: Windows
    """With his number, where the driver lists it."""
    after: Windows


def window(fleet: Fleet, uuid: str) -> Windows:
    """As long and as close as the gate watches."""
    found: Windows = []
    for look in range(POLICY.samples):
        if look:
            time.sleep(POLICY.window_s / (POLICY.samples - 1))
        found += [status for status in fleet() if status.uuid == uuid]
    return found


def until(
    fleet: Fleet,
    uuid: str,
    wanted: Callable[[tuple[str, ...]], bool],
    patience_s: float = PATIENCE_S,
) -> Windows:
    """Watch until the reasons are as wanted, or for long enough; the last window."""
    give_up_s = time.monotonic() + patience_s
    while True:
        found = window(fleet, uuid)
        if wanted(busy_reasons(found, POLICY, ())) or time.monotonic() > give_up_s:
            return found


@pytest.fixture(scope="module")
def story() -> Story:
    environment_or_skip()
    idle_or_skip()
    fleet, uuid = NvmlFleet().gpus, NvidiaSource().uuid()
    idle = until(fleet, uuid, lambda reasons: not reasons)
    with occupied() as pid:
        busy = until(fleet, uuid, lambda reasons: any("utilisation" in said for said in reasons))

        def names_him(reasons: tuple[str, ...]) -> bool:
            return any(f"pid {pid}" in said for said in reasons)

        listed = names_him(busy_reasons(busy, POLICY, ()))
        named = busy if listed else until(fleet, uuid, names_him, LISTED_S)
    after = until(fleet, uuid, lambda reasons: not reasons)
    return Story(pid, idle, busy, named, after)


def test_a_gpu_is_idle_then_busy_then_idle_again(story: Story) -> None:
    """Also where the driver shows no process: its memory and work are seen."""
    idle, busy, after = story.idle, story.busy, story.after
    uuid = NvidiaSource().uuid()
    print("here:", place(), "\nidle:", portrait(idle[-1]))
    assert busy_reasons(idle, POLICY, ()) == ()
    assert idlest({uuid: idle}, POLICY, ()) == uuid
    print("taken by", story.pid, portrait(busy[-1]), busy_reasons(busy, POLICY, ()))
    assert any("utilisation" in said for said in busy_reasons(busy, POLICY, ()))
    assert (busy[-1].memory_used_bytes or 0) >= GIB
    assert idlest({uuid: busy}, POLICY, ()) is None
    assert busy_reasons(after, POLICY, ()) == ()


def test_who_is_on_a_gpu_is_named_and_his_memory_is_known(story: Story) -> None:
    named_or_skip()
    busy, pid = story.named, story.pid
    (process,) = [one for one in busy[-1].processes if one.pid == pid]
    assert process.memory_bytes is not None
    assert process.memory_bytes >= GIB
    assert process.name is not None
    assert "python" in process.name
    assert any(f"pid {pid}" in said for said in busy_reasons(busy, POLICY, ()))
    # Were it ours, its memory would not count, but its work would.
    assert not any(f"pid {pid}" in said for said in busy_reasons(busy, POLICY, {pid}))
    assert not any("no process" in said for said in busy_reasons(busy, POLICY, {pid}))
    assert any("utilisation" in said for said in busy_reasons(busy, POLICY, {pid}))


def test_the_sensors_list_whom_the_fleet_lists_and_what_a_look_costs_is_printed() -> None:
    environment_or_skip()
    uuid, health, fleet = NvidiaSource().uuid(), NvmlHealth(), HostFleet("nvidia")
    with occupied():
        time.sleep(1.0)
        sensed, listed = health.sample(uuid), gpu()
        assert sensed is not None
        print("sensors:", sensed.model_dump_json(), "\nfleet:", portrait(listed))
        assert set(sensed.processes) <= {process.pid for process in listed.processes}
        looks: dict[str, Callable[[], object]] = {
            "sensors": lambda: health.sample(uuid),
            "fleet": fleet.gpus,
        }
        for name, look in looks.items():
            print(name, _costs(look))


def test_what_nvml_answers_is_printed_question_by_question() -> None:
    """One that it refuses here is a reading that the gate lacks."""
    environment_or_skip()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(NvidiaSource().uuid())
    questions: dict[str, tuple[object, ...]] = {
        "nvmlDeviceGetComputeRunningProcesses": (),
        "nvmlDeviceGetGraphicsRunningProcesses": (),
        "nvmlDeviceGetMPSComputeRunningProcesses": (),
        "nvmlDeviceGetMemoryInfo": (pynvml.nvmlMemory_v2,),
        "nvmlDeviceGetUtilizationRates": (),
        "nvmlDeviceGetTemperature": (pynvml.NVML_TEMPERATURE_GPU,),
        "nvmlDeviceGetCurrentClocksThrottleReasons": (),
        "nvmlDeviceGetComputeMode": (),
        "nvmlDeviceGetMigMode": (),
        "nvmlDeviceGetPersistenceMode": (),
        "nvmlDeviceGetArchitecture": (),
    }
    refused = []
    with occupied() as pid:
        print("occupied by", pid, "from", place())
        time.sleep(1.0)
        for question, more in questions.items():
            try:
                print(question, str(getattr(pynvml, question)(handle, *more)).replace("\n", " "))
            except pynvml.NVMLError as error:
                refused.append(f"{question}: {error}")
    pynvml.nvmlShutdown()
    print("refused:", refused)
    decisive = ("ComputeRunning", "MemoryInfo", "Utilization", "Temperature", "Throttle")
    assert not [one for one in refused if any(word in one for word in decisive)
                and "MPS" not in one]  # fmt: skip


def _costs(look: Callable[[], object]) -> str:
    spent_s = []
    for _ in range(LOOKS):
        began_s = time.perf_counter()
        look()
        spent_s.append(time.perf_counter() - began_s)
    spent_s.sort()
    middle_s, slowest_s = spent_s[LOOKS // 2], spent_s[-1]
    return f"{middle_s * 1e3:.2f} ms (median), {slowest_s * 1e3:.2f} ms (slowest of {LOOKS})"


def test_the_fleet_has_the_gpu_that_cuda_sees_and_can_pin_it() -> None:
    environment_or_skip()
    uuid = NvidiaSource().uuid()
    gpus = {status.uuid: status for status in HostFleet("nvidia").gpus()}
    assert uuid in gpus
    for status in gpus.values():
        pinned = pinned_environment(status)
        seen = subprocess.run(
            [sys.executable, "-m", "roofsmith.machine.cuda_probe"],
            env={**os.environ, **pinned}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        print(pinned, seen)
        assert '"devices": 1' in seen
        assert status.parent_uuid or status.uuid in seen
        assert HostFleet("nvidia", pinned).gpus()[0].uuid == status.uuid
