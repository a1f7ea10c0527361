"""Locking an NVIDIA GPU's clocks through NVML.

Asked for is the limit that NVML calls TDP, the base clock: NVIDIA rates a board to hold it under
any load within its power limit. The default application clocks would not do: on an H100 they are
the maximum boost clock, which heavy load doesn't sustain. Source: NVML API reference, Device
Commands, nvmlDeviceSetGpuLockedClocks (table of nvmlClockLimitId_t values).

What somebody else locked can't be read from NVML. Where the driver says that a setting limits the
clocks, nothing is touched, because it could not be put back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from roofsmith.domain.clocks import ClockSettings, LockedClocks
from roofsmith.errors import MachineError
from roofsmith.machine.nvml import told
from roofsmith.machine.permissions import CAP_SYS_ADMIN, capable

_MEGA: Final = 1e6


def may_administer() -> bool:
    """Whether this process may change a device's settings: root, as the host's kernel sees it.

    The kernel module asks for CAP_SYS_ADMIN (NV_IS_SUSER in NVIDIA's open-gpu-kernel-modules), and
    root in a container often lacks it.
    """
    return os.geteuid() == 0 and capable(CAP_SYS_ADMIN)


@dataclass(frozen=True, slots=True)
class NvmlClocks:
    """Holds a GPU's clocks still by NVML, all that changes a device's settings.

    Every method raises MachineError, with what to do, where NVML doesn't know the GPU.
    """

    nvml: Any = pynvml
    """The binding, or what behaves like it."""
    may_administer: Callable[[], bool] = may_administer

    def require_lockable(self, uuid: str) -> None:
        """That MIG is off, the GPU is no older than Volta, nobody has set its clocks, and this
        process may."""
        with self._device(uuid) as handle:
            if uuid.startswith("MIG-") or self._mig(handle):
                raise MachineError(
                    f"MIG is on: {uuid} is a slice of a GPU, whose clocks others share",
                    hint="run without --lock-clocks",
                )
            architecture = self._told("nvmlDeviceGetArchitecture", handle)
            if architecture is not None and architecture < pynvml.NVML_DEVICE_ARCH_VOLTA:
                raise MachineError(
                    f"{uuid} is older than Volta: its driver can't lock clocks",
                    hint="run without --lock-clocks",
                )
            if self._event_reasons(handle) & pynvml.nvmlClocksEventReasonApplicationsClocksSetting:
                raise MachineError(
                    f"somebody has set the clocks of {uuid} already, and NVML doesn't say to what:"
                    " they could not be put back",
                    hint=f"run without --lock-clocks; or undo that first: {self.by_hand(uuid)};"
                    f" sudo nvidia-smi -i {uuid} -rac",
                )
        if not self.may_administer():
            raise self._not_permitted(uuid)

    def settings(self, uuid: str) -> ClockSettings:
        """The application clocks; None where the GPU has none."""
        with self._device(uuid) as handle:
            return self._settings(handle)

    def lock(self, uuid: str) -> LockedClocks:
        """Hold the SMs at the base clock, and memory at its maximum where that can be locked."""
        tdp = pynvml.NVML_CLOCK_LIMIT_ID_TDP
        with self._device(uuid) as handle:
            try:
                self.nvml.nvmlDeviceSetGpuLockedClocks(handle, tdp, tdp)
            except pynvml.NVMLError_NoPermission as error:
                raise self._not_permitted(uuid) from error
            except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument) as error:
                raise MachineError(
                    f"the driver can't lock the clocks of {uuid} at its base clock: {error}",
                    hint="run without --lock-clocks, or with a newer driver",
                ) from error
            memory = self._lock_memory(handle)
            clock = self._told("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM)
        return LockedClocks(
            rule="base clock (NVML's TDP limit)", sm_hz=_hertz(clock), memory_hz=_hertz(memory)
        )

    def restore(self, uuid: str, before: ClockSettings) -> None:
        """Let the driver choose again, and set application clocks again that had been set."""
        with self._device(uuid) as handle:
            self.nvml.nvmlDeviceResetGpuLockedClocks(handle)
            # GPUs before Ampere have no locked memory clocks.
            with suppress(pynvml.NVMLError_NotSupported):
                self.nvml.nvmlDeviceResetMemoryLockedClocks(handle)
            sm, memory = before.application_sm_hz, before.application_memory_hz
            if sm is not None and memory is not None and self._settings(handle) != before:
                self.nvml.nvmlDeviceSetApplicationsClocks(
                    handle, round(memory / _MEGA), round(sm / _MEGA)
                )

    def by_hand(self, uuid: str) -> str:
        return f"sudo nvidia-smi -i {uuid} -rgc; sudo nvidia-smi -i {uuid} -rmc"

    @contextmanager
    def _device(self, uuid: str) -> Iterator[Any]:
        """Its handle; NVML's errors are ours."""
        try:
            self.nvml.nvmlInit()
            try:
                yield self.nvml.nvmlDeviceGetHandleByUUID(uuid)
            finally:
                # That it fails must not look as if nothing had been locked.
                with suppress(pynvml.NVMLError):
                    self.nvml.nvmlShutdown()
        except pynvml.NVMLError_NoPermission as error:
            raise self._not_permitted(uuid) from error
        except pynvml.NVMLError as error:
            raise MachineError(
                f"NVML failed for {uuid}: {error}", hint="does `nvidia-smi` work?"
            ) from error

    def _settings(self, handle: Any) -> ClockSettings:
        sm, memory = (
            self._told("nvmlDeviceGetApplicationsClock", handle, which)
            for which in (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_MEM)
        )
        return ClockSettings(application_sm_hz=_hertz(sm), application_memory_hz=_hertz(memory))

    def _lock_memory(self, handle: Any) -> int | None:
        """Memory runs at its maximum under load anyway; locked, it does so between loads too."""
        most = self._told("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM)
        if most is None:
            return None
        try:
            self.nvml.nvmlDeviceSetMemoryLockedClocks(handle, most, most)
        except pynvml.NVMLError:
            return None
        return int(most)

    def _mig(self, handle: Any) -> bool:
        modes = self._told("nvmlDeviceGetMigMode", handle)
        return modes is not None and bool(modes[0])

    def _event_reasons(self, handle: Any) -> int:
        return int(self._told("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0)

    def _told(self, question: str, *arguments: Any) -> Any:
        return told(question, *arguments, library=self.nvml)

    def _not_permitted(self, uuid: str) -> MachineError:
        return MachineError(
            f"this process may not lock the clocks of {uuid}: that takes root on the host"
            " (CAP_SYS_ADMIN, in a container too)",
            hint="sudo -E roofsmith …; or around a run without --lock-clocks:"
            f" sudo nvidia-smi -i {uuid} -lgc MHZ (`nvidia-smi base-clocks` says which), and"
            f" afterwards {self.by_hand(uuid)}",
        )


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else megahertz * _MEGA
