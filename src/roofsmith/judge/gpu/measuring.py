"""How far a tensor is from the truth, on the device: `analysis.tolerance.measure` in torch.

Nothing here waits for the device: the numbers of many slots are fetched at once.
"""

from __future__ import annotations

import torch

FIELDS = ("norm", "element", "mismatched", "not_finite", "nan", "nan_expected")
"""What `measure` returns, in order: both errors, elements that should be NaN or infinite like the
reference's and aren't, elements that are not finite where the reference is, NaN in the output, NaN
in the reference."""


def measure(
    out: torch.Tensor, truth: torch.Tensor, atol: float | None, rtol: float | None
) -> torch.Tensor:
    """Errors of an output, shape (len(FIELDS),), float64, on the device.

    Args:
        out: what a kernel wrote, in its declared type, any shape.
        truth: the same shape, in any type; compared in float64, integers exactly.
        atol: with `rtol`, replaces the element-wise half by the worst |out - ref| / (atol + rtol
            |ref|).
        rtol: see `atol`.
    """
    if not out.is_floating_point():
        wrong = (out != truth.to(out.dtype)).sum().double()
        zero = torch.zeros_like(wrong)
        return torch.stack([wrong, wrong, wrong, zero, zero, zero])
    rounded = truth.to(out.dtype)
    finite, fine = torch.isfinite(rounded), torch.isfinite(out)
    same = (out == rounded) | (torch.isnan(out) & torch.isnan(rounded))
    zero = torch.zeros((), dtype=torch.float64, device=out.device)
    exact = torch.where(finite, truth.double(), zero)
    difference = torch.where(finite & fine, (out.double() - exact).abs(), zero)
    size = exact.square().sum().sqrt()
    error = difference.square().sum().sqrt()
    norm = torch.where(error > 0, error / size, zero)
    return torch.stack(
        [
            norm,
            _element(difference, exact, atol, rtol),
            (~finite & ~same).sum().double(),
            (finite & ~fine).sum().double(),
            torch.isnan(out).sum().double(),
            torch.isnan(rounded).sum().double(),
        ]
    )


def _element(
    difference: torch.Tensor, exact: torch.Tensor, atol: float | None, rtol: float | None
) -> torch.Tensor:
    if difference.numel() == 0:
        return torch.zeros((), dtype=torch.float64, device=difference.device)
    if atol is not None or rtol is not None:
        allowed = (atol or 0.0) + (rtol or 0.0) * exact.abs()
        return _ratio(difference, allowed).max()
    rows = exact.reshape(-1, exact.shape[-1]) if exact.dim() else exact.reshape(1, 1)
    scale = torch.maximum(rows.square().mean(-1, keepdim=True).sqrt(), rows.abs())
    return _ratio(difference.reshape(rows.shape), scale).max()


def _ratio(difference: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Quotient; nothing over nothing is nothing."""
    return torch.where(difference > 0, difference / scale, torch.zeros_like(difference))
