"""Jumps that rounding decides, on the device: `judge.correctness.rounding` in torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from roofsmith.analysis.tolerance import LEAST_SHARE, SUMMED_IN, Budget, Errors, row_length
from roofsmith.judge.correctness.conditioning import Explored
from roofsmith.judge.correctness.distributions import Arithmetic
from roofsmith.judge.correctness.rounding import Explanation, jolted, may_be_singular, sizes
from roofsmith.judge.gpu.measuring import measure


@dataclass(frozen=True, slots=True)
class Wrong:
    """An output beyond its budget."""

    name: str
    out: torch.Tensor
    values: Mapping[str, Any]
    """Of its draw."""
    outputs: set[str]
    budget: Budget
    """That draws usually have."""
    is_other: bool
    """Whether `setup` didn't draw it, so that what moving inputs changes needs no jump."""
    may_jump: bool
    """Whether it may change by leaps, as far as was seen."""
    is_ordered: bool
    """Whether the order of the inputs alone seems to decide it."""


def room_for_rounding(
    reference: Explored,
    wrong: Wrong,
    free: Mapping[str, int],
    known: set[str],
    on: Arithmetic,
) -> tuple[float, float] | None:
    """How far an output may be off on this draw, norm-wise and element-wise; None: no further.

    Args:
        reference: computes what is right.
        wrong: what is to be explained; see `judge.correctness.rounding.room_for_rounding`.
        free: the inputs that may be moved.
        known: outputs of which arithmetic was seen to decide elements; one may be added.
        on: torch.
    """
    out, budget, is_other = wrong.out, wrong.budget, wrong.is_other
    truth = reference.expect(wrong.values, wrong.outputs, exact=True)[wrong.name]
    off, allowed = off_beyond(out, truth, budget)
    norm, element, *_ = _errors(out, truth, budget)
    few = may_be_singular(int(off.sum()), off.numel(), Errors(norm, element))
    if not (wrong.may_jump or is_other or few):
        return None
    others = _errors(torch.where(off, truth.to(out.dtype), out), truth, budget)
    if not bool(torch.isfinite(truth).all()) or any(others[2:4]):
        return None
    is_strict = not is_other or on.dtype(out) in SUMMED_IN
    if is_strict and others[0] > budget.norm:
        return None
    for size in sizes(is_other=is_other, is_ordered=wrong.is_ordered):
        may_be_known = (is_other and not wrong.is_ordered) or wrong.name in known
        is_known = size != "ties" and may_be_known
        explanation = Explanation(int(off.sum()), is_other, is_known, size, wrong.is_ordered)
        low = high = truth
        for seed in explanation.seeds():
            moved = jolted(wrong.values, free, seed, size, on)
            declared = wrong.values if size == "ties" else moved
            try:
                exact, plain = (
                    reference.expect(values, wrong.outputs, exact=exact)[wrong.name].to(truth.dtype)
                    for values, exact in ((moved, True), (declared, False))
                )
            except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
                exact = plain = truth
            for one in (exact, plain):
                low, high = torch.minimum(low, one), torch.maximum(high, one)
            changed = max(int(off_beyond(one, truth, budget)[0].sum()) for one in (exact, plain))
            decided = bool(off_beyond(plain, exact, budget)[0].any())
            if is_other and out.is_floating_point():
                reach = torch.maximum((low - truth).abs(), (high - truth).abs()).double()
                reach = _most_of_row(reach)
                explained = (out.double() - truth.double()).clamp(-reach, reach)
                covered = _is_within(out.double() - explained, truth, budget)
            else:
                room = allowed + high.double() - low.double()
                least, most = low.double() - room, high.double() + room
                within = (least <= out.double()) & (out.double() <= most)
                covered = bool((within | ~off).all())
            complete = explanation.is_complete(decided=decided, changed=changed, covered=covered)
            if (decided or complete) and not is_other and size != "ties":
                known.add(wrong.name)
            if complete:
                return norm, element
    return None


def _most_of_row(reach: torch.Tensor) -> torch.Tensor:
    rows = reach.reshape(-1, row_length(reach.shape))
    return rows.amax(-1, keepdim=True).expand_as(rows).reshape(reach.shape)


def _is_within(out: torch.Tensor, truth: torch.Tensor, budget: Budget) -> bool:
    norm, element, mismatched, not_finite, *_ = _errors(out, truth, budget)
    return not (norm > budget.norm or element > budget.element or mismatched or not_finite)


def _errors(out: torch.Tensor, truth: torch.Tensor, budget: Budget) -> list[float]:
    found: list[float] = measure(
        out[None], truth[None], budget.atol, budget.rtol, own_scale=budget.own_scale
    )[0].tolist()
    return found


def off_beyond(
    out: torch.Tensor, truth: torch.Tensor, budget: Budget
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `analysis.tolerance.off_beyond`."""
    exact = truth.double()
    if not truth.is_floating_point():
        return (out.double() - exact).abs() > (budget.atol or 0.0), torch.zeros_like(exact)
    sizes = exact.abs()
    if budget.atol is None and budget.rtol is None:
        rows = sizes.reshape(-1, row_length(sizes.shape))
        scale = rows.square().mean(-1, keepdim=True).sqrt().expand_as(rows).reshape(sizes.shape)
        if budget.own_scale is not None:
            least = max(float(sizes.square().mean().sqrt()), budget.own_scale)
            scale = scale.clamp(min=LEAST_SHARE * least)
        allowed = budget.element * torch.maximum(scale, sizes)
    else:
        allowed = (budget.atol or 0.0) + (budget.rtol or 0.0) * sizes
    difference = (out.double() - exact).abs()
    return ~(difference <= allowed) & (out.double() != exact), allowed
