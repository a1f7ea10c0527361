"""What the reference of a kernel on a GPU needs of this machine, looked for before it starts."""

from __future__ import annotations

import importlib.util
import sys

from roofsmith.errors import ToolMissingError

SEES_GPU = "python -c 'import torch; torch.zeros(1).cuda()'"
"""Fails with PyTorch's own reason where it can't use the GPU."""


def require_torch(reference: str) -> None:
    """Make sure that PyTorch is installed; it isn't imported.

    Args:
        reference: the file that computes with it.

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
