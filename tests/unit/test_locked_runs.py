from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from simulated_drivers import SimulatedNvml
from simulated_fleet import fake_uuid, idle_gpu
from simulated_host import host
from test_doctor_gpu import ROCMINFO
from test_nvidia_source import UUID, source

from roofsmith.api import hardware
from roofsmith.api.clocks import (
    LOOK_AGAIN_S,
    ClockedGpu,
    clock_notes,
    clocked,
    let_go_of_abandoned,
    noting_locks,
)
from roofsmith.api.hardware import locked_clocks
from roofsmith.api.places import GpuPlace
from roofsmith.api.system_clock import SystemClock
from roofsmith.api.wiring import try_clocks
from roofsmith.config import Settings
from roofsmith.domain.clocks import ClockClaim, ClockSettings
from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError, NoIdleGpuError, UsageError
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.clocks import held_clocks, recorded, slot_of, this_process
from roofsmith.machine.clocks_nvidia import NvmlClocks
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.gate import GpuGate
from roofsmith.ports import DeviceSource
from roofsmith.testing.observer import SilentObserver


class Fleet:
    """Shows one state of the GPU after the other, the last one for ever."""

    def __init__(self, *states: GpuStatus) -> None:
        self._states = list(states)

    def __call__(self) -> tuple[GpuStatus, ...]:
        if not self._states:
            return ()
        return (self._states.pop(0) if len(self._states) > 1 else self._states[0],)


def seen(*pids: int, **more: Any) -> GpuStatus:
    processes = tuple(GpuProcess(pid=pid, name="train.py", user="alice") for pid in pids)
    return idle_gpu().model_copy(update={"uuid": UUID, "processes": processes, **more})


class Bench:
    """A GPU whose clocks can be held, on a machine without one."""

    def __init__(self, folder: Path, *states: GpuStatus) -> None:
        self.nvml = SimulatedNvml(folder / "driver.json", uuids=(UUID,))
        self.driver = NvmlClocks(self.nvml, may_administer=lambda: True)
        self.slept: list[float] = []
        self.gpu = ClockedGpu(UUID, self.driver, Fleet(*(states or (seen(),))), self.slept.append)
        self.settings = Settings(folder / "cache", folder / "campaigns", lock_clocks=True)
        nothing = cast("Any", None)
        self.gate = GpuGate(host(idle_gpu()).parts(), fake_uuid(0))
        self.machine = GpuPlace(
            clock=SystemClock(), devices=source(), specs=nothing, toolchain=nothing, runner=nothing,
            isolation=nothing, compiled_dir=folder, gpu=nothing, gate=self.gate,
        )  # fmt: skip

    def find(self, devices: DeviceSource) -> ClockedGpu:
        return self.gpu

    @property
    def locked(self) -> bool:
        return bool(self.nvml.gpu(UUID)["sm"] != [0, 0])


def test_what_a_locked_run_measures_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with bench.gate.leased():
        machine = locked_clocks(bench.machine, bench.settings, bench.find)
        assert bench.locked
        notes = machine.devices.environment().notes
        assert any(
            note.startswith("clocks locked for this run: SM clock locked at its base clock")
            and "1590 MHz" in note
            for note in notes
        )
        assert clock_notes(machine.devices) == notes[-1:]
    assert not bench.locked
    with bench.gate.leased():
        assert bench.locked
    assert not bench.locked
    assert clock_notes(bench.machine.devices) == ()
    assert not any("locked" in note for note in bench.machine.devices.environment().notes)


def test_ceilings_of_held_clocks_are_kept_apart(tmp_path: Path) -> None:
    free = Settings(tmp_path, tmp_path)
    held = Settings(tmp_path, tmp_path, lock_clocks=True)
    assert held.ceilings_dir.parent == free.ceilings_dir


def test_nothing_is_locked_unasked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    settings = Settings(tmp_path / "cache", tmp_path / "campaigns")
    with bench.gate.leased():
        assert locked_clocks(bench.machine, settings, bench.find) is bench.machine
        assert not bench.locked
    assert not settings.clocks_dir.exists()


def test_a_gpu_with_other_processes_is_not_touched(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seen(os.getppid()))
    with (
        pytest.raises(MachineError, match=f"pid {os.getppid()} \\(alice\\): train.py"),
        bench.gate.leased(),
    ):
        locked_clocks(bench.machine, bench.settings, bench.find)
    assert not bench.locked
    assert recorded(bench.settings.clocks_dir) == ()


