"""What a reference in PyTorch computes if its operators hand on a narrow type only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofsmith.judge.gpu.steps import with_every_result

ROOM = 4.0
"""Between the largest number that may pass and the type's own largest: kernels scale at other
places than a reference does. Chosen."""


def narrowed(call: Callable[[], Any], kind: torch.dtype) -> None:
    """Run something with every operator's result rounded to a type, and infinite beyond its range.

    Args:
        call: runs it; see `gpu.steps` for what isn't seen of it.
        kind: float16 or bfloat16.
    """
    limit = torch.finfo(kind).max / ROOM

    def rounded(wide: torch.Tensor) -> torch.Tensor:
        beyond = wide.isfinite() & (wide.abs() > limit)
        return torch.where(beyond, wide.sign() * torch.inf, wide.to(kind).to(wide.dtype))

    with_every_result(call, rounded)
