"""Which device a kernel's language runs on."""

from __future__ import annotations

from pathlib import Path

from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import Language
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.nvidia import NvidiaSource, asked_once
from roofsmith.ports import DeviceSource

KFD = "dev/kfd"
"""AMD's compute driver."""
NVIDIA_CONTROL = "dev/nvidiactl"


def source_for(language: Language, root: Path = Path("/")) -> DeviceSource:
    """Where a kernel in this language finds its device.

    Triton, PyTorch and most dialects run on both vendors' GPUs: AMD's only where there is AMD's
    driver and not NVIDIA's, so that a machine without either hears of NVIDIA's, the usual case.
    """
    match language:
        case "c" | "cpp" | "command":  # whoever wires a repository asks for its device's language
            return CpuSource(root)
        case "cuda":
            return NvidiaSource(root, asked_once())
        case "hip":
            return AmdSource(root)
        case _ if (dialect := DIALECTS.get(language)) is not None and dialect.vendor is not None:
            is_amd = dialect.vendor == "amd"
        case _:
            has_amd, has_nvidia = (root / KFD).exists(), (root / NVIDIA_CONTROL).exists()
            is_amd = has_amd and not has_nvidia
    return AmdSource(root) if is_amd else NvidiaSource(root, asked_once())