@pytest.mark.parametrize(
    "state", [seen(unread=("processes",)), seen(2**22 + 1), None], ids=["mute", "elsewhere", "gone"]
)
def test_who_cannot_be_seen_counts_as_somebody(state: GpuStatus | None, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    gpu = ClockedGpu(UUID, bench.driver, Fleet(*filter(None, (state,))), lambda _: None)
    assert gpu.strangers(UUID)


def test_processes_of_this_run_and_those_that_are_just_gone_are_no_strangers(
    tmp_path: Path,
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        bench = Bench(tmp_path, seen(os.getpid(), child.pid))
        assert bench.gpu.strangers(UUID) == ()
        assert bench.slept == []
    finally:
        child.communicate(b"\n")
    bench = Bench(tmp_path, seen(child.pid), seen())
    assert bench.gpu.strangers(UUID) == ()
    assert bench.slept == [LOOK_AGAIN_S]


def test_the_next_start_lets_go_of_what_a_killed_run_left(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path)
    lock = (
        "import os, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_locked_runs import Bench, locked_clocks\n"
        f"bench = Bench(Path({str(tmp_path)!r}))\n"
        "with bench.gate.leased():\n"
        "    locked_clocks(bench.machine, bench.settings, bench.find)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", lock], check=False).returncode == -9
    assert bench.locked
    assert let_go_of_abandoned(bench.settings, bench.driver) == set()
    assert noting_locks(bench.machine.devices, set(), bench.find) is bench.machine.devices
    assert not bench.locked
    assert "left locked" in capfd.readouterr().err
    let_go_of_abandoned(bench.settings, bench.driver)
    assert capfd.readouterr().err == ""


def test_a_run_beside_one_that_holds_clocks_records_that(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with held_clocks(
        bench.driver, UUID, bench.settings.clocks_dir,
        strangers=lambda _: (), tell=print,
    ):  # fmt: skip
        locked = let_go_of_abandoned(bench.settings, bench.driver)
        devices = noting_locks(bench.machine.devices, locked, bench.find)
        assert any("another run" in n for n in devices.environment().notes)
        assert bench.locked
    others = noting_locks(bench.machine.devices, {"GPU-another"}, bench.find)
    assert others is bench.machine.devices


def test_what_a_killed_run_left_on_another_gpu_is_let_go_of_before_any_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the command gets no GPU at all in the end."""
    bench = Bench(tmp_path)
    bench.nvml.set(UUID, sm=[1590, 1590])
    gone = this_process().model_copy(update={"pid": 2**22 + 1})
    with slot_of(bench.settings.clocks_dir, UUID) as slot:
        slot.write(ClockClaim(uuid=UUID, before=ClockSettings(), owner=gone))
    monkeypatch.setattr(hardware, "let_go_of_abandoned", partial(
        let_go_of_abandoned, driver=bench.driver
    ))  # fmt: skip
    elsewhere = tmp_path / "elsewhere"

    @contextmanager
    def nobody_is_idle(*_: object) -> Iterator[NoReturn]:
        assert not bench.locked
        raise NoIdleGpuError("no GPU was idle")
        yield

    monkeypatch.setattr(hardware, "leased_gpu", nobody_is_idle)
    settings = replace(bench.settings, lock_clocks=False, lease_dir=elsewhere)
    with (
        pytest.raises(NoIdleGpuError),
        hardware.leased_machine(settings, "cuda", SilentObserver()),
    ):
        pass
    assert recorded(settings.clocks_dir) == ()


def test_processors_have_no_clocks_of_ours(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "campaigns", lock_clocks=True)
    assert clocked(CpuSource()) is None
    bench = Bench(tmp_path)
    with pytest.raises(UsageError, match="runs on the host's processors"):
        locked_clocks(bench.machine, bench.settings, lambda _: None)
    with pytest.raises(UsageError, match="runs on the host's processors"):
        try_clocks({"c", "cpp"}, settings, SilentObserver())


def test_an_amd_gpu_is_known_by_what_rocminfo_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    devices = AmdSource(ask_rocminfo=lambda: ROCMINFO)
    assert devices.uuid() == "GPU-0000000000000001"
    assert clocked(devices) is None, "its clocks aren't held"
