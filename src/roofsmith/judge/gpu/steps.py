"""A reference in PyTorch, run with the result of every operator changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only

from roofsmith.judge.gpu.eager_mode import EagerMode


def with_every_result(call: Callable[[], Any], change: Callable[[torch.Tensor], Any]) -> None:
    """Run something with what every operator gives changed, where that is floating.

    What an operator holds inside isn't seen, but for attention, which is taken apart; nor is what
    is written in place.

    Args:
        call: runs it.
        change: gives a tensor in place of another, of its shape and type.
    """
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Changed(change):
        call()


class _Changed(EagerMode):
    def __init__(self, change: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self._change = change

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):
            return made  # a view, or an argument: what is written there has to stay there
        return tree_map_only(torch.Tensor, self._changed, made)

    def _changed(self, made: torch.Tensor) -> Any:
        return self._change(made) if made.is_floating_point() else made
