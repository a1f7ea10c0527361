"""The processor that this process runs on."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from roofsmith.domain.device import Device, Environment
from roofsmith.machine import probes
from roofsmith.machine.cpuinfo import first_processor, isa_flags, processor_name, vector_bytes

PERF_PARANOID_LIMIT = 2
"""kernel.perf_event_paranoid up to which a user may count events of his own processes."""
COMPILER_BYTES = 2 * 1024**3
"""Memory that a compiler may well take: nvcc's cicc takes a tenth of it for a plain kernel, and
more than all of it for some of CUTLASS's templates."""


@dataclass(frozen=True, slots=True)
class CpuSource:
    """Identifies processor, system and tools; measures nothing.

    What the system doesn't tell (a container without sysfs, an unknown architecture) is left out:
    no caches, no extensions, 16-byte vectors.
    """

    root: Path = Path("/")
    """Where /proc, /sys and /etc are."""
    tool_deadline_s: float | None = None
    """For the version of a tool; None: as everywhere."""

    def device(self) -> Device:
        return self._device(self._fields())

    def environment(self) -> Environment:
        """Device, system, tools, packages and what limits measuring here."""
        fields = self._fields()
        device = self._device(fields)
        tools = probes.tool_versions(self.tool_deadline_s)
        return Environment(
            device=device,
            system=probes.system_name(self.root),
            tools=tools,
            packages=probes.package_versions(),
            notes=tuple(self._notes(fields, device, tools)),
        )

    def conditions(self) -> dict[str, str]:
        """What the speed of the same processor depends on; what the system doesn't tell is left
        out."""
        cpus, processors = self.root / "sys/devices/system/cpu", probes.allowed_processors()
        first = cpus / f"cpu{min(processors)}"
        cores = {
            probes.text(cpus / f"cpu{number}/topology/thread_siblings_list")
            for number in processors
        }
        quota = probes.quota(self.root)
        said = {
            "microcode": self._fields().get("microcode"),
            "governor": probes.text(first / "cpufreq/scaling_governor"),
            "highest clock": probes.text(first / "cpufreq/scaling_max_freq"),
            "boost": probes.text(cpus / "cpufreq/boost"),
            "no turbo": probes.text(cpus / "intel_pstate/no_turbo"),
            "quota": None if quota is None else f"{quota:g}",
            "cores": None if None in cores else str(len(cores)),
        }
        return {name: text.strip() for name, text in said.items() if text is not None}

    def _fields(self) -> dict[str, str]:
        return first_processor(probes.text(self.root / "proc/cpuinfo") or "")

    def _device(self, fields: dict[str, str]) -> Device:
        processors = probes.allowed_processors()
        isa = isa_flags(fields)
        return Device(
            kind="cpu",
            name=processor_name(fields, platform.machine()),
            cores=usable_processors(len(processors), probes.quota(self.root)),
            isa=isa,
            vector_bytes=vector_bytes(isa, self._sve_bytes()),
            caches=probes.caches(self.root, min(processors)),
            memory_bytes=psutil.virtual_memory().total,
        )

    def _sve_bytes(self) -> int | None:
        width = (probes.text(self.root / "proc/sys/abi/sve_default_vector_length") or "").strip()
        return int(width) if width.isdigit() else None

    def _notes(self, fields: dict[str, str], device: Device, tools: dict[str, str]) -> list[str]:
        return [
            *self._counter_notes(tools),
            *self._sharing_notes(fields),
            *_missing_notes(device, tools),
        ]

    def _counter_notes(self, tools: dict[str, str]) -> list[str]:
        if "perf" not in tools:
            return ["perf is not installed: no hardware counters"]
        paranoid = (probes.text(self.root / "proc/sys/kernel/perf_event_paranoid") or "").strip()
        try:
            level = int(paranoid)
        except ValueError:
            return []
        if level <= PERF_PARANOID_LIMIT or os.geteuid() == 0:
            return []
        return [
            f"kernel.perf_event_paranoid is {level}: hardware counters are not permitted"
            f" (sysctl kernel.perf_event_paranoid={PERF_PARANOID_LIMIT} allows them)"
        ]

    def _sharing_notes(self, fields: dict[str, str]) -> list[str]:
        notes = []
        if "hypervisor" in fields.get("flags", "").split():
            notes.append("virtual machine: the host may take processor time away (steal)")
        threads = probes.siblings(self.root, min(probes.allowed_processors()))
        if threads > 1:
            notes.append(f"simultaneous multithreading: {threads} processors share one core")
        quota = probes.quota(self.root)
        if quota is not None and quota < len(probes.allowed_processors()):
            notes.append(f"the cgroup allows {quota:g} processors' worth of time")
        return notes


def usable_processors(allowed: int, quota: float | None) -> int:
    """Processors worth starting threads on: those allowed, but no more than the quota pays for."""
    if quota is None:
        return max(allowed, 1)
    return max(min(allowed, math.ceil(quota)), 1)


def build_slots(root: Path = Path("/")) -> int:
    """Compilers that can run at the same time: one per processor, as far as memory goes."""
    processors = usable_processors(len(probes.allowed_processors()), probes.quota(root))
    memory_bytes = psutil.virtual_memory().available
    limit_bytes = probes.memory_limit(root)
    if limit_bytes is not None:
        memory_bytes = min(memory_bytes, limit_bytes)
    return max(1, min(processors, memory_bytes // COMPILER_BYTES))


def _missing_notes(device: Device, tools: dict[str, str]) -> list[str]:
    notes = []
    if not {"gcc", "clang"} & tools.keys():
        notes.append("no C compiler (gcc or clang): kernels can't be built, ceilings not measured")
    if not device.caches:
        notes.append("cache sizes are not known: sysfs doesn't tell")
    return notes
