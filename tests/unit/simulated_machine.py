"""A machine that answers doctor's questions as it is told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tool_stand_ins import built_file

from roofsmith.api.doctor import examine
from roofsmith.api.doctor.gpus import vendor_of_modules
from roofsmith.api.doctor.snapshot import Reply, Snapshot
from roofsmith.config import Settings
from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.domain.examination import Check, Examination
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.domain.target import Target
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.machine.nvml import GpuSettings
from roofsmith.machine.plugged import vendors
from roofsmith.toolchains.compilers import Compiler
from roofsmith.toolchains.cuda_toolkit import Toolkit

UUID = "GPU-00000000-0000-0000-0000-000000000001"
H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3", "uuid": UUID, "memory_bytes": 85_017_624_576,
    "driver_api": 13000, "devices": 1,
    "attributes": {"multiprocessors": 132, "major": 9, "minor": 0},
}  # fmt: skip
IDLE = GpuStatus(
    uuid=UUID, index=0, name="NVIDIA H100 80GB HBM3", kind="nvidia", utilisation=0.0,
    memory_used_bytes=0, memory_total_bytes=81559 << 20, temperature_c=38.0,
    compute_mode="Default", at_s=0.0,
)  # fmt: skip
GCC = "gcc (Debian 12.2.0-14) 12.2.0"
GXX = "g++ (Debian 12.2.0-14) 12.2.0"
TORCH = TorchBuild("2.11.0+cu130", cuda="13.0")
SEES = {"torch": None, "triton": None, "arch_list": ["sm_80", "sm_90", "sm_100"]}


def recorded_settings() -> GpuSettings:
    """As golden/gpu/nvidia_smi_q_h100.xml has it."""
    return GpuSettings(
        UUID, "580.159.04", max_sm_clock_hz=1.98e9, max_memory_clock_hz=2.619e9, sm_clock_hz=1.98e9,
        application_clock_hz=1.98e9, power_limit_w=700.0, default_power_limit_w=700.0,
        power_draw_w=130.74, temperature_c=38.0, thermal_margin_c=49.0, ecc=True, mig=False,
        persistence=True, compute_mode="Default",
    )  # fmt: skip


def raises(error: Exception) -> Callable[..., NoReturn]:
    def ask(*_: object) -> NoReturn:
        raise error

    return ask


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def settings(folder: Path) -> Settings:
    return Settings(cache_dir=folder / "cache", campaigns_dir=folder / "campaigns")


@dataclass(frozen=True)
class Machine:
    """Whom to ask what, by the fields of a snapshot."""

    root: Path
    answers: dict[str, Any]

    def but(self, **changes: Any) -> Machine:
        return replace(self, answers=self.answers | changes)

    def snapshot(self, deadline_s: float, settings: Settings) -> Snapshot:
        until = time.monotonic() + deadline_s

        def ask(name: str, *arguments: Any) -> Reply[Any]:
            return Reply(WHO.get(name, name), partial(self.answers[name], *arguments), until)

        said: dict[str, Any] = {
            name: {choice: ask(name, choice) for choice in EACH[name]} if name in EACH
            else self.answers[name]() if name in AT_ONCE
            else self.answers[name] and ask(name)
            for name in self.answers
        }  # fmt: skip
        return Snapshot(
            root=self.root, settings=settings, plugged=vendors(self.root),
            modules=vendor_of_modules(self.root), **said | {"ours": self.answers["ours"]},
        )  # fmt: skip


WHO = {"cuda": "the CUDA driver", "gpu_settings": "NVIDIA's driver", "fleet": "NVIDIA's driver"}
AT_ONCE = ("load", "processor_time", "torch_build", "triton", "python_headers")
EACH = {
    "room": ("cache", "campaigns"), "fleet": ("nvidia", "amd"),
    "tools": ("ncu", "compute-sanitizer", "rocprofv3"),
}  # fmt: skip


def host(root: Path, **changes: Any) -> Machine:
    """Two processors with gcc, perf and git; no GPU, no torch."""
    write(root, {"proc/sys/kernel/perf_event_paranoid": "2\n", "proc/cpuinfo": "flags: avx2\n"})
    caches = (Cache(level=3, kind="unified", size_bytes=32 << 20, shared_by=2),)
    environment = Environment(
        device=Device(kind="cpu", name="AMD EPYC", cores=2, isa=("avx2",), caches=caches),
        system="Linux 6.1.0 x86_64, Debian GNU/Linux 12 (bookworm)",
        tools={
            "gcc": GCC, "g++": GXX, "git": "git version 2.39.5", "perf": "perf version 6.1",
            "valgrind": "valgrind-3.19.0", "python": "Python 3.11.7",
        },
        packages={"roofsmith": "0.1.0", "numpy": "2.4.6"},
    )  # fmt: skip
    answers: dict[str, Any] = {
        "environment": lambda: environment,
        "load": lambda: 0.1,
        "processor_time": lambda: None,
        "isolation": dict,
        "compilers": lambda: {"gcc": GCC, "g++": GXX},
        "openmp": lambda: built_file(root / "kernel.so", "c"),
        "toolkit": raises(ToolMissingError("no CUDA compiler", hint="install the CUDA toolkit")),
        "hipcc": raises(ToolMissingError("no HIP compiler", hint="install ROCm's hipcc")),
        "tools": lambda name: None,
        "ncu": lambda: None,
        "rocprof": lambda: None,
        "cuda": lambda: {"error": "libcuda.so.1 can't be loaded: not found", "code": None},
        "gpu_settings": lambda: None,
        "lockable": lambda: None,
        "fleet": raises(MachineError("no driver answers", hint="nvidia-smi must work")),
        "ours": lambda pids=(): (),
        "agents": raises(MachineError("rocminfo is not installed", hint="install ROCm")),
        "torch_build": lambda: None,
        "triton": lambda: None,
        "python_headers": lambda: Path("/usr/include/python3.11"),
        "torch_sees": lambda: SEES,
        "wiki": tuple,
        "room": lambda folder: 70 * 10**9,
    }
    return Machine(root, answers | changes)


def h100(root: Path, **changes: Any) -> Machine:
    """A host with an H100, CUDA 13.0, PyTorch, Triton and ncu; counters permitted."""
    write(
        root,
        {
            "dev/nvidiactl": "",
            "proc/driver/nvidia/version": "NVRM version: 580.159.04\n",
            "proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n",
            "sys/bus/pci/devices/0000:06:00.0/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:06:00.0/class": "0x030200\n",
        },
    )
    answers: dict[str, Any] = {
        "cuda": lambda: H100,
        "gpu_settings": recorded_settings,
        "fleet": lambda vendor: (IDLE,),
        "toolkit": lambda: toolkit((13, 0)),
        "tools": {
            "ncu": "Version 2025.3.1.0", "compute-sanitizer": "Version 2025.3.1"
        }.get,
        "ncu": lambda: "/usr/local/cuda/bin/ncu",
        "torch_build": lambda: TORCH,
        "triton": lambda: "3.6.0",
    }  # fmt: skip
    return host(root, **answers | changes)


def toolkit(release: tuple[int, int], architectures: tuple[int, ...] = (75, 80, 90)) -> Toolkit:
    root = Path("/usr/local/cuda")
    compiler = Compiler("nvcc", root / "bin/nvcc", f"release {release[0]}.{release[1]}")
    return Toolkit(compiler, release, architectures, root, (), ())


PATIENT_S = 300.0
"""For answers that are there at once, on a machine that may be busy."""


def look(
    machine: Machine, subject: Path | Target | None = None, deadline_s: float = PATIENT_S,
    policy: GatePolicy | None = None, **how: Any,
) -> Examination:  # fmt: skip
    """What doctor finds."""
    here = settings(machine.root)
    here = here if policy is None else replace(here, gate=policy)
    return examine(here, subject, machine.snapshot(deadline_s, here), **how)


def named(found: Examination, name: str) -> Check:
    (check,) = [check for check in found.checks if check.name == name]
    return check


def standing(found: Examination) -> dict[str, bool]:
    return {one.name: one.ready for one in found.readiness}


def settings_with(**changes: Any) -> Any:
    return lambda: replace(recorded_settings(), **changes)
