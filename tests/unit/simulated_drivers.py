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

from roofsmith.errors import MachineError

UUID: Final = "GPU-00000000-0000-0000-0000-0000000000c1"
OTHER_UUID: Final = "GPU-00000000-0000-0000-0000-0000000000c2"
AMD_UUID: Final = "GPU-92462fe4e0e4ab01"
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


class SimulatedRocmSmi:
    """Prints what rocm-smi's documentation and code say, for two cards whose levels are in a file.

    Args:
        path: of the file.
        supported: whether the driver knows performance determinism.
        stuck: whether a reset fails; rocm-smi's exit status is 0 all the same.
    """

    def __init__(self, path: Path, *, supported: bool = True, stuck: bool = False) -> None:
        self.path, self.supported, self.stuck = path, supported, stuck
        self.partition = "SPX"
        if not path.exists():
            self.set_levels({"0": "auto", "1": "auto"})

    def levels(self) -> dict[str, str]:
        """Performance level by number."""
        return dict(json.loads(self.path.read_text(encoding="utf-8")))

    def set_levels(self, levels: Mapping[str, str]) -> None:
        """As somebody else would."""
        self.path.write_text(json.dumps(levels), encoding="utf-8")

    def __call__(self, *arguments: str) -> str:
        """What it prints.

        Raises:
            MachineError: its exit status isn't 0.
        """
        match arguments:
            case ("--showuniqueid", "--showperflevel", "--json"):
                ids = {"0": "0xdeadbeef00000001", "1": f"0x{AMD_UUID.removeprefix('GPU-')}"}
                cards = {
                    f"card{number}": {"Unique ID": ids[number], "Performance Level": level}
                    for number, level in self.levels().items()
                }
                return (
                    f"WARNING: AMD GPU device(s) is/are in a low-power state.\n{json.dumps(cards)}"
                )
            case ("--showcomputepartition", "--json"):
                return json.dumps({"card1": {"Compute Partition": self.partition}})
            case ("-d", number, "--setperfdeterminism", megahertz) if megahertz.isdecimal():
                if not self.supported:
                    raise MachineError("rocm-smi says: Not supported on the given system")
                self.set_levels(self.levels() | {number: "perf_determinism"})
                return "Successfully enabled performance determinism"
            case ("-d", number, "--resetperfdeterminism"):
                if self.stuck:
                    return "Unable to disable performance determinism"
                self.set_levels(self.levels() | {number: "auto"})
                return "Successfully disabled performance determinism"
            case _:
                raise MachineError(f"rocm-smi: error: unrecognized arguments: {arguments}")
