from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from simulated_machine import recorded_settings

from roofsmith.domain.health import Health
from roofsmith.errors import MachineError
from roofsmith.machine import cuda_probe, gpu_tools
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.choice import source_for
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.nvidia import NvidiaSource, asked_once, setting_notes
from roofsmith.machine.nvml import GpuSettings, NvmlHealth, throttle_reasons

UUID = "GPU-00000000-0000-0000-0000-000000000001"
H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": UUID,
    "memory_bytes": 85_017_624_576,
    "driver_api": 13000,
    "devices": 1,
    "attributes": {
        "warp_size": 32, "multiprocessors": 132, "memory_bus_bits": 5120, "l2_bytes": 52428800,
        "max_threads": 2048, "major": 9, "minor": 0, "shared_bytes": 233472, "registers": 65536,
        "max_shared_bytes_per_block": 232448, "max_blocks": 32, "reserved_shared_bytes": 1024,
    },
}  # fmt: skip


def source(said: dict[str, Any] = H100) -> NvidiaSource:
    return NvidiaSource(ask_cuda=lambda: said, ask_driver=lambda _: recorded_settings())


def test_the_environment_of_an_h100() -> None:
    found = source().environment()
    device = found.device
    assert (device.kind, device.arch, device.cores) == ("nvidia", "sm_90", 132)
    assert device.last_level_cache_bytes == 50 << 20
    assert device.limits["max_shared_bytes_per_block"] == 227 << 10
    assert found.tools["nvidia driver"] == "580.159.04"
    assert found.tools["cuda driver"] == "CUDA 13.0"
    assert "power limit 700 W" in found.notes
    assert "ECC on" in found.notes
    assert any(note.startswith("SM clock up to 1980 MHz") for note in found.notes)


def test_two_cards_of_one_kind_are_the_same_device() -> None:
    other = {**H100, "uuid": "GPU-00000000-0000-0000-0000-000000000002"}
    assert source(other).environment().device.id == source().environment().device.id
    assert source(other).uuid() != source().uuid()
    assert UUID not in source().environment().device.model_dump_json()


def test_the_driver_is_asked_once_for_the_same_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{"error": "busy"}, {"uuid": "GPU-1"}, {"uuid": "GPU-2"}]
    ask = asked_once(iter(answers).__next__)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert [ask(), ask(), ask()] == [answers[0], answers[1], answers[1]]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert ask() == answers[2]


def test_settings_that_disturb_measuring_are_notes() -> None:
    notes = setting_notes(
        GpuSettings(
            uuid=UUID,
            max_sm_clock_hz=1.98e9,
            application_clock_hz=1.2e9,
            power_limit_w=400,
            default_power_limit_w=700,
            mig=True,
            persistence=False,
            compute_mode="Exclusive_Process",
        )
    )
    text = "\n".join(notes)
    assert "1200 MHz" in text
    assert "power limit 400 W, below the default of 700 W" in text
    assert "MIG is on" in text
    assert "nvidia-smi -pm 1" in text
    assert "nvidia-smi -c DEFAULT" in text
    assert "ECC" not in text


@pytest.mark.parametrize(
    ("code", "advice"), [(100, "CUDA_VISIBLE_DEVICES"), (803, "reboot"), (12345, "dmesg")]
)
def test_without_a_gpu_the_error_says_what_to_do(code: int, advice: str) -> None:
    with pytest.raises(MachineError, match="no NVIDIA GPU can be used here: it broke") as caught:
        source({"error": "it broke", "code": code}).environment()
    assert advice in str(caught.value)


def test_the_probe_answers_in_json_wherever_it_runs() -> None:
    command = [sys.executable, "-I", "-S", str(cuda_probe.__file__)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer = json.loads(printed)
    assert "error" in answer or answer["attributes"]["multiprocessors"] > 0


def test_health_is_read_from_a_driver_that_is_older_than_the_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question that it doesn't know raises an error that is none of NVML's own."""

    def refuse(*_: object) -> None:
        raise pynvml.NVMLLibraryMismatchError

    asked = [name for name in vars(pynvml) if name.startswith("nvmlDeviceGet")]
    for name in asked:
        monkeypatch.setattr(pynvml, name, refuse)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    found = NvmlHealth(clock=lambda: 1.0).sample(UUID)
    assert found == Health(uuid=UUID, at_s=1.0, unread=("processes", "throttle_reasons"))


def test_sensors_ask_an_older_driver_who_computes_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    question = "nvmlDeviceGetComputeRunningProcesses"
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(pynvml, question, refuse)
    monkeypatch.setattr(pynvml, f"{question}_v2", lambda _: [SimpleNamespace(pid=7)])
    found = NvmlHealth().sample(UUID)
    assert (found.processes, "processes" in found.unread) == ((7,), False)


def test_who_computes_is_asked_four_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    present, now_s = [7], 0.0
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetComputeRunningProcesses",
        lambda _: [SimpleNamespace(pid=pid) for pid in present],
    )
    health = NvmlHealth(clock=lambda: now_s)
    seen = []
    for now_s in (0.0, 0.2, 0.25, 0.3, 0.5):
        sampled = health.sample(UUID)
        assert sampled.at_s == now_s
        seen.append(sampled.processes)
        present.append(8 + len(seen))
    assert seen == [(7,), (7,), (7, 9, 10), (7, 9, 10), (7, 9, 10, 11, 12)]


def test_health_is_unknown_where_nvml_does_not_know_the_gpu() -> None:
    health = NvmlHealth()
    assert health.sample("GPU-no-such-device") is None
    assert health.sample("GPU-no-such-device") is None


def test_only_reasons_that_slow_kernels_down_unasked_count() -> None:
    cap, idle = pynvml.nvmlClocksThrottleReasonSwPowerCap, pynvml.nvmlClocksThrottleReasonGpuIdle
    hot = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    assert throttle_reasons(cap | idle | hot) == ("hw_thermal_slowdown", "sw_power_cap")
    assert throttle_reasons(idle) == ()


def test_the_release_line_is_found_below_the_copyright() -> None:
    nvcc = (
        "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n"
        "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\n"
        "Cuda compilation tools, release 13.0, V13.0.88\n"
    )
    assert gpu_tools.version_line(nvcc) == "Cuda compilation tools, release 13.0, V13.0.88"
    ncu = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright\nVersion 2025.3.1.0 (b 1)\n"
    assert gpu_tools.version_line(ncu) == "Version 2025.3.1.0 (b 1)"
    assert gpu_tools.version_line("some tool 7\n") == "some tool 7"
    assert gpu_tools.version_line("") is None


def test_a_language_decides_the_kind_of_device(tmp_path: Path) -> None:
    assert isinstance(source_for("c", tmp_path), CpuSource)
    assert isinstance(source_for("cuda", tmp_path), NvidiaSource)
    assert isinstance(source_for("hip", tmp_path), AmdSource)
    assert isinstance(source_for("triton", tmp_path), NvidiaSource)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert isinstance(source_for("triton", tmp_path), AmdSource)
    (tmp_path / "dev/nvidiactl").touch()
    assert isinstance(source_for("torch", tmp_path), NvidiaSource)
