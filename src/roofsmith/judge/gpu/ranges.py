"""Whether what a reference in PyTorch computes on the way would fit into a narrow type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def stays_below(call: Callable[[], Any], limit: float) -> bool:
    """Run something and say whether all finite results of its operators are at most so large.

    What a fused operator holds inside isn't seen.

    Args:
        call: runs it.
        limit: magnitude.
    """
    watch = _Watch(limit)
    with torch.no_grad(), watch:
        call()
    return not any(bool(beyond) for beyond in watch.beyond)


class _Watch(TorchDispatchMode):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self._limit = limit
        self.beyond: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                size = leaf.abs()
                self.beyond.append(((size > self._limit) & size.isfinite()).any())
        return made
