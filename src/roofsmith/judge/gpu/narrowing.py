"""What a reference in PyTorch computes if its operators hand on a narrow type only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

ROOM = 4.0
"""Between the largest number that may pass and the type's own largest: kernels scale at other
places than a reference does. Chosen."""


def narrowed(call: Callable[[], Any], kind: torch.dtype) -> None:
    """Run something with every operator's result rounded to a type, and infinite beyond its range.

    What an operator holds inside isn't seen, but for attention, which is taken apart; nor is what
    is written in place.

    Args:
        call: runs it.
        kind: float16 or bfloat16.
    """
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Narrow(kind):
        call()


class _Narrow(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self._kind = kind
        self._limit = torch.finfo(kind).max / ROOM

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):
            return made  # a view, or an argument: what is written there has to stay there
        return tree_map_only(torch.Tensor, self._rounded, made)

    def _rounded(self, wide: torch.Tensor) -> torch.Tensor:
        if not wide.is_floating_point():
            return wide
        beyond = wide.isfinite() & (wide.abs() > self._limit)
        return torch.where(beyond, wide.sign() * torch.inf, wide.to(self._kind).to(wide.dtype))
