"""Whose fault it is that the reference's process fails: its own, or the device's."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile

from roofsmith.errors import DeviceFailedError, RoofsmithError

PROBE_DEADLINE_S = 60.0
"""For a process that imports torch and adds one number; seconds, where the device is well."""
KILLED_S = 5.0
"""For a process that was killed to be gone."""
_PROBE = "import torch; torch.zeros(1).cuda().add_(1); torch.cuda.synchronize()"

_FROM_DEVICE = re.compile(
    r"\b(?:CUDA|HIP) error\b|\bCUDA_ERROR_|\b(?:cuda|hip)Error[A-Z]|\btorch sees no GPU\b"
)
"""How torch and drivers begin what a device reports; running out of its memory isn't among it."""
_FAULTS = re.compile(
    r"uncorrectable|hardware stack error|unknown error|ERROR_UNKNOWN|ErrorUnknown|contained"
    r"|busy or unavailable|DEVICE_UNAVAILABLE|DevicesUnavailable|reset required"
    r"|system not (?:yet )?(?:ready|initialized)|SYSTEM_NOT_READY",
    re.IGNORECASE,
)
"""Of the errors of CUDA's driver and runtime, in words or by name, those that no kernel makes:
cuda.h, `CUresult` 46, 214, 220, 714, 721, 802 and 999."""


def is_from_device(said: str) -> bool:
    """Whether an error is one that a driver or a runtime reports, whoever caused it."""
    return _FROM_DEVICE.search(said) is not None


def is_device_fault(said: str) -> bool:
    """Whether an error is one that only hardware or its driver causes."""
    return is_from_device(said) and _FAULTS.search(said) is not None


def why_silent(deadline_s: float = PROBE_DEADLINE_S) -> str | None:
    """Why another process can't compute on the device; None if it can."""
    with tempfile.TemporaryFile() as said:
        probe = subprocess.Popen(
            [sys.executable, "-c", _PROBE],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = probe.wait(deadline_s)
        except subprocess.TimeoutExpired:
            probe.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in a driver: it is left
                probe.wait(KILLED_S)
            return f"it doesn't answer within {deadline_s:g} s"
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    if status == 0:
        return None
    return lines[-1][:300] if lines else f"exit code {status}"


def device_failed(error: RoofsmithError, why: str) -> DeviceFailedError:
    """What the reference's failure comes to where the device is at fault."""
    return DeviceFailedError(
        f"the GPU failed under the reference: {error.message} ({why})",
        log=error.log,
        hint="`nvidia-smi -q` and Xid in `dmesg` say what is wrong with it: reset it with "
        "`nvidia-smi -r`, or choose another one with CUDA_VISIBLE_DEVICES",
    )
