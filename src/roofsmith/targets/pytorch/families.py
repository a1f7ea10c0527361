"""The operator family of a computation that was read."""

from __future__ import annotations

from collections.abc import Mapping

from roofsmith.computation.graph import Contract, Graph
from roofsmith.computation.kinds import kind

_FAMILIES: Mapping[str, tuple[str, int]] = {
    "attention": ("attention", 2), "contraction": ("gemm", 1), "convolution": ("conv2d", 1),
    "softmax": ("softmax", 0), "cross-entropy": ("cross_entropy", 0), "normalisation": ("norm", 0),
    "reduction": ("reduction", 0), "map": ("elementwise", 0), "transpose": ("transpose", 0),
    "copy": ("copy", 0),
}  # fmt: skip
"""By kind; and how many products one operator of the family has: several layers are of none."""


def family_read(graph: Graph) -> str | None:
    """The family, of `analysis.flops`; None: it is of none, or of several."""
    family, products = _FAMILIES.get(kind(graph), (None, 0))
    count = sum(isinstance(node, Contract) for node in graph.nodes)
    return family if count == products else None
