"""Drivers that show a machine as a test wants it: programs, and libraries in Python."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import pynvml

from roofsmith.devices.fleet_amdsmi import _VIOLATIONS
from roofsmith.devices.fleet_nvidia_smi import _REASONS
from roofsmith.devices.throttling_amd import VIOLATIONS
from roofsmith.domain.fleet import MIB, GpuStatus

GARBAGE = "\x00\ufffd<gpu>{]99999999999999999999 %,,N/A\n" * 20
BITS = {
    "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40, "hw_power_brake": 0x80, "display_clocks": 0x100,
}  # fmt: skip


def program(folder: Path, name: str, answers: Mapping[str, str]) -> str:
    """A program that prints a text by the beginning of its arguments, and fails on others."""
    path = folder / name
    cases = []
    for number, (beginning, text) in enumerate(answers.items()):
        answer = folder / f"{name}.{number}"
        answer.write_text(text, encoding="utf-8", errors="surrogateescape")
        cases.append(f"{shlex.quote(beginning)}*) exec cat {shlex.quote(str(answer))} ;;")
    path.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\n*) exit 9 ;;\nesac\n")
    path.chmod(0o755)
    return str(path)


def script(folder: Path, name: str, body: str) -> str:
    """A program that does something else."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def nvidia_smi_answers(gpus: Sequence[GpuStatus], *, xml: bool) -> dict[str, str]:
    """What nvidia-smi prints; without XML, an old one whose XML nobody can read."""
    return {
        "-q -x": nvidia_xml(gpus) if xml else "no such option\n",
        "-L": nvidia_list(gpus),
        "--query-gpu": nvidia_csv(gpus),
        "--query-compute-apps": nvidia_apps(gpus),
    }


def mib(size: int | None) -> str:
    return "N/A" if size is None else f"{size // MIB} MiB"


def wholes(gpus: Sequence[GpuStatus]) -> dict[str, list[GpuStatus]]:
    """A GPU's UUID, and itself or its instances."""
    found: dict[str, list[GpuStatus]] = {}
    for status in gpus:
        found.setdefault(status.parent_uuid or status.uuid, []).append(status)
    return found


def nvidia_xml(gpus: Sequence[GpuStatus]) -> str:
    elements = [_element(uuid, parts) for uuid, parts in wholes(gpus).items()]
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
        f"<nvidia_smi_log>\n{''.join(elements)}</nvidia_smi_log>\n"
    )


def _element(uuid: str, parts: list[GpuStatus]) -> str:
    first = parts[0]
    sliced = first.parent_uuid is not None
    used = None if sliced else first.memory_used_bytes
    reasons = "".join(
        f"<clocks_event_reason_{name}>{_reason(first, ours)}</clocks_event_reason_{name}>"
        for name, ours in _REASONS.items()
    )
    heat = "N/A" if first.temperature_c is None else f"{first.temperature_c:.0f} C"
    load = "N/A" if first.utilisation is None else f"{first.utilisation:.0%}".replace("%", " %")
    instances = "".join(
        f"<mig_device><index>{place}</index><gpu_instance_id>{place + 3}</gpu_instance_id>"
        f"<compute_instance_id>0</compute_instance_id>{_memory(part.memory_used_bytes, part)}"
        "</mig_device>"
        for place, part in enumerate(parts)
    )
    return (
        f"<gpu><product_name>{first.name.partition(' MIG ')[0]}</product_name>"
        f"<mig_mode><current_mig>{'Enabled' if sliced else 'Disabled'}</current_mig></mig_mode>"
        f"<mig_devices>{instances if sliced else 'None'}</mig_devices><uuid>{uuid}</uuid>"
        f"<clocks_event_reasons>{reasons}</clocks_event_reasons>{_memory(used, first)}"
        f"<compute_mode>{first.compute_mode or 'N/A'}</compute_mode>"
        f"<utilization><gpu_util>{load}</gpu_util></utilization>"
        f"<temperature><gpu_temp>{heat}</gpu_temp></temperature>{_listed(parts)}</gpu>\n"
    )


