"""The reference on a GPU, from the parent's side: descriptions, device memory, draws, findings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import Scalar, WorkloadDescription
from roofsmith.domain.kernel import MODULE_LANGUAGES, Signature
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, RoofsmithError, TargetError
from roofsmith.judge.gpu.device_faults import (
    device_failed,
    is_device_fault,
    is_from_device,
    why_silent,
)
from roofsmith.judge.gpu.layout import BFLOAT16, host_spec
from roofsmith.judge.gpu.prerequisites import SEES_GPU, SEES_NO_GPU, blind_torch, require_torch
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import as_json
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.judge.host.oracle import ReferenceProcess

COPIES = 7
"""How many times a workload's arrays lie in device memory: the slot, what was drawn for it and
before, and the float64 and declared ones of one check."""
MEMORY_SHARE = 0.8
"""Of the device's free memory that a judgement may take."""

CHOOSES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that say which GPU is used. A process may be there before it is known which."""


class DeviceFullError(TargetError):
    """The reference's process found no device memory: others hold it, or it needs too much."""


class GpuOracle(ReferenceProcess):
    """Port `Oracle` for kernels on a GPU; also owns the memory that they are judged on."""

    module = "roofsmith.judge.gpu.reference_process"

    def __init__(
        self,
        target: Target,
        signature: Signature,
        booted: BootedProcess | None = None,
        leased: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        compiled_dir: Path | None = None,
    ) -> None:
        """See `ReferenceProcess`.

        Args:
            target: has the reference.
            signature: of the kernel's entry.
            booted: its first process.
            leased: holds the GPU, which its process uses in nobody else's turn.
            compiled_dir: of all sources.
        """
        super().__init__(target, signature, booted, compiled_dir)
        self._leased = leased
        self._descriptions: dict[str, WorkloadDescription] = {}
        self._next_arena = 0
        self._memory_bytes = 0
        self._answered: set[str] = set()
        """What the reference was seen to do, in this process's life or an earlier one's."""
        self.starts = 0
        """Processes so far: what one held is gone with it."""

    def start(self) -> None:
        """Start the process, unless it runs.

        Raises:
            ToolMissingError: PyTorch isn't installed.
        """
        if not self.is_alive:
            require_torch(self._name)
            self.starts += 1
        super().start()

    def ask(self, *message: Any, **more: Any) -> dict[str, Any]:
        """One message and its answer, see `ReferenceProcess`, in our turn on the GPU.

        Raises:
            NoIdleGpuError: our turn didn't come.
        """
        with self._leased():
            return super().ask(*message, **more)

    @property
    def _by_hand(self) -> str:
        """What to try where the process ended without a word: a torch of another build does so."""
        return f"{SEES_GPU} says whether PyTorch works here; if so, {super()._by_hand}"

    @property
    def memory_bytes(self) -> int:
        """Device memory that a judgement may take."""
        self._require_started()
        return int(self._memory_bytes * MEMORY_SHARE)

    def describe(self, workload: Workload) -> WorkloadDescription:
        """Shapes, types and declared cost of a workload.

        Raises:
            BadReferenceError: the reference raises, hangs, or doesn't fit the kernel's signature.
            TargetError: the workload can't fit in the device's memory.
            ToolMissingError: PyTorch isn't installed, or sees no GPU.
        """
        if workload.label not in self._descriptions:
            description = self.described(workload)
            self._require_memory(workload, description)
            self._descriptions[workload.label] = description
        return self._descriptions[workload.label]

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | Scalar]:
        """Fresh arguments in the host's memory, in order; outputs are zeros.

        Arrays of bfloat16 are given as `BFLOAT16`, which has its bits.

        Raises:
            BadReferenceError: the reference raises or hangs.
        """
        description = self.describe(workload)
        specs = [host_spec(array) for array in description.arrays]
        arena = Arena(specs, 1)
        try:
            message = {"dims": workload.dims, "seed": seed, "arrays": as_json(specs)}
            self.ask("export", message, (arena.fd,))
            arrays: dict[str, NDArray[np.generic] | Scalar] = {
                a.name: _on_host(a, arena) for a in description.arrays
            }
        finally:
            arena.close()
        return {
            name: arrays[name] if name in arrays else description.scalars[name]
            for name in description.arguments
        }

    def slots(self, workload: Workload, count: int) -> contextlib.closing[Slots]:
        """Device memory for `count` sets of arrays, until the end of the block.

        Raises:
            DeviceFullError: there is too little.
        """
        number = self._next_arena
        self._next_arena += 1
        return contextlib.closing(Slots(self, number, workload, count))

    def is_at_work(self) -> bool:
        """Whether the device works for anybody but the reference, at this instant.

        Raises:
            BadReferenceError: its process died.
        """
        return bool(self.ask("probe", {})["at_work"])

    def free_bytes(self) -> int:
        """Device memory that nobody holds; the reference's process gives back what it doesn't use.

        Raises:
            BadReferenceError: its process died.
        """
        return int(self.ask("rest", {})["free_bytes"])

    def _load(self, path: Path) -> None:
        is_module = self.target.language in MODULE_LANGUAGES
        answer = self.ask(
            "load",
            {
                "path": str(path),
                "environment": {name: os.environ[name] for name in CHOOSES if name in os.environ},
                "kernel": str(self._written(self.target.kernel, "kernel")) if is_module else None,
                "signature": self.signature.model_dump(mode="json"),
                "ptr_size": self.target.ptr_size,
                "tf32": self.target.tf32,
                **self._extensions,
            },
        )
        self._memory_bytes = answer["memory_bytes"]

    def _complaint(
        self, op: str, message: dict[str, Any], answer: dict[str, Any]
    ) -> RoofsmithError:
        if SEES_NO_GPU in answer["error"]:
            self.close()
            return blind_torch(self._name, answer["error"])
        error = super()._complaint(op, message, answer)
        if answer.get("memory"):
            return DeviceFullError(error.message, hint=error.hint)
        if not is_from_device(answer["error"]):
            return error
        self.close()  # nothing works in this context any more
        return self._blamed(op, message, error, certain=is_device_fault(answer["error"]))

    def _lost(self, op: str, message: dict[str, Any], error: BadReferenceError) -> RoofsmithError:
        return self._blamed(op, message, error)

    def _heard(self, op: str, message: dict[str, Any]) -> None:
        self._answered.add(_deed(op, message))

    def _blamed(
        self, op: str, message: dict[str, Any], error: RoofsmithError, *, certain: bool = False
    ) -> RoofsmithError:
        """The reference's fault, or the device's.

        It is the device's where the driver says so, where the reference did the same before, and
        where nobody else can compute on it either.
        """
        if certain:
            return device_failed(error, "the driver says that the device is at fault")
        if "load" not in self._answered:
            return error  # PyTorch may not work here at all
        if _deed(op, message) in self._answered:
            return device_failed(error, "the reference did the same before")
        why = why_silent()
        return error if why is None else device_failed(error, f"nor does another process: {why}")

    def _require_started(self) -> None:
        if not self._memory_bytes:
            self.describe(self.target.workloads[0])

    def _require_memory(self, workload: Workload, description: WorkloadDescription) -> None:
        needed = COPIES * sum(array.size_bytes for array in description.arrays)
        if needed > self._memory_bytes:
            raise TargetError(
                f"workload {workload.label} needs about {needed / 1e9:.1f} GB of device memory to"
                f" be judged ({COPIES} copies of its arrays), and {self._memory_bytes / 1e9:.1f} GB"
                " are free",
                hint="choose a smaller workload, or free the device",
            )


def _deed(op: str, message: dict[str, Any]) -> str:
    """What a message asks for, as far as it decides how much work that is."""
    how = message.get("how", {"dims": message.get("dims")})
    return f"{op} {sorted(how.items())}" if op != "load" else op


def _on_host(array: ArraySpec, arena: Arena) -> NDArray[np.generic]:
    dtype = BFLOAT16 if array.dtype == "bfloat16" else np.dtype(array.dtype)
    copy = np.zeros(array.shape, dtype)
    if array.is_given:
        np.copyto(copy, arena.view(0, array.name))
    return copy
