"""The NVIDIA GPU that this process would run kernels on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofsmith.analysis.occupancy import MAX_THREADS_PER_BLOCK
from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.errors import MachineError
from roofsmith.machine import cuda_probe, gpu_tools, probes
from roofsmith.machine.nvml import GpuSettings, ask_nvml
from roofsmith.machine.plugged import require_any
from roofsmith.programs import asked

PROBE_DEADLINE_S = 60.0
"""The first cuInit after boot loads the driver; with eight GPUs that takes many seconds."""

CHOOSES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that say which device is the first."""

LIMITS = (
    "max_threads",
    "max_blocks",
    "registers",
    "shared_bytes",
    "max_shared_bytes_per_block",
    "reserved_shared_bytes",
    "warp_size",
)

_HINTS: Mapping[int | None, str] = {
    None: "install NVIDIA's driver, or start the container with --gpus all; nvidia-smi must work",
    100: "check nvidia-smi and CUDA_VISIBLE_DEVICES: the driver shows this process no GPU",
    101: "check CUDA_VISIBLE_DEVICES: it names a GPU that isn't there",
    802: "the GPUs' fabric isn't ready: start nvidia-fabricmanager, or wait until it is up",
    803: "driver and CUDA library don't fit together: reboot, or update the container's toolkit",
    804: "this CUDA library needs a newer driver or a data-centre GPU: update the driver",
    999: "look at `dmesg | grep -i nvrm`; a reboot or a reload of the driver usually helps",
}


def hint_for(code: int | None) -> str:
    """What to do about an error of the CUDA driver; None: its library can't be loaded."""
    return _HINTS.get(code, _HINTS[999])


def ask_cuda(deadline_s: float = PROBE_DEADLINE_S) -> dict[str, Any]:
    """What the CUDA driver says, asked by a process of its own."""
    command = [sys.executable, "-I", "-S", str(cuda_probe.__file__)]
    try:
        with asked(command) as process:
            answer, _ = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        what = f"the CUDA driver didn't answer within {deadline_s:g} s"
        return {"error": what, "code": 999}
    try:
        found = json.loads(answer)
    except ValueError:
        what = f"the CUDA driver ended the process that asked it (exit status {process.returncode})"
        return {"error": what, "code": 999}
    return dict(found)


def asked_once(ask: Callable[[], dict[str, Any]] = ask_cuda) -> Callable[[], dict[str, Any]]:
    """The same, asked again only for other visible devices or after an error: every answer takes a
    process that starts the driver."""
    known: dict[tuple[str | None, ...], dict[str, Any]] = {}

    def said() -> dict[str, Any]:
        visible = tuple(map(os.environ.get, CHOOSES))
        if "error" in known.get(visible, {"error": "nobody asked"}):
            known[visible] = ask()
        return known[visible]

    return said


@dataclass(frozen=True, slots=True)
class NvidiaSource:
    """Port `DeviceSource` over CUDA's and NVIDIA's management library; measures nothing.

    The device is the first one that CUDA shows this process, so CUDA_VISIBLE_DEVICES chooses it.
    """

    root: Path = Path("/")
    ask_cuda: Callable[[], dict[str, Any]] = ask_cuda
    ask_driver: Callable[[str], GpuSettings | None] = ask_nvml
    beside: tuple[str, ...] = ()
    """Notes of this process's own, such as clocks that it holds."""

    def environment(self) -> Environment:
        """Device, driver, tools, packages, and how the GPU is set up.

        Raises:
            MachineError: there is no NVIDIA GPU, or its driver doesn't work.
        """
        said = self._cuda()
        settings = self.ask_driver(said["uuid"])
        tools = probes.tool_versions() | gpu_tools.versions(gpu_tools.NVIDIA_TOOLS)
        tools["cuda driver"] = _version(said["driver_api"])
        if settings is not None and settings.driver is not None:
            tools["nvidia driver"] = settings.driver
        return Environment(
            device=device_of(said),
            system=probes.system_name(self.root),
            tools=tools,
            packages=probes.package_versions() | gpu_tools.package_versions(),
            notes=(*setting_notes(settings), *missing_notes(tools), *self.beside),
        )

    def device(self) -> Device:
        """The device alone, without looking for tools.

        Raises:
            MachineError: as above.
        """
        return device_of(self._cuda())

    def uuid(self) -> str:
        """Which of this machine's GPUs it is, as NVML and nvidia-smi name it.

        Raises:
            MachineError: as above.
        """
        return str(self._cuda()["uuid"])

    def _cuda(self) -> dict[str, Any]:
        said = self.ask_cuda()
        if "error" in said:
            if said.get("code") is None:
                require_any("nvidia", self.root)
            raise MachineError(
                f"no NVIDIA GPU can be used here: {said['error']}", hint=hint_for(said.get("code"))
            )
        return said


