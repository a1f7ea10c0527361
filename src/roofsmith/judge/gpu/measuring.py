"""How far a tensor is from the truth, on the device: `analysis.tolerance.measure` in torch.

The numbers of many slots are fetched at once: whoever waits for the device waits long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from roofsmith.analysis.tolerance import GROSS, LEAST_SHARE, row_length
from roofsmith.judge.correctness.sampled_blocks import SPOT_ELEMENTS, Stretches

FIELDS = ("norm", "element", "mismatched", "not_finite", "nan", "nan_expected", "gross")
"""What `measure` returns, in order: both errors, elements that should be NaN or infinite like the
reference's and aren't, elements that are not finite where the reference is, NaN in the output, NaN
in the reference, and the share of elements that are off by more than `GROSS` of themselves."""


def measure(
    out: torch.Tensor,
    truth: torch.Tensor,
    atol: float | None,
    rtol: float | None,
    scale: torch.Tensor | None = None,
    own_scale: float | None = None,
) -> torch.Tensor:
    """Errors of outputs, shape (S, len(FIELDS)), float64, on the device.

    Args:
        out: what a kernel wrote in S calls, in its declared type, shape (S, ...).
        truth: the same shape, in any type; compared in float64, integers exactly or within `atol`.
        atol: with `rtol`, replaces the element-wise half by the worst |out - ref| / (atol + rtol
            |ref|).
        rtol: see `atol`.
        scale: where `out` holds parts of rows, shape (S, parts, length): root mean squares of the
            whole rows, shape (S, parts).
        own_scale: where the reference didn't draw the inputs; see `analysis.tolerance.Budget`.
    """
    calls = out.shape[0]
    last = row_length(out.shape[1:]) if scale is None else out.shape[-1]
    out, truth = out.reshape(calls, -1), truth.reshape(calls, -1)
    if out.dtype is torch.bool:  # whose bytes may be anything
        out, truth = out.view(torch.uint8), truth.bool()
    if not out.is_floating_point():
        other = out != truth.to(out.dtype)
        if atol:
            other &= (out.double() - truth.double()).abs() > atol
        wrong = other.sum(1).double()
        zero = torch.zeros_like(wrong)
        return torch.stack([wrong, wrong, wrong, zero, zero, zero, zero], dim=1)
    rounded = truth.to(out.dtype)
    finite, fine = torch.isfinite(rounded), torch.isfinite(out)
    same = (out == rounded) | (torch.isnan(out) & torch.isnan(rounded))
    zero = torch.zeros((), dtype=torch.float64, device=out.device)
    exact = torch.where(finite, truth.double(), zero)
    difference = torch.where(finite & fine, (out.double() - exact).abs(), zero)
    size, error = (norm(numbers) for numbers in (exact, difference))
    least = torch.zeros_like(size)
    if own_scale is not None:
        sizes = exact if scale is None else scale.double()
        rms = norm(sizes) / max(sizes.shape[1], 1) ** 0.5
        least = LEAST_SHARE * torch.clamp(rms, min=own_scale)
        size = torch.maximum(size, least * exact.shape[1] ** 0.5)
    if scale is not None:  # parts may be far smaller than what they are parts of
        size = torch.maximum(size, norm(scale) * last**0.5)
    return torch.stack(
        [
            torch.where(error > 0, error / size, torch.zeros_like(error)),
            _element(difference, exact, last, atol, rtol, scale, least),
            (~finite & ~same).sum(1).double(),
            (finite & ~fine).sum(1).double(),
            torch.isnan(out).sum(1).double(),
            torch.isnan(rounded).sum(1).double(),
            _gross(difference, exact, out.dtype),
        ],
        dim=1,
    )


def _gross(difference: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    sizes = exact.abs()
    gross = (difference > GROSS * sizes) & (sizes >= torch.finfo(dtype).tiny)
    return gross.sum(1) / max(gross.shape[1], 1)


def norm(numbers: torch.Tensor) -> torch.Tensor:
    """Frobenius norms over the last axis, float64."""
    if numbers.dtype is not torch.float64 or numbers.shape[-1] == 0:
        return torch.linalg.vector_norm(numbers, dim=-1, dtype=torch.float64)
    largest = numbers.abs().amax(-1, keepdim=True)  # whose square may overflow, or vanish
    unit = torch.where((largest > 0) & torch.isfinite(largest), largest, torch.ones_like(largest))
    return torch.linalg.vector_norm(numbers / unit, dim=-1) * unit[..., 0]


def _element(
    difference: torch.Tensor,
    exact: torch.Tensor,
    last: int,
    atol: float | None,
    rtol: float | None,
    rms: torch.Tensor | None,
    least: torch.Tensor,
) -> torch.Tensor:
    """Worst element of every call; `last` is the length of a row, `least` a scale of every call."""
    calls = exact.shape[0]
    if exact.numel() == 0:
        return torch.zeros(calls, dtype=torch.float64, device=exact.device)
    if atol is not None or rtol is not None:
        scale = (atol or 0.0) + (rtol or 0.0) * exact.abs()
    else:
        rows = exact.reshape(calls, -1, last)
        rms = norm(rows) / last**0.5 if rms is None else rms
        rms = torch.maximum(rms, least[:, None])
        scale = torch.maximum(rms[..., None], rows.abs()).reshape(calls, -1)
    # Nothing over nothing is nothing.
    ratio = torch.where(difference > 0, difference / scale, torch.zeros_like(difference))
    return ratio.amax(1)


def compare(
    outs: Sequence[torch.Tensor],
    truths: Sequence[torch.Tensor],
    tolerances: Sequence[float | None],
    *,
    whole: bool,
    own_scale: float | None = None,
) -> torch.Tensor:
    """See `measure`. Unless `whole`, of random rows of large outputs; NaN are counted everywhere.

    Of long rows, stretches. Which ones is chosen after the calls, for each by itself, from the
    operating system's own randomness, since a reference may have seeded torch's.
    """
    atol, rtol = tolerances
    first = outs[0]
    if whole or first.dim() == 0 or first.numel() <= SPOT_ELEMENTS:
        every = torch.stack(list(outs)), torch.stack(list(truths))
        return measure(*every, atol, rtol, own_scale=own_scale)
    stretches = Stretches(first.shape)
    row, length = stretches.row, stretches.length
    shape = (len(outs), max(SPOT_ELEMENTS // length, 1))
    chosen = np.random.default_rng().integers(stretches.count, size=shape)
    rows, within = (torch.from_numpy(places) for places in stretches.places(chosen))
    starts = (rows * row + within).to(first.device)

    def picked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        parts = zip(tensors, starts, strict=True)
        return torch.stack([t.reshape(-1).unfold(0, length, 1)[start] for t, start in parts])

    scale = None
    if not stretches.are_rows and first.is_floating_point():
        scale = _scale(truths, rows.to(first.device), row)
    found = measure(picked(outs), picked(truths), atol, rtol, scale, own_scale)
    if first.is_floating_point():
        found[:, 4:6] = 0
        # The largest of numbers with a NaN among them is NaN: one pass, where counting takes three.
        largest = torch.stack([out.amax() for out in outs])
        for call in torch.isnan(largest).nonzero().flatten().tolist():
            found[call, 4] = torch.isnan(outs[call]).sum()
            found[call, 5] = torch.isnan(truths[call]).sum()
    return found


def _scale(truths: Sequence[torch.Tensor], rows: torch.Tensor, row: int) -> torch.Tensor:
    """Root mean squares of some rows of every call, shape (calls, rows)."""
    found = []
    for truth, chosen in zip(truths, rows, strict=True):
        picked, places = torch.unique(chosen, return_inverse=True)
        whole = truth.reshape(-1, row)[picked].nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        found.append((norm(whole) / row**0.5)[places])
    return torch.stack(found)
