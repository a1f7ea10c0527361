"""How many floating-point operations an operator family needs, as formulas.

Each formula counts the least that a straightforward algorithm does: a comparison, an exponential
and a division count as one operation, a multiply-add as two. They feed a lower bound on time, so
where variants of an operator differ, the cheapest one is counted.

| family | operations | counted |
|---|---|---|
| gemm | 2·M·N·K per matrix product | BLAS's convention (LAPACK Working Note 41, dgemm) |
| attention | 4·S_q·S_k·D + 5·S_q·S_k per head | two products and one softmax of scores |
| softmax | 5 per element | max, subtract, exp, add, divide |
| norm | 4 per element | RMS norm: square, add, scale by 1/rms, scale by the weight |
| elementwise | 1 per output element | an operator does at least one thing to an element |
| reduction | inputs - outputs | each operation takes one value out of the running |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol


class UnknownFlopsError(Exception):
    """Shapes and dimension names leave the operation count open; the message says why."""


class ShapedArray(Protocol):
    """An array, as far as counting operations goes."""

    @property
    def role(self) -> str:
        """input or output."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        ...


def family_flops(
    family: str | None, dims: Mapping[str, int], arrays: Sequence[ShapedArray]
) -> tuple[float, str]:
    """Operations of one workload of `family`, and the formula in words.

    Raises:
        UnknownFlopsError: no such family, or the shapes don't settle the count.
    """
    formula = _FORMULAS.get((family or "").lower())
    if formula is None:
        known = ", ".join(sorted(_FORMULAS))
        given = f"no formula for the family {family!r}" if family else "no operator family given"
        raise UnknownFlopsError(f"{given} (known: {known})")
    return formula({name.lower(): size for name, size in dims.items()}, arrays)


def _elements(array: ShapedArray) -> int:
    return math.prod(array.shape)


def _inputs(arrays: Sequence[ShapedArray]) -> list[ShapedArray]:
    return [array for array in arrays if array.role == "input"]


def _only_output(arrays: Sequence[ShapedArray]) -> ShapedArray:
    outputs = [array for array in arrays if array.role != "input"]
    if len(outputs) != 1:
        raise UnknownFlopsError(f"{len(outputs)} outputs where the formula expects one")
    return outputs[0]


def _softmax(_dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """5 per element: max, subtract, exp, add, divide."""
    return 5.0 * _elements(_only_output(arrays)), "5 per element"


def _norm(_dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """4 per element, as RMS norm; layer norm does more, so this stays a lower bound."""
    return 4.0 * _elements(_only_output(arrays)), "4 per element (as RMS norm, the cheapest)"


def _elementwise(_dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """1 per element of every output."""
    outputs = [array for array in arrays if array.role != "input"]
    if not outputs:
        raise UnknownFlopsError("no output array")
    return float(sum(map(_elements, outputs))), "1 per output element, the least there is"


def _reduction(_dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """One operation takes one value out of the running, until only the outputs are left."""
    inputs = _inputs(arrays)
    if not inputs:
        raise UnknownFlopsError("no input array")
    largest = max(map(_elements, inputs))
    return float(max(largest - _elements(_only_output(arrays)), 0)), "input minus output elements"


def _gemm(dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """2·M·N·K (times the batch): from dimensions of these names, else from three matrices."""
    if {"m", "n", "k"} <= dims.keys():
        rest = {name for name in dims if name not in {"m", "n", "k", *_BATCH_NAMES}}
        if not rest:
            batch = math.prod(dims[name] for name in _BATCH_NAMES if name in dims)
            product = dims["m"] * dims["n"] * dims["k"] * batch
            return 2.0 * product, "2*M*N*K" + (" per matrix of the batch" if batch > 1 else "")
    matrices = [array.shape for array in _inputs(arrays) if len(array.shape) == 2]
    output = _only_output(arrays).shape
    if len(matrices) < 2 or len(output) != 2:
        raise UnknownFlopsError("gemm needs dimensions M, N, K, or two matrices in and one out")
    return _matrix_product(matrices[0], matrices[1], (output[0], output[1])), "2*M*N*K from shapes"


_BATCH_NAMES = ("b", "batch")


def _matrix_product(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, int]) -> float:
    """2·M·N·K of C(M, N) = op(A)·op(B), where each op may transpose."""
    rows, columns = c
    inner = {
        k
        for m, k in (a, a[::-1])
        for k_again, n in (b, b[::-1])
        if (m, k, n) == (rows, k_again, columns)
    }
    if len(inner) != 1:
        raise UnknownFlopsError(f"shapes {a} x {b} -> {c} are no single matrix product")
    return 2.0 * rows * columns * inner.pop()


_SEQUENCE_NAMES = ("s", "seq", "seq_len", "n", "l", "t", "tokens", "sequence")
_HEAD_NAMES = ("h", "heads", "num_heads", "n_heads", "nheads")


def _attention(dims: Mapping[str, int], arrays: Sequence[ShapedArray]) -> tuple[float, str]:
    """4·S_q·S_k·D + 5·S_q·S_k per head, of the first three inputs Q, K, V and one output.

    Q, K, V are (S, D), (S, heads*D) with a dimension named heads, (batch, S, D) or
    (batch, heads, S, D). A mask that halves the work can't be seen here: `causal` is UNKNOWN.
    """
    if any("causal" in name or "mask" in name for name in dims):
        raise UnknownFlopsError("a masked attention does less work than its shapes say")
    inputs = _inputs(arrays)
    if len(inputs) < 3:
        raise UnknownFlopsError("attention needs Q, K and V")
    query, key = inputs[0].shape, inputs[1].shape
    if len(query) != len(key) or len(query) not in (2, 3, 4):
        raise UnknownFlopsError(f"Q {query} and K {key} are not (..., sequence, width) arrays")
    if query[:-2] != key[:-2] or query[-1] != key[-1]:
        raise UnknownFlopsError(f"Q {query} and K {key} differ beyond their sequence")
    named = {dims[name] for name in _SEQUENCE_NAMES if name in dims}
    if len(query) > 2 and query[-2] not in named:
        raise UnknownFlopsError(f"which axis of Q {query} is the sequence is not clear")
    heads = next((dims[name] for name in _HEAD_NAMES if name in dims), 1) if len(query) == 2 else 1
    scores = float(math.prod(query[:-2]) * query[-2] * key[-2])
    return scores * (4.0 * query[-1] + 5.0 * heads), "4*Sq*Sk*D + 5*Sq*Sk per head"


_FORMULAS = {
    "softmax": _softmax,
    "norm": _norm,
    "elementwise": _elementwise,
    "reduction": _reduction,
    "gemm": _gemm,
    "attention": _attention,
}
