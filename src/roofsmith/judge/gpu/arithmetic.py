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
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    def dtype(self, array: Any) -> str:
        return _NAMES[array.dtype]

    def wide(self, array: Any) -> Any:
        return array.to(torch.promote_types(array.dtype, torch.float32), copy=True)

    def double(self, array: Any) -> Any:
        return array.to(torch.float64, copy=True)

    def like(self, array: Any, model: Any) -> Any:
        return array.to(model.dtype).contiguous()

    def uniform(self, model: Any) -> Any:
        kind = torch.promote_types(model.dtype, torch.float32)
        place = str(model.device)
        if place not in self._generators:
            self._generators[place] = torch.Generator(device=model.device).manual_seed(self._seed)
        generator = self._generators[place]
        return torch.rand(model.shape, dtype=kind, device=model.device, generator=generator)

    def errors(self, out: Any, truth: Any) -> Errors:
        norm, element = measure(out[None], truth[None], None, None)[0, :2].tolist()
        return Errors(min(norm, LARGEST_ERROR), min(element, LARGEST_ERROR))

    def reseed(self, seed: int) -> None:
        self._seed = seed
        self._generators.clear()
