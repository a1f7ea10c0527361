"""Replace a sum, mean or maximum over an axis by one that reads the array once, at full width."""

from __future__ import annotations

import re
from math import prod

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import Reduction, reduction, says
from roofsmith.proposers.recipes.families._fit_cuda import TYPES, extents, with_kernel

_MAXIMUM = re.compile(r"\bfmaxf?\b|\bmax(?:imum)?\b", re.IGNORECASE)
_MINIMUM = re.compile(r"\bfminf?\b|\bmin(?:imum)?\b|arg_?max", re.IGNORECASE)
_MEAN = re.compile(r"\bmean\b|average", re.IGNORECASE)
_OTHER = re.compile(r"\*\s*\w+\s*\[|\bexpf?\b|\blogf?\b|fabs|sqrt|\*=", re.IGNORECASE)
"""What says that more than the elements themselves is added up."""


def apply(context: CardContext) -> CardChange | None:
    """Where the kernel's words leave no doubt which of the three it is."""
    fit = reduction(context)
    if fit is None or fit.y.dtype not in TYPES or says(context, _MINIMUM):
        return None
    if context.family != "reduction" or says(context, _OTHER):
        return None
    maximum, mean = says(context, _MAXIMUM), says(context, _MEAN)
    sizes = extents(fit.call, _sizes(fit))
    if sizes is None or (maximum and mean):
        return None
    title = "Maximum" if maximum else "Mean" if mean else "Sum"
    return with_kernel(
        context,
        "reduce_axis",
        f"Compute the {title.lower()} of `{fit.x.name}` in vectors, with blocks for all "
        "multiprocessors",
        title=title,
        input=fit.x.name,
        output=fit.y.name,
        input_type=TYPES[fit.x.dtype],
        output_type=TYPES[fit.y.dtype],
        maximum=str(maximum).lower(),
        mean=str(mean).lower(),
        outer=sizes["outer"],
        length=sizes["length"],
        inner=sizes["inner"],
    )


def _sizes(fit: Reduction) -> dict[str, tuple[int, ...]]:
    axis = fit.axis
    if axis is None:
        one = (1,) * len(fit.x.shapes)
        return {"outer": one, "length": fit.x.lengths, "inner": one}
    return {
        "outer": tuple(prod(shape[:axis]) for shape in fit.x.shapes),
        "length": fit.x.axis(axis),
        "inner": tuple(prod(shape[axis + 1 :]) for shape in fit.x.shapes),
    }


CARD = Card(
    id="reduce-cuda",
    title="Reduction with blocks for all multiprocessors",
    category="parallelism",
    answers=frozenset(("memory", "latency", "unknown")),
    rationale=(
        "Memory is busy only if every multiprocessor has many wide loads under way; few long rows "
        "or strided columns in one block each leave most of it idle"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths",
    source="Harris, Optimizing Parallel Reduction in CUDA, NVIDIA, 2007",
    apply=apply,
    predict=reaching("reduce-cuda"),
    families=frozenset(("reduction",)),
    languages=frozenset(("cuda",)),
)