def device_of(said: Mapping[str, Any]) -> Device:
    """The device behind the CUDA driver's answer."""
    attributes: Mapping[str, int] = said["attributes"]
    sms = attributes["multiprocessors"]
    l2 = Cache(level=2, kind="unified", size_bytes=attributes["l2_bytes"], shared_by=sms)
    return Device(
        kind="nvidia",
        name=said["name"],
        cores=sms,
        # A thread loads 16 bytes at a time at most: ld.global.v4.b32, PTX ISA.
        vector_bytes=16,
        caches=(l2,) if l2.size_bytes else (),
        memory_bytes=said["memory_bytes"],
        arch=f"sm_{attributes['major']}{attributes['minor']}",
        limits={
            **{name: attributes[name] for name in LIMITS},
            "max_threads_per_block": MAX_THREADS_PER_BLOCK,
        },
    )


def setting_notes(settings: GpuSettings | None) -> list[str]:
    """How the GPU is set up, a line per setting; what limits measuring says what to do."""
    if settings is None:
        return ["NVML doesn't answer: clocks, power limit and ECC are not known"]
    return [*_clock_notes(settings), *_power_notes(settings), *_mode_notes(settings)]


def _clock_notes(settings: GpuSettings) -> list[str]:
    notes = []
    if settings.max_sm_clock_hz is not None:
        memory = settings.max_memory_clock_hz
        beside = f", memory {memory / 1e6:.0f} MHz" if memory is not None else ""
        notes.append(f"SM clock up to {settings.max_sm_clock_hz / 1e6:.0f} MHz{beside}")
    asked = settings.application_clock_hz
    if asked and settings.max_sm_clock_hz and asked < settings.max_sm_clock_hz:
        notes.append(
            f"application clocks are set to {asked / 1e6:.0f} MHz, below the maximum"
            " (nvidia-smi -rac resets them)"
        )
    return notes


def _power_notes(settings: GpuSettings) -> list[str]:
    limit, usual = settings.power_limit_w, settings.default_power_limit_w
    if limit is None:
        return []
    if usual is not None and limit < usual:
        return [f"power limit {limit:.0f} W, below the default of {usual:.0f} W"]
    return [f"power limit {limit:.0f} W"]


def _mode_notes(settings: GpuSettings) -> list[str]:
    notes = []
    if settings.ecc is not None:
        notes.append(f"ECC {'on' if settings.ecc else 'off'}")
    if settings.mig:
        notes.append("MIG is on: this is a slice of a GPU, and its neighbours share L2 and memory")
    if settings.persistence is False:
        notes.append("persistence mode is off: the first call is slow (nvidia-smi -pm 1)")
    if settings.compute_mode not in (None, "Default"):
        notes.append(
            f"compute mode is {settings.compute_mode}: the judge needs several processes on the"
            " GPU (nvidia-smi -c DEFAULT)"
        )
    return notes


def missing_notes(tools: Mapping[str, str]) -> list[str]:
    """What can't be done for want of a tool."""
    notes = []
    if "nvcc" not in tools:
        notes.append("no nvcc can be asked: CUDA kernels can't be built, ceilings not measured")
    if "ncu" not in tools:
        notes.append("ncu is not installed: no hardware counters")
    return notes


def _version(number: int) -> str:
    """13000 is CUDA 13.0."""
    return f"CUDA {number // 1000}.{number % 1000 // 10}"
