"""In a worker: Python expressions that draw inputs of any size like those that were seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from roofsmith.targets.pytorch.program import Axis

LOOKED_AT = 1 << 20
"""Elements of an input that are looked at. Chosen: a thousandth off, at most."""
UNIFORM_WIDTH = 12**0.5
"""Range of uniform numbers over their standard deviation."""


def draw_of(tensor: torch.Tensor, shape: Sequence[Axis], below: str | None = None) -> str:
    """An expression for a tensor of this type and like numbers.

    Args:
        tensor: one that was given.
        shape: in dims.
        below: a dim that its whole numbers are less than.
    """
    size = ", ".join(map(str, shape))
    sized = f"({size}{',' if len(shape) == 1 else ''})"
    kind = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.empty({sized}, dtype={kind})"
    if found := _pattern(tensor, shape):
        return found
    flat = tensor.detach().reshape(-1)[:LOOKED_AT].cpu()
    if tensor.dtype == torch.bool:
        return f"torch.rand({sized}) < {flat.float().mean().item():.2g}"
    if not tensor.dtype.is_floating_point:
        low, high = int(tensor.min()), int(tensor.max())
        if below is not None and low < high / 8:  # chance
            low = 0
        return f"torch.randint({low}, {below or high + 1}, {sized}, dtype={kind})"
    cast = "" if tensor.dtype == torch.float32 else f".to({kind})"
    drawn = _floats(flat.double(), sized)
    return f"({drawn}){cast}" if cast and " " in drawn.replace(", ", "") else drawn + cast


def _floats(flat: torch.Tensor, sized: str) -> str:
    finite = flat[flat.isfinite()]
    if finite.numel() == 0:
        return f"torch.full({sized}, {_number(flat[0])})"
    if finite.numel() < flat.numel():  # a mask that is added
        share = 1 - finite.numel() / flat.numel()
        lost = _number(flat[~flat.isfinite()][0])
        return f"torch.where(torch.rand({sized}) < {share:.2g}, {lost}, {_floats(finite, sized)})"
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return f"torch.full({sized}, {low!r})"
    mean, std = float(finite.mean()), float(finite.std(correction=0))
    is_uniform = finite.numel() >= 16 and high - low < 1.1 * UNIFORM_WIDTH * std
    if low >= 0 and high <= 1 and (is_uniform or finite.numel() < 16):
        return f"torch.rand({sized})"
    if is_uniform:
        return f"{low:.2g} + {high - low:.2g} * torch.rand({sized})"
    if low >= 0:
        return f"{mean:.2g} * torch.rand({sized}) * 2"
    plain = f"torch.randn({sized})"
    if abs(std - 1) > 0.2:
        plain = f"{std:.2g} * {plain}"
    return f"{mean:.2g} + {plain}" if abs(mean) > 0.2 * std else plain


def _number(value: torch.Tensor) -> str:
    return f'float("{value.item()}")'


def _pattern(tensor: torch.Tensor, shape: Sequence[Axis]) -> str | None:
    """What isn't drawn: triangles, and 0, 1, 2, ... along the last axis."""
    sized = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    ones = torch.ones_like(tensor)
    if tensor.dim() >= 2 and tensor.shape[-1] > 1 and tensor.shape[-2] > 1:
        for turn in ("tril", "triu"):
            if torch.equal(tensor, getattr(torch, turn)(ones)):
                return f"torch.ones({sized}, dtype={tensor.dtype}).{turn}()"
    if tensor.dim() and tensor.shape[-1] > 2 and tensor.dtype in (torch.int32, torch.int64):
        line = torch.arange(tensor.shape[-1], dtype=tensor.dtype)
        if torch.equal(tensor, line.expand_as(tensor)):
            made = f"torch.arange({shape[-1]}, dtype={tensor.dtype})"
            return made if len(shape) == 1 else f"{made}.expand{sized}.contiguous()"
    return None
