"""How many floating-point operations an operator family needs, as formulas.

Each formula counts the least that a straightforward algorithm does: a comparison, an exponential
and a division count as one operation, a multiply-add as two. They feed a lower bound on time, so
where variants of an operator differ, the cheapest one is counted.

| family | operations | counted |
|---|---|---|
| gemm | 2·M·N·K per matrix product | BLAS's convention (LAPACK Working Note 41, dgemm) |
| gemv | 2·M·N | the same with one column |
| grouped_gemm | 2·M·N·K, rows of all groups together | every row meets one group's matrix |
| moe | 2·T·k·D·F per matrix of an expert | every token meets k experts |
| conv2d | 2·N·K·P·Q·C/g·R·S | direct convolution |
| attention | 4·S_q·S_k·D + 5·S_q·S_k per head | two products and one softmax of scores |
| softmax | 5 per element | max, subtract, exp, add, divide |
| cross_entropy | 4 per logit | max, subtract, exp, add |
| norm, rmsnorm | 4 per element | square, add, scale by 1/rms, scale by the weight |
| layernorm | 7 per element | sum, square, add; subtract, scale, weight, bias |
| rope | 3 per element | a rotation of two: four products, two sums |
| elementwise | 1 per output element | an operator does at least one thing to an element |
| reduction | inputs - outputs | each operation takes one value out of the running |
| transpose, copy, embedding | 0 | values only move |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from roofsmith.domain.arrays import ArraySpec


class UnknownFlopsError(Exception):
    """Shapes and dimension names leave the operation count open; the message says why."""


class UnknownFamilyError(ValueError):
    """No such operator family; the message has those that are known."""


Formula = Callable[[Mapping[str, int], Sequence[ArraySpec]], tuple[float, str]]
"""Of dimensions by lower-case name and arrays in order: the count, and how it was found."""


def family_flops(
    family: str | None, dims: Mapping[str, int], arrays: Sequence[ArraySpec]
) -> tuple[float, str]:
    """Operations of one workload of `family`, and the formula in words.

    Raises:
        UnknownFlopsError: no such family, or the shapes don't settle the count.
    """
    formula = _FORMULAS.get((family or "").lower())
    if formula is None:
        if not family:
            raise UnknownFlopsError("no operator family given")
        known = ", ".join(FAMILIES)
        raise UnknownFlopsError(f"no formula for the family {family!r} (known: {known})")
    return formula({name.lower(): size for name, size in dims.items()}, arrays)


def known_family(name: str) -> str:
    """An operator family as it is called everywhere: in lower case.

    Raises:
        UnknownFamilyError: there is none of this name.
    """
    family = name.strip().lower()
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UnknownFamilyError(f"no operator family is called {name!r} (known: {known})")
    return family


def _elements(array: ArraySpec) -> int:
    return math.prod(array.shape)


def _inputs(arrays: Sequence[ArraySpec]) -> list[ArraySpec]:
    return [array for array in arrays if array.role == "input"]


def _largest_input(arrays: Sequence[ArraySpec]) -> ArraySpec:
    inputs = _inputs(arrays)
    if not inputs:
        raise UnknownFlopsError("no input array")
    return max(inputs, key=_elements)


def _only_output(arrays: Sequence[ArraySpec]) -> ArraySpec:
    outputs = [array for array in arrays if array.is_result]
    if len(outputs) != 1:
        raise UnknownFlopsError(f"{len(outputs)} outputs where the formula expects one")
    return outputs[0]


def _per_element(operations: float, words: str) -> Formula:
    """So many operations per element of the only output."""

    def formula(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
        return operations * _elements(_only_output(arrays)), words

    return formula


def _rope(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """3 per element of every output: queries and keys may be rotated at once."""
    return 3.0 * sum(_elements(a) for a in arrays if a.is_result), "3 per element"


def _cross_entropy(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """4 per logit; the logits are the largest input."""
    return 4.0 * _elements(_largest_input(arrays)), "4 per logit"


def _moved(_dims: Mapping[str, int], _arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """Nothing is computed: bytes alone bound the time."""
    return 0.0, "values only move"


def _elementwise(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """1 per element of every output."""
    outputs = [array for array in arrays if array.is_result]
    if not outputs:
        raise UnknownFlopsError("no output array")
    return float(sum(map(_elements, outputs))), "1 per output element, the least there is"


def _reduction(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """One operation takes one value out of the running, until only the outputs are left."""
    left = _elements(_largest_input(arrays)) - _elements(_only_output(arrays))
    return float(max(left, 0)), "input minus output elements"


def _gemm(dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
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


def _gemv(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """2·M·N: a multiply-add per element of the matrix, which is the largest input."""
    return 2.0 * _elements(_largest_input(arrays)), "2*M*N"


def _grouped_gemm(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """2·M·N·K of rows (M, K), which are divided among matrices (groups, K, N)."""
    rows, matrices = _rows_and_matrices(arrays)
    if len(matrices) != 1:
        raise UnknownFlopsError(f"{len(matrices)} arrays (groups, K, N) where one is expected")
    return 2.0 * rows[0] * math.prod(matrices[0][1:]), "2*M*N*K of all groups' rows"


def _moe(dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """2·T·k·D·F for each (experts, D, F) array: T tokens, each meeting k experts."""
    chosen = next((dims[name] for name in _CHOSEN_NAMES if name in dims), None)
    if chosen is None:
        raise UnknownFlopsError(f"how many experts a token meets: name it {_CHOSEN_NAMES[0]}")
    tokens, matrices = _rows_and_matrices(arrays)
    products = sum(math.prod(matrix[1:]) for matrix in matrices)
    return 2.0 * tokens[0] * chosen * products, "2*T*k*D*F per matrix of an expert"


_CHOSEN_NAMES = ("topk", "top_k", "k")


def _rows_and_matrices(
    arrays: Sequence[ArraySpec],
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    shapes = [array.shape for array in _inputs(arrays)]
    rows: tuple[int, ...] = next((shape for shape in shapes if len(shape) == 2), ())
    matrices: list[tuple[int, ...]] = [shape for shape in shapes if len(shape) == 3]
    if not rows or not matrices:
        raise UnknownFlopsError("rows (M, K) and matrices (groups, K, N) are expected")
    return rows, matrices


def _conv2d(_dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
    """A multiply-add per output element and tap: filters are (K, C/groups, R, S)."""
    images = [array.shape for array in _inputs(arrays) if len(array.shape) == 4]
    if len(images) != 2:
        raise UnknownFlopsError("conv2d needs images (N, C, H, W) and filters (K, C/g, R, S)")
    taps = math.prod(images[1][1:])
    return 2.0 * _elements(_only_output(arrays)) * taps, "2*N*K*P*Q*C/groups*R*S, direct"


_SEQUENCE_NAMES = ("s", "seq", "seq_len", "n", "l", "t", "tokens", "sequence")
_HEAD_NAMES = ("h", "heads", "num_heads", "n_heads", "nheads")


def _attention(dims: Mapping[str, int], arrays: Sequence[ArraySpec]) -> tuple[float, str]:
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


_FORMULAS: Mapping[str, Formula] = {
    "softmax": _per_element(5.0, "5 per element"),
    "norm": _per_element(4.0, "4 per element (as RMS norm, the cheapest)"),
    "rmsnorm": _per_element(4.0, "4 per element"),
    "layernorm": _per_element(7.0, "7 per element"),
    "rope": _rope,
    "cross_entropy": _cross_entropy,
    "elementwise": _elementwise,
    "reduction": _reduction,
    "gemm": _gemm,
    "gemv": _gemv,
    "grouped_gemm": _grouped_gemm,
    "moe": _moe,
    "conv2d": _conv2d,
    "attention": _attention,
    "transpose": _moved,
    "copy": _moved,
    "embedding": _moved,
}

FAMILIES: tuple[str, ...] = tuple(sorted(_FORMULAS))
"""Every operator family there is."""
