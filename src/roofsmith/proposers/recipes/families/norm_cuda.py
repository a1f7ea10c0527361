"""Replace RMSNorm or LayerNorm of rows by one that reads every row once."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import RowOperator, rows_and_columns, says
from roofsmith.proposers.recipes.families._fit_cuda import TYPES, extents, with_kernel

_RMS = re.compile(r"rms", re.IGNORECASE)
_CENTERED = re.compile(r"layer.?norm|mean|\bmu\b", re.IGNORECASE)
_EPSILON = re.compile(r"\b(?:1e-0?\d|1e-1\d|0\.0{3,}1)f?\b", re.IGNORECASE)
_BIAS = re.compile(r"b|beta", re.IGNORECASE)


def apply(context: CardContext) -> CardChange | None:
    """An input and an output of one shape, a weight and a bias or neither, and one epsilon."""
    fit = rows_and_columns(context)
    if fit is None or fit.residual:
        return None
    centered = not says(context, _RMS)
    epsilon = fit.eps or _epsilon(context)
    sizes = extents(fit.call, {"n": fit.x.rows, "d": fit.x.last})
    if sizes is None or epsilon is None or (centered and not says(context, _CENTERED)):
        return None
    title = "LayerNorm" if centered else "RMSNorm"
    return with_kernel(
        context,
        "norm_rows",
        f"Compute the {title} of `{fit.x.name}` with every row in the registers of a warp or block",
        title=title,
        input=fit.x.name,
        output=fit.y.name,
        input_type=TYPES[fit.x.dtype],
        output_type=TYPES[fit.y.dtype],
        centered=str(centered).lower(),
        eps=epsilon,
        rows=sizes["n"],
        columns=sizes["d"],
        **_vectors(fit),
    )


def _epsilon(context: CardContext) -> str | None:
    """The only number in the kernel's file that could be one."""
    found = {text.lower().rstrip("f") for text in _EPSILON.findall(context.candidate.kernel.text)}
    return f"{found.pop()}f" if len(found) == 1 else None


def _vectors(fit: RowOperator) -> dict[str, str]:
    """Weight and bias, told by their names, else by their order."""
    vectors = list(fit.vectors)
    if vectors and _BIAS.match(vectors[0].name):
        vectors.reverse()
    values = {}
    for index, name in enumerate(("weight", "bias")):
        given = vectors[index] if index < len(vectors) else None
        values[name] = given.name if given else "nullptr"
        values[f"{name}_type"] = TYPES[given.dtype] if given else "float"
    return values


CARD = Card(
    id="norm-cuda",
    title="Normalisation with rows in registers",
    category="fusion",
    answers=frozenset(("memory", "latency", "unknown")),
    rationale=(
        "Mean, variance and result each read the row again; a row that stays in registers, loaded "
        "16 bytes at a time and reduced by shuffles, is read once and written once"
    ),
    expected_counter="dram_throughput",
    expected_change="up to nine tenths of the memory's rate",
    source=(
        "Zhang & Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019, arXiv:1910.07467; "
        "Ba et al., Layer Normalization, arXiv:1607.06450"
    ),
    apply=apply,
    predict=reaching("norm-cuda"),
    families=frozenset(("norm",)),
    languages=frozenset(("cuda",)),
)
