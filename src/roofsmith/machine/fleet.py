"""Every GPU of this host that this process may use, from whichever source answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofsmith.domain.fleet import Fleet, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.fleet_amdsmi import AmdSmiFleet
from roofsmith.machine.fleet_nvml import NvmlFleet
from roofsmith.machine.fleet_tools import DEADLINE_S
from roofsmith.machine.fleet_visible import visible
from roofsmith.machine.nvidia import ask_cuda
from roofsmith.machine.plugged import NAMES, Vendor
from roofsmith.machine.rocm_smi import RocmSmiFleet

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
)  # fmt: skip
"""What may hide GPUs from a process."""


@dataclass(slots=True)
class HostFleet:
    """This host's GPUs of one vendor, less those that this process may not use.

    A source that has answered is asked first from then on, so that the readings of a window can be
    compared; where it stops answering, the next one takes over.
    """

    kind: Vendor
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """Empty: no GPU is hidden."""
    sources: Sequence[Fleet] = ()
    """The best first; empty: the vendor's own."""
    ask_cuda: Callable[[], dict[str, Any]] = ask_cuda
    deadline_s: float = DEADLINE_S
    """Of each of the vendor's own sources."""
    _order: list[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.sources and self.kind == "nvidia":
            self.sources = (NvmlFleet(deadline_s=self.deadline_s).gpus,)
        elif not self.sources:
            amdsmi, smi = AmdSmiFleet(deadline_s=self.deadline_s), RocmSmiFleet(self.deadline_s)
            self.sources = (amdsmi.gpus, smi.gpus)

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU of this kind that this process may use.

        Raises:
            MachineError: no source answers, there is no such GPU, or none that may be used.
        """
        shown = self._shown()
        left = visible(shown, self.environment, self._numbered)
        if not left:
            names = [name for name in VARIABLES if name in self.environment]
            said = ", ".join(f"{name}={self.environment[name]}" for name in names)
            raise MachineError(
                f"of the {len(shown)} GPUs here none may be used: {said}",
                hint="unset that, or name a GPU that is there (nvidia-smi -L, rocm-smi -u)",
            )
        return left

    def _shown(self) -> tuple[GpuStatus, ...]:
        failures: list[MachineError] = []
        for source in self.sources:
            try:
                found = source()
            except MachineError as error:
                failures.append(error)
                continue
            if found:
                self.sources = (source, *(other for other in self.sources if other != source))
                return found
        said = "; ".join(error.message for error in failures) or "their drivers show none"
        raise MachineError(
            f"no {NAMES[self.kind]} GPU can be seen here: {said}",
            hint=failures[0].hint if failures else "is one built in, and passed to this container?",
        )

    def _numbered(self) -> list[str] | None:
        """CUDA's order. Asked once: pinning changes the answer of those who ask later."""
        if self._order is None:
            uuids = self.ask_cuda().get("uuids")
            self._order = list(uuids) if isinstance(uuids, list) else None
        return self._order