def _memory(used: int | None, status: GpuStatus) -> str:
    total = mib(status.memory_total_bytes)
    return f"<fb_memory_usage><total>{total}</total><used>{mib(used)}</used></fb_memory_usage>"


def _reason(status: GpuStatus, name: str) -> str:
    if "throttle_reasons" in status.unread:
        return "N/A"
    return "Active" if name in status.throttle_reasons else "Not Active"


def _listed(parts: list[GpuStatus]) -> str:
    if any("processes" in part.unread for part in parts):
        return "<processes>N/A</processes>"
    rows = "".join(
        f"<process_info><gpu_instance_id>{place + 3 if part.parent_uuid else 'N/A'}"
        f"</gpu_instance_id><compute_instance_id>{0 if part.parent_uuid else 'N/A'}"
        f"</compute_instance_id><pid>{process.pid}</pid><type>{'G' if process.drawing else 'C'}"
        f"</type><process_name>{escape(process.name or '[Not Found]')}</process_name>"
        f"<used_memory>{mib(process.memory_bytes)}</used_memory></process_info>"
        for place, part in enumerate(parts)
        for process in part.processes
    )
    return f"<processes>\n{rows}</processes>"


def nvidia_list(gpus: Sequence[GpuStatus]) -> str:
    lines = []
    for number, (uuid, parts) in enumerate(wholes(gpus).items()):
        name, _, _ = parts[0].name.partition(" MIG ")
        lines.append(f"GPU {number}: {name} (UUID: {uuid})")
        lines += [
            f"  MIG {part.name.partition(' MIG ')[2]}     Device  {place}: (UUID: {part.uuid})"
            for place, part in enumerate(parts)
            if part.parent_uuid
        ]
    return "\n".join(lines) + "\n"


def nvidia_csv(gpus: Sequence[GpuStatus]) -> str:
    lines = [
        "index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB],"
        " temperature.gpu, clocks_event_reasons.active, compute_mode, mig.mode.current"
    ]
    for number, (uuid, parts) in enumerate(wholes(gpus).items()):
        one = parts[0]
        load = "[N/A]" if one.utilisation is None else f"{one.utilisation * 100:.0f} %"
        heat = "[N/A]" if one.temperature_c is None else f"{one.temperature_c:.0f}"
        bits = sum(BITS[reason] for reason in one.throttle_reasons)
        held = "[N/A]" if "throttle_reasons" in one.unread else f"0x{bits:016x}"
        lines.append(
            f"{number}, {uuid}, {one.name.partition(' MIG ')[0]}, {load},"
            f" {mib(one.memory_used_bytes)}, {mib(one.memory_total_bytes)}, {heat}, {held},"
            f" {one.compute_mode}, {'Enabled' if one.parent_uuid else 'Disabled'}"
        )
    return "\n".join(lines) + "\n"


def nvidia_apps(gpus: Sequence[GpuStatus]) -> str:
    if any("processes" in status.unread for status in gpus):
        return "Insufficient Permissions\nInsufficient Permissions\n"
    lines = ["gpu_uuid, pid, process_name, used_gpu_memory [MiB]"]
    lines += [
        f"{status.uuid}, {process.pid}, {process.name}, {mib(process.memory_bytes)}"
        for status in gpus
        for process in status.processes
        if not process.drawing
    ]
    return "\n".join(lines) + "\n"


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


def unique_id(status: GpuStatus) -> str:
    return f"{int(status.uuid[-12:], 16) + 0xDE8287300DA37C72:016x}"


def value(number: float | None, unit: str) -> Any:
    return "N/A" if number is None else {"value": number, "unit": unit}


