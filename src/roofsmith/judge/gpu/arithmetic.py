"""torch for `judge.correctness.distributions`."""

from __future__ import annotations

from typing import Any

import torch

from roofsmith.analysis.tolerance import LARGEST_ERROR, Errors
from roofsmith.judge.gpu.measuring import measure
from roofsmith.judge.gpu.tensors import DTYPES

_NAMES = {kind: name for name, kind in DTYPES.items()}


class TorchArithmetic:
    """Port `Arithmetic` on torch, wherever tensors lie."""

    xp: Any = torch

    def __init__(self) -> None:
        self._seed = 0
        self._generators: dict[str, torch.Generator] = {}

    def is_floating(self, value: Any) -> bool:
        """Whether it is a tensor of floating-point numbers."""
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    def dtype(self, array: Any) -> str:
        """Its element type."""
        return _NAMES[array.dtype]

    def wide(self, array: Any) -> Any:
        """A copy of a tensor in at least float32."""
        return array.to(torch.promote_types(array.dtype, torch.float32), copy=True)

    def double(self, array: Any) -> Any:
        """A copy of a tensor in float64."""
        return array.to(torch.float64, copy=True)

    def like(self, array: Any, model: Any) -> Any:
        """A contiguous tensor in the element type of another."""
        return array.to(model.dtype).contiguous()

    def uniform(self, model: Any) -> Any:
        """Numbers in [0, 1), of the same shape."""
        kind = torch.promote_types(model.dtype, torch.float32)
        place = str(model.device)
        if place not in self._generators:
            self._generators[place] = torch.Generator(device=model.device).manual_seed(self._seed)
        generator = self._generators[place]
        return torch.rand(model.shape, dtype=kind, device=model.device, generator=generator)

    def errors(self, out: Any, truth: Any) -> Errors:
        """How far an output is from the truth."""
        norm, element = measure(out[None], truth[None], None, None)[0, :2].tolist()
        return Errors(min(norm, LARGEST_ERROR), min(element, LARGEST_ERROR))

    def reseed(self, seed: int) -> None:
        """Begin the numbers of `uniform` anew."""
        self._seed = seed
        self._generators.clear()
