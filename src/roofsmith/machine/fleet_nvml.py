"""NVIDIA's GPUs and MIG instances through NVML."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.fleet_tools import (
    DEADLINE_S,
    DriverCalls,
    celsius,
    memory,
    merged,
    nvidia_uuid,
    seen,
    share,
    size_bytes,
    unread,
    words,
)
from roofsmith.machine.nvml import COMPUTE_MODES, running, throttle_reasons, told
from roofsmith.programs import answer

MAX_GPUS = 256
"""More than any host has: whatever a broken driver answers, asking comes to an end."""
MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(slots=True)
class NvmlFleet:
    """NVIDIA's part of a fleet. NVML stays open: opening it wakes the driver.

    A process that forks after the first answer must make a new one.
    """

    library: Any = pynvml
    deadline_s: float = DEADLINE_S
    _calls: DriverCalls[tuple[GpuStatus, ...]] = field(default_factory=DriverCalls, repr=False)
    _open: bool = field(default=False, repr=False)

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that NVML shows, and the instances of those in MIG mode.

        Raises:
            MachineError: NVML isn't there, fails, or doesn't answer in time.
        """
        found = self._calls.ask(self._read, self.deadline_s)
        if found is None:
            raise self._silent()
        return found

    def _read(self) -> tuple[GpuStatus, ...] | None:
        try:
            if not self._open:
                self.library.nvmlInit()
                self._open = True
            count = min(int(self.library.nvmlDeviceGetCount()), MAX_GPUS)
        except (pynvml.NVMLError, ValueError, TypeError):
            self._open = False
            return None
        return tuple(status for index in range(count) for status in self._gpu(index))

    def _gpu(self, index: int) -> Iterator[GpuStatus]:
        handle = self._told("nvmlDeviceGetHandleByIndex", index)
        uuid = None if handle is None else nvidia_uuid(self._told("nvmlDeviceGetUUID", handle))
        if uuid is None:
            return
        if not self._sliced(handle):
            yield self._status(index, uuid, handle, handle)
            return
        most = self._told("nvmlDeviceGetMaxMigDeviceCount", handle)
        for place in range(min(most, MAX_GPUS) if isinstance(most, int) else 0):
            instance = self._told("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            name = instance and nvidia_uuid(self._told("nvmlDeviceGetUUID", instance))
            if name is not None:
                yield self._status(index, name, instance, handle, parent=uuid)

    def _sliced(self, handle: Any) -> bool:
        """Whether it is in MIG mode: of the mode now, and of that after a reset, the first."""
        mode = self._told("nvmlDeviceGetMigMode", handle)
        return isinstance(mode, Sequence) and list(mode[:1]) == [1]

    def _status(
        self, index: int, uuid: str, handle: Any, whole: Any, parent: str | None = None
    ) -> GpuStatus:
        """Of a GPU; or of an instance, whose heat and clocks are those of the whole GPU."""
        rates = None if parent else self._told("nvmlDeviceGetUtilizationRates", handle)
        bits = self._told("nvmlDeviceGetCurrentClocksThrottleReasons", whole)
        mode = self._told("nvmlDeviceGetComputeMode", whole)
        processes = self._processes(handle)
        reasons = throttle_reasons(bits) if isinstance(bits, int) else None
        return GpuStatus(
            uuid=uuid,
            index=index,
            name=words(self._told("nvmlDeviceGetName", handle)) or "NVIDIA GPU",
            kind="nvidia",
            parent_uuid=parent,
            utilisation=share(getattr(rates, "gpu", None)),
            **self._memory(handle),
            temperature_c=celsius(
                self._told("nvmlDeviceGetTemperature", whole, self.library.NVML_TEMPERATURE_GPU)
            ),
            throttle_reasons=reasons or (),
            processes=processes or (),
            compute_mode=COMPUTE_MODES.get(mode) if isinstance(mode, int) else None,
            unread=unread(processes, reasons),
            at_s=time.monotonic(),
        )

    def _memory(self, handle: Any) -> dict[str, int | None]:
        """What is in use. Of the newer call: the older one counts the driver's own share, too."""
        newer = getattr(self.library, "nvmlMemory_v2", None)
        said = newer and self._told("nvmlDeviceGetMemoryInfo", handle, newer)
        said = said or self._told("nvmlDeviceGetMemoryInfo", handle)
        return memory(
            size_bytes(getattr(said, "used", None)), size_bytes(getattr(said, "total", None))
        )

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        """Everyone who has the GPU open; None if whoever computes on it can't be listed."""
        computing = running(handle, self.library)
        clients = self._told("nvmlDeviceGetMPSComputeRunningProcesses", handle)
        drawing = self._told("nvmlDeviceGetGraphicsRunningProcesses", handle)
        # A GPU without a display, or without MPS, may know no such call.
        lists = (computing, () if clients is None else clients, () if drawing is None else drawing)
        if not all(isinstance(some, list | tuple) for some in lists):
            return None
        listed = [(one, some is drawing) for some in lists for one in some]
        if not all(isinstance(getattr(one, "pid", None), int) for one, _ in listed):
            return None
        if clients is None and any(MPS_SERVER in (self._name(one) or "") for one, _ in listed):
            return None
        return merged(
            seen(
                one.pid,
                name=self._name(one),
                memory_bytes=size_bytes(getattr(one, "usedGpuMemory", None)),
                drawing=draws,
            )
            for one, draws in listed
        )

    def _name(self, process: Any) -> str | None:
        return words(self._told("nvmlSystemGetProcessName", process.pid))

    def _told(self, question: str, *arguments: Any) -> Any:
        return told(question, *arguments, library=self.library)

    def _silent(self) -> MachineError:
        try:
            answer(["nvidia-smi", "-L"], self.deadline_s / 4)
        except MachineError:
            return MachineError(
                "NVML doesn't answer", hint="nvidia-smi must work; `dmesg | grep -i nvrm` if not"
            )
        return MachineError(
            "NVML doesn't answer, though nvidia-smi works",
            hint="the Python binding is at fault: pip install --upgrade nvidia-ml-py;"
            " libnvidia-ml.so.1 must be among `ldconfig -p`",
        )
