"""What a reference in PyTorch computes if every operator rounds as another kernel's would.

A difference that is exactly zero because both sides came about in the same way, or a probability
that vanished, is what a reference's own error doesn't show: another kernel has a rounding error
there, which may be multiplied by a huge number, or decide what is the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

UNIT = 2.0**-23
"""Of itself, by which a result is moved at most: an epsilon of float32."""
VANISHED = 1e-30
"""In place of a zero, at most. Chosen: a normal number in float32, and small beside any other."""


def shaken(call: Callable[[], Any]) -> None:
    """Run something with every operator's result moved by up to an epsilon of float32, at random.

    What an operator holds inside isn't seen, but for attention, which is taken apart; nor is what
    is written in place.
    """
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Shaken():
        call()


class _Shaken(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):
            return made  # a view, or an argument: what is written there has to stay there
        return tree_map_only(torch.Tensor, self._moved, made)

    def _moved(self, exact: torch.Tensor) -> torch.Tensor:
        if not exact.is_floating_point():
            return exact
        device = exact.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(1)
        chance = torch.rand(
            exact.shape, dtype=torch.float64, device=device, generator=self._generators[device]
        )
        wide = exact.double()
        moved = torch.where(wide == 0, VANISHED * chance, wide * (1 + UNIT * (2 * chance - 1)))
        return moved.to(exact.dtype)
