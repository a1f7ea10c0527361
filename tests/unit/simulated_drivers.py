"""Drivers whose GPUs live in a file, so that what a killed process left locked can be seen.

`SimulatedNvml` takes the place of the module pynvml, `SimulatedRocmSmi` that of the program
rocm-smi, for the calls that locking clocks takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pynvml

UUID: Final = "GPU-00000000-0000-0000-0000-0000000000c1"
OTHER_UUID: Final = "GPU-00000000-0000-0000-0000-0000000000c2"
BASE_MHZ: Final = 1590
"""What the simulated NVIDIA GPU's TDP limit is."""
_NVIDIA: Final = {
    "sm": [0, 0], "memory": [0, 0], "application": [1980, 2619], "max_memory": 2619,
    "architecture": pynvml.NVML_DEVICE_ARCH_HOPPER, "mig": 0, "reasons": 0,
}  # fmt: skip


class SimulatedNvml:
    """Answers as pynvml does, and raises its errors.

    `sm` and `memory` of a GPU are its locked range in MHz, `[0, 0]` where nothing is locked.
    """

    def __init__(self, path: Path, *, uuids: tuple[str, ...] = (UUID, OTHER_UUID)) -> None:
        self.path = path
        if not path.exists():
            self._save({"gpus": {uuid: dict(_NVIDIA) for uuid in uuids}, "refuses": {}})

    def gpu(self, uuid: str = UUID) -> dict[str, Any]:
        """The state of one GPU."""
        return dict(self._load()["gpus"][uuid])

    def set(self, uuid: str = UUID, **values: Any) -> None:
        """Change the state of one GPU, as somebody else would."""
        state = self._load()
        state["gpus"][uuid].update(values)
        self._save(state)

    def refuse(self, function: str, error: int | None) -> None:
        """From now on a function fails with an NVML error code; None: no longer."""
        state = self._load()
        state["refuses"][function] = error
        self._save(state)

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """Any function of NVML; unknown ones are not supported."""
        if not function.startswith("nvml"):
            raise AttributeError(function)

        def call(*arguments: Any) -> Any:
            if (error := self._load()["refuses"].get(function)) is not None:
                raise pynvml.NVMLError(error)
            if function in ("nvmlInit", "nvmlShutdown"):
                return None
            return self._answer(function, *arguments)

        return call

    def _answer(self, function: str, uuid: str, *values: int) -> Any:
        gpus = self._load()["gpus"]
        if uuid not in gpus:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        gpu = SimpleNamespace(**gpus[uuid])
        match function:
            case "nvmlDeviceGetHandleByUUID":
                return uuid
            case "nvmlDeviceGetArchitecture":
                return gpu.architecture
            case "nvmlDeviceGetMigMode":
                return [gpu.mig, gpu.mig]
            case "nvmlDeviceGetCurrentClocksThrottleReasons":
                return gpu.reasons
            case "nvmlDeviceGetApplicationsClock":
                return gpu.application[values[0] == pynvml.NVML_CLOCK_MEM]
            case "nvmlDeviceGetMaxClockInfo":
                return gpu.max_memory
            case "nvmlDeviceGetClockInfo":
                return gpu.sm[1] or 345
            case "nvmlDeviceSetGpuLockedClocks":
                symbolic = {pynvml.NVML_CLOCK_LIMIT_ID_TDP: BASE_MHZ}
                return self.set(uuid, sm=[symbolic.get(value, value) for value in values])
            case "nvmlDeviceSetMemoryLockedClocks":
                return self.set(uuid, memory=list(values))
            case "nvmlDeviceResetGpuLockedClocks":
                return self.set(uuid, sm=[0, 0])
            case "nvmlDeviceResetMemoryLockedClocks":
                return self.set(uuid, memory=[0, 0])
            case "nvmlDeviceSetApplicationsClocks":
                return self.set(uuid, application=[values[1], values[0]])
            case _:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _load(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text(encoding="utf-8")))

    def _save(self, state: Mapping[str, Any]) -> None:
        staged = self.path.with_suffix(".staged")
        staged.write_text(json.dumps(state), encoding="utf-8")
        staged.replace(self.path)
