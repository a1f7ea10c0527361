"""Every GPU of this host that this process may use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from roofsmith.domain.fleet import Fleet, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.fleet_amdsmi import AmdSmiFleet
from roofsmith.machine.fleet_nvml import NvmlFleet
from roofsmith.machine.fleet_tools import DEADLINE_S
from roofsmith.machine.fleet_visible import visible
from roofsmith.machine.plugged import NAMES, Vendor

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
)  # fmt: skip
"""What may hide GPUs from a process."""


@dataclass(slots=True)
class HostFleet:
    """This host's GPUs of one vendor, less those that this process may not use."""

    kind: Vendor
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """Empty: no GPU is hidden."""
    source: Fleet | None = None
    """None: the vendor's own."""
    deadline_s: float = DEADLINE_S
    """Of the vendor's own source."""

    def __post_init__(self) -> None:
        if self.source is None:
            own = NvmlFleet if self.kind == "nvidia" else AmdSmiFleet
            self.source = own(deadline_s=self.deadline_s).gpus

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU of this kind that this process may use.

        Raises:
            MachineError: its driver doesn't answer, there is no such GPU, or none that may be used.
        """
        shown = self._shown()
        left = visible(shown, self.environment)
        if not left:
            names = [name for name in VARIABLES if name in self.environment]
            said = ", ".join(f"{name}={self.environment[name]}" for name in names)
            raise MachineError(
                f"of the {len(shown)} GPUs here none may be used: {said}",
                hint="unset that, or name a GPU that is there (nvidia-smi -L, rocm-smi -u)",
            )
        return left

    def _shown(self) -> tuple[GpuStatus, ...]:
        assert self.source is not None, "set when it was made"
        none = f"no {NAMES[self.kind]} GPU can be seen here: "
        try:
            found = self.source()
        except MachineError as error:
            raise MachineError(f"{none}{error.message}", hint=error.hint) from error
        if not found:
            raise MachineError(
                f"{none}its driver shows none",
                hint="is one built in, and passed to this container?",
            )
        return found
