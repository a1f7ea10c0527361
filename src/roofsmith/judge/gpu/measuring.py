"""How far a tensor is from the truth, on the device: `analysis.tolerance.measure` in torch.

Nothing here waits for the device: the numbers of many slots are fetched at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from roofsmith.analysis.tolerance import row_length
from roofsmith.judge.checking import SPOT_ELEMENTS

LEAST_COLUMNS = 4096
"""Rows of outputs with one dimension."""

FIELDS = ("norm", "element", "mismatched", "not_finite", "nan", "nan_expected")
"""What `measure` returns, in order: both errors, elements that should be NaN or infinite like the
reference's and aren't, elements that are not finite where the reference is, NaN in the output, NaN
in the reference."""


def measure(
    out: torch.Tensor, truth: torch.Tensor, atol: float | None, rtol: float | None
) -> torch.Tensor:
    """Errors of outputs, shape (S, len(FIELDS)), float64, on the device.

    Args:
        out: what a kernel wrote in S calls, in its declared type, shape (S, ...).
        truth: the same shape, in any type; compared in float64, integers exactly or within `atol`.
        atol: with `rtol`, replaces the element-wise half by the worst |out - ref| / (atol + rtol
            |ref|).
        rtol: see `atol`.
    """
    calls = out.shape[0]
    last = row_length(out.shape[1:])
    out, truth = out.reshape(calls, -1), truth.reshape(calls, -1)
    if out.dtype is torch.bool:  # whose bytes may be anything
        out, truth = out.view(torch.uint8), truth.bool()
    if not out.is_floating_point():
        other = out != truth.to(out.dtype)
        if atol:
            other &= (out.double() - truth.double()).abs() > atol
        wrong = other.sum(1).double()
        zero = torch.zeros_like(wrong)
        return torch.stack([wrong, wrong, wrong, zero, zero, zero], dim=1)
    rounded = truth.to(out.dtype)
    finite, fine = torch.isfinite(rounded), torch.isfinite(out)
    same = (out == rounded) | (torch.isnan(out) & torch.isnan(rounded))
    zero = torch.zeros((), dtype=torch.float64, device=out.device)
    exact = torch.where(finite, truth.double(), zero)
    difference = torch.where(finite & fine, (out.double() - exact).abs(), zero)
    size = exact.square().sum(1).sqrt()
    error = difference.square().sum(1).sqrt()
    return torch.stack(
        [
            torch.where(error > 0, error / size, torch.zeros_like(error)),
            _element(difference, exact, last, atol, rtol),
            (~finite & ~same).sum(1).double(),
            (finite & ~fine).sum(1).double(),
            torch.isnan(out).sum(1).double(),
            torch.isnan(rounded).sum(1).double(),
        ],
        dim=1,
    )


def _element(
    difference: torch.Tensor, exact: torch.Tensor, last: int, atol: float | None, rtol: float | None
) -> torch.Tensor:
    """Worst element of every call; `last` is the length of a row."""
    calls = exact.shape[0]
    if exact.numel() == 0:
        return torch.zeros(calls, dtype=torch.float64, device=exact.device)
    if atol is not None or rtol is not None:
        scale = (atol or 0.0) + (rtol or 0.0) * exact.abs()
    else:
        rows = exact.reshape(calls, -1, last)
        scale = torch.maximum(rows.square().mean(-1, keepdim=True).sqrt(), rows.abs())
        scale = scale.reshape(calls, -1)
    # Nothing over nothing is nothing.
    ratio = torch.where(difference > 0, difference / scale, torch.zeros_like(difference))
    return ratio.amax(1)


def compare(
    outs: Sequence[torch.Tensor],
    truths: Sequence[torch.Tensor],
    tolerances: Sequence[float | None],
    *,
    whole: bool,
) -> torch.Tensor:
    """See `measure`. Unless `whole`, of random rows of large outputs; NaN are counted everywhere.

    The rows are chosen after the calls, so none is safe to skip.
    """
    atol, rtol = tolerances
    first = outs[0]
    if whole or first.dim() == 0 or first.numel() <= SPOT_ELEMENTS:
        return measure(torch.stack(list(outs)), torch.stack(list(truths)), atol, rtol)
    columns = first.shape[-1] if first.dim() > 1 else LEAST_COLUMNS
    rows = -(-first.numel() // columns)
    chosen = torch.randint(rows, (max(SPOT_ELEMENTS // columns, 1),), device=first.device)
    # what the last row lacks is taken from the one before it
    starts = (chosen * columns).clamp(max=first.numel() - columns)

    def picked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack([t.reshape(-1).unfold(0, columns, 1)[starts] for t in tensors])

    found = measure(picked(outs), picked(truths), atol, rtol)
    if first.is_floating_point():
        found[:, 4] = torch.stack([torch.isnan(out).sum() for out in outs])
        found[:, 5] = torch.stack([torch.isnan(truth).sum() for truth in truths])
    return found
