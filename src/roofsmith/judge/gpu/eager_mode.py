"""Seeing what a reference in PyTorch dispatches, without PyTorch's compiler in between."""

from __future__ import annotations

import sys
from types import MethodType

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class EagerMode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that is never compiled, not even under a reference that is.

    The compiler would make one graph of what a mode does with an operator, and a backend may leave
    out of it what looks like nothing: a value rounded to another type and back.
    """

    def __init__(self) -> None:
        super().__init__()
        if "torch._dynamo" in sys.modules:  # else nothing was compiled
            kept_out = torch.compiler.disable(type(self).__torch_dispatch__)
            self.__dict__["__torch_dispatch__"] = MethodType(kept_out, self)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else PyTorch does the above itself, and imports its compiler for that, which takes 5 to
        7 s on an H100's host. A version that doesn't ask imports it."""
        return False
