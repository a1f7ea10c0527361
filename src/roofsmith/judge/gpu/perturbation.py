"""What a reference in PyTorch computes if every operator rounds as another kernel's would.

A difference that is exactly zero because both sides came about in the same way, or a probability
that vanished, is what a reference's own error doesn't show: another kernel has a rounding error
there, which may be multiplied by a huge number, or decide what is the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofsmith.judge.gpu.steps import with_every_result

UNIT = 2.0**-23
"""Of itself, by which a result is moved at most: an epsilon of float32."""
VANISHED = 1e-30
"""In place of a zero, at most. Chosen: a normal number in float32, and small beside any other."""


def shaken(call: Callable[[], Any]) -> None:
    """Run something with every operator's result moved by up to an epsilon of float32, at random.

    Args:
        call: runs it; see `gpu.steps` for what isn't seen of it.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def moved(exact: torch.Tensor) -> torch.Tensor:
        device = exact.device
        if device not in generators:
            generators[device] = torch.Generator(device).manual_seed(1)
        chance = torch.rand(
            exact.shape, dtype=torch.float64, device=device, generator=generators[device]
        )
        wide = exact.double()
        made = torch.where(wide == 0, VANISHED * chance, wide * (1 + UNIT * (2 * chance - 1)))
        return made.to(exact.dtype)

    with_every_result(call, moved)
