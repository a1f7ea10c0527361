"""What the reference of a kernel on a GPU needs of this machine, looked for before it starts."""

from __future__ import annotations

import importlib.util
import sys

from roofsmith.errors import ToolMissingError

SEES_GPU = "python -c 'import torch; torch.zeros(1).cuda()'"
"""Fails with PyTorch's own reason where it can't use the GPU."""

SEES_NO_GPU = "torch sees no GPU in the reference's process"
"""How the reference's process complains of a PyTorch that can't use the GPU."""


def blind_torch(reference: str, said: str) -> ToolMissingError:
    """PyTorch is there, and of no use: it is built for the processor, or doesn't fit the driver."""
    return ToolMissingError(
        f"{reference}: {said}",
        hint="install a PyTorch built for CUDA (AMD's GPUs: ROCm), https://pytorch.org/get-started"
        " has the command; `roofsmith doctor TARGET` says what is lacking",
    )


def require_torch(reference: str) -> None:
    """Make sure that PyTorch is installed; it isn't imported.

    Raises:
        ToolMissingError: it isn't.
    """
    if importlib.util.find_spec("torch") is not None:
        return
    raise ToolMissingError(
        f"PyTorch is not installed: {reference} has to compute with it, and kernels on a GPU are"
        " judged in its memory",
        hint=f"{sys.executable} -m pip install torch; https://pytorch.org/get-started has the"
        " command for this machine's driver, or for ROCm",
    )
