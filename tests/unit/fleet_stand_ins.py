"""Drivers that show a machine as a test wants it: programs, and libraries in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

from roofsmith.domain.fleet import MIB, GpuStatus
from roofsmith.machine.fleet_amdsmi import VIOLATIONS

BITS = {
    "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40, "hw_power_brake": 0x80, "display_clocks": 0x100,
}  # fmt: skip


def script(folder: Path, name: str, body: str) -> str:
    """A program that does something else."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def wholes(gpus: Sequence[GpuStatus]) -> dict[str, list[GpuStatus]]:
    """A GPU's UUID, and itself or its instances."""
    found: dict[str, list[GpuStatus]] = {}
    for status in gpus:
        found.setdefault(status.parent_uuid or status.uuid, []).append(status)
    return found


class FakeNvml:
    """The part of pynvml that a fleet needs, over statuses."""

    NVMLError = pynvml.NVMLError
    NVML_TEMPERATURE_GPU = 0
    nvmlMemory_v2 = 0x02000028  # noqa: N815

    def __init__(self, gpus: Sequence[GpuStatus]) -> None:
        self.cards = list(wholes(gpus).items())
        self.names = {p.pid: p.name for status in gpus for p in status.processes}

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.cards:
            raise self.error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def error(self, code: int = pynvml.NVML_ERROR_NOT_SUPPORTED) -> Exception:
        return pynvml.NVMLError(code)  # type: ignore[no-any-return]

    def known(self, value: Any) -> Any:
        if value is None:
            raise self.error()
        return value

    def __getattr__(self, name: str) -> Any:
        asked = {
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: self.cards[index],
            "nvmlDeviceGetUUID": lambda one: one.uuid if isinstance(one, GpuStatus) else one[0],
            "nvmlDeviceGetMigMode": lambda card: [int(card[1][0].parent_uuid is not None)] * 2,
            "nvmlDeviceGetMaxMigDeviceCount": lambda card: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": self.instance,
            "nvmlDeviceGetName": lambda one: self.part(one).name.encode(),
            "nvmlDeviceGetUtilizationRates": lambda one: SimpleNamespace(
                gpu=round(self.known(self.part(one).utilisation) * 100), memory=0
            ),
            "nvmlDeviceGetMemoryInfo": self.memory,
            "nvmlDeviceGetTemperature": lambda one, sensor: int(
                self.known(self.part(one).temperature_c)
            ),
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.reasons,
            "nvmlDeviceGetComputeRunningProcesses": lambda one: self.listed(one, drawing=False),
            "nvmlDeviceGetGraphicsRunningProcesses": lambda one: self.listed(one, drawing=True),
            "nvmlDeviceGetMPSComputeRunningProcesses": lambda one: self.known(None),
            "nvmlDeviceGetComputeMode": lambda one: 0,
            "nvmlSystemGetProcessName": lambda pid: self.known(self.names.get(pid)).encode(),
        }
        if name not in asked:
            raise AttributeError(name)
        return asked[name]

    def part(self, one: Any) -> GpuStatus:
        return one if isinstance(one, GpuStatus) else one[1][0]

    def instance(self, card: Any, place: int) -> GpuStatus:
        if place >= len(card[1]):
            raise self.error(pynvml.NVML_ERROR_NOT_FOUND)
        return card[1][place]  # type: ignore[no-any-return]

    def memory(self, one: Any, version: int | None = None) -> Any:
        status = self.part(one)
        if status.memory_used_bytes is None and status.memory_total_bytes is None:
            raise self.error()
        return SimpleNamespace(used=status.memory_used_bytes, total=status.memory_total_bytes)

    def reasons(self, one: Any) -> int:
        status = self.part(one)
        if "throttle_reasons" in status.unread:
            raise self.error()
        return sum(BITS[reason] for reason in status.throttle_reasons) | 0x1

    def listed(self, one: Any, drawing: bool) -> list[Any]:
        status = self.part(one)
        if "processes" in status.unread:
            raise self.error(pynvml.NVML_ERROR_NO_PERMISSION)
        return [
            SimpleNamespace(pid=process.pid, usedGpuMemory=process.memory_bytes)
            for process in status.processes
            if process.drawing == drawing
        ]


def nvml_of(place: Path) -> dict[str, Callable[..., Any]]:
    """In place of pynvml's functions: they show the GPUs that a file tells of at the moment."""

    def answer(name: str, *arguments: Any) -> Any:
        gpus = [GpuStatus.model_validate(one) for one in json.loads(place.read_text())]
        return getattr(FakeNvml(gpus), name)(*arguments)

    return {
        name: partial(answer, name)
        for name in vars(pynvml)
        if name.startswith(("nvmlDevice", "nvmlSystem"))
    } | {"nvmlInit": lambda: None, "nvmlShutdown": lambda: None}


def unique_id(status: GpuStatus) -> str:
    return f"{int(status.uuid[-12:], 16) + 0xDE8287300DA37C72:016x}"


def violations(status: GpuStatus) -> dict[str, bool | None]:
    """An MI300X's flags, as AMD calls them."""
    untold = "throttle_reasons" in status.unread
    return {
        name: None if untold else "prochot" in name and reason in status.throttle_reasons
        for name, reason in VIOLATIONS.items()
    }


def _mebibytes(size: int | None) -> int | None:
    return None if size is None else size // MIB


class AmdSmiError(Exception):
    """As the package's AmdSmiException."""


def fake_amdsmi(gpus: Sequence[GpuStatus]) -> Any:
    """The part of the amdsmi package that a fleet needs, over statuses."""

    def known(found: Any) -> Any:
        if found is None:
            raise AmdSmiError
        return found

    def activity(status: GpuStatus) -> dict[str, Any]:
        load = status.utilisation
        return {"gfx_activity": "N/A" if load is None else round(load * 100)}

    def temperature(status: GpuStatus, sensor: str, metric: str) -> float:
        return known(status.temperature_c if sensor == "hotspot" else None)  # type: ignore[no-any-return]

    def processes(status: GpuStatus) -> list[Any]:
        known(None if "processes" in status.unread else 1)
        return [
            {"pid": p.pid, "name": p.name, "memory_usage": {"vram_mem": p.memory_bytes}}
            for p in status.processes
        ]

    def violation_status(status: GpuStatus) -> dict[str, Any]:
        flags = violations(status)
        return {name: "N/A" if on is None else on for name, on in flags.items()}

    return SimpleNamespace(
        AmdSmiException=AmdSmiError,
        AmdSmiTemperatureType=SimpleNamespace(EDGE="edge", HOTSPOT="hotspot"),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT="current"),
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: list(gpus),
        amdsmi_get_gpu_asic_info=lambda s: {"market_name": s.name, "asic_serial": "N/A"},
        amdsmi_get_gpu_enumeration_info=lambda s: {
            "hip_id": s.index, "hip_uuid": f"GPU-{unique_id(s)}",
        },
        amdsmi_get_gpu_device_bdf=lambda s: f"0000:{s.index:02x}:00.0",
        amdsmi_get_gpu_activity=activity,
        amdsmi_get_gpu_vram_usage=lambda s: {
            "vram_used": "N/A" if s.memory_used_bytes is None else s.memory_used_bytes // MIB,
            "vram_total": _mebibytes(s.memory_total_bytes),
        },
        amdsmi_get_temp_metric=temperature,
        amdsmi_get_gpu_process_list=processes,
        amdsmi_get_violation_status=violation_status,
    )  # fmt: skip