def amd_smi_answers(gpus: Sequence[GpuStatus], *, wrapped: bool) -> dict[str, str]:
    """What amd-smi prints; from ROCm 7 on, two of the answers are wrapped."""
    metrics = [
        {
            "gpu": number,
            "usage": {
                "gfx_activity": value(
                    None if status.utilisation is None else round(status.utilisation * 100), "%"
                )
            },
            "mem_usage": {
                "used_vram": value(_mebibytes(status.memory_used_bytes), "MB"),
                "total_vram": value(_mebibytes(status.memory_total_bytes), "MB"),
            },
            "temperature": {"edge": "N/A", "hotspot": value(status.temperature_c, "C")},
            "power": {"throttle_status": "N/A"},
            "throttle": {
                f"{name}_violation_status": {True: "ACTIVE", False: "NOT ACTIVE", None: "N/A"}[flag]
                for name, flag in violations(status).items()
            },
        }
        for number, status in enumerate(gpus)
    ]
    products = [
        {"gpu": number, "asic": {"market_name": status.name}} for number, status in enumerate(gpus)
    ]
    return {
        "list -e": json.dumps(
            [
                {
                    "gpu": number, "bdf": f"0000:{number:02x}:00.0", "hip_id": status.index,
                    "hip_uuid": f"GPU-{unique_id(status)}",
                }
                for number, status in enumerate(gpus)
            ]
        ),
        "metric": json.dumps({"gpu_data": metrics} if wrapped else metrics),
        "process": json.dumps(
            [{"gpu": n, "process_list": _amd_processes(status)} for n, status in enumerate(gpus)]
        ),
        "static": json.dumps({"gpu_data": products} if wrapped else products),
    }  # fmt: skip


def violations(status: GpuStatus) -> dict[str, bool | None]:
    """An MI300X's flags, as AMD calls them."""
    untold = "throttle_reasons" in status.unread
    return {
        name: None if untold else name == "prochot" and reason in status.throttle_reasons
        for name, reason in VIOLATIONS.items()
    }


def _mebibytes(size: int | None) -> int | None:
    return None if size is None else size // MIB


def _amd_processes(status: GpuStatus) -> Any:
    if "processes" in status.unread:
        return "N/A"
    found: list[Any] = [
        {
            "process_info": {
                "name": process.name, "pid": process.pid,
                "memory_usage": {"vram_mem": value(process.memory_bytes, "B")},
            }
        }
        for process in status.processes
    ]  # fmt: skip
    return found or [{"process_info": "No running processes detected"}]


def rocm_smi_answers(gpus: Sequence[GpuStatus]) -> dict[str, str]:
    """What rocm-smi prints: texts, whatever they say; a warning may come first."""
    cards = {f"card{number}": _card(status) for number, status in enumerate(gpus)}
    rows = {
        f"PID{process.pid}": f"{process.name}, 1, {process.memory_bytes}, 0, unknown"
        for status in gpus
        for process in status.processes
    }
    answers = {"--showuse": "WARNING: AMD GPU device(s) is/are in a low-power state.\n\n"}
    answers["--showuse"] += json.dumps(cards)
    if not any("processes" in status.unread for status in gpus):
        answers["--showpids"] = json.dumps({"system": rows}) if rows else ""
    return answers


def _card(status: GpuStatus) -> dict[str, str]:
    load, heat = status.utilisation, status.temperature_c
    card = {
        "Unique ID": f"0x{unique_id(status)}",
        "PCI Bus": f"0000:{status.index:02X}:00.0",
        "GPU use (%)": "N/A" if load is None else f"{load * 100:.0f}",
        "Temperature (Sensor edge) (C)": "N/A" if heat is None else f"{heat - 2:.1f}",
        "Temperature (Sensor junction) (C)": "N/A" if heat is None else f"{heat:.1f}",
        "Card series": status.name,
    }
    if status.memory_used_bytes is not None:
        card["VRAM Total Used Memory (B)"] = str(status.memory_used_bytes)
    if status.memory_total_bytes is not None:
        card["VRAM Total Memory (B)"] = str(status.memory_total_bytes)
    return card


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
        return {_VIOLATIONS[name]: "N/A" if on is None else on for name, on in flags.items()}

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
