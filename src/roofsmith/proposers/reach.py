"""What a whole implementation gains: from where the kernel is on its roofline to where that gets.

A call takes its floor over the share that is reached, and `START_S`. Shares and start are of an
H100: they rank ideas; the judge decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roofsmith.analysis.roofline import geometric_mean
from roofsmith.proposers.cards import CardContext

START_S = 4e-6
"""Until memory is busy, and after it last was: what kernels that stream at 0.95 of the floor's rate
took beyond it, from 30 to 180 us alike (cuda-softmax, triton-softmax, residual-rmsnorm and
cross-entropy of benchmarks/results/gpu-h100.json)."""
WORTHWHILE = 1.02
"""Predicted gains below are within what the estimate is off by where memory is the limit."""
UNKNOWN_GAIN = 4.0
"""Where no floor is known. Chosen: half of the median of what came of naive kernels."""
REACHED: Mapping[str, float] = {
    # benchmarks/results/gpu-h100.json, as the judge timed them
    "attention-3xtf32": 0.62,
    "triton-attention float32": 1.0,
    "triton-attention": 0.53,
    "triton-quantisation": 0.95,
    "inductor": 0.75,  # torch.compile: 0.54 to 1, the median
    # docs/gpu.md: beside the vendor's libraries
    "triton-attention tf32": 0.3,
    "triton-grouped-gemm": 0.65,
    # measured by nobody; as the others that stream, and as FFMA products are known to
    "cuda-schedule": 0.8,
    "cuda-schedule products": 0.5,  # between 0.33 in 16 bits by mma.sync and 0.9 as TF32's
    # benchmarks/results/unseen-triton.json, on one H200
    "triton-schedule": 0.85,
    "triton-schedule products": 0.3,
}
"""Share of the floor's rate, by card; by card and number format where that makes a difference."""


def reaching(card: str) -> Callable[[CardContext], float]:
    """How a card of `REACHED` predicts its gain; nothing that isn't `WORTHWHILE`."""

    def predict(context: CardContext) -> float:
        return promised_gain(context, card)

    return predict


def promised_gain(context: CardContext, card: str) -> float:
    """`reached_gain`, if it is `WORTHWHILE`; else 1."""
    gain = reached_gain(context, card)
    return gain if gain >= WORTHWHILE else 1.0


def reached_gain(context: CardContext, card: str) -> float:
    """Measured over predicted time, geometric mean over the workloads; below 1 for a loss."""
    share = REACHED.get(f"{card} {_format(context)}") or REACHED[card]
    gains = (
        context.times_s[bound.workload] / (bound.floor_time_s / share + START_S)
        for bound in context.bounds
        if bound.floor_time_s is not None and bound.workload in context.times_s
    )
    return geometric_mean(gains) or UNKNOWN_GAIN


def _format(context: CardContext) -> str:
    """What the work is done in: "tf32" where float32 products may be."""
    formats = {bound.cost.dtype for bound in context.bounds}
    return "tf32" if context.tf32 and formats == {"float32"} else "".join(formats)
