"""NumPy's products of arrays: dot, einsum, tensordot, norms, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import Traced, fresh, lifted, sequence
from roofsmith.computation.reading.numpy_functions import reads, stored
from roofsmith.computation.reading.numpy_ufuncs import applied, product
from roofsmith.computation.reading.tape import Tape

np: Any = numpy
"""As it takes traced arrays, which its types don't know."""


def _norm(tape: Tape, a: Any, order: Any, axis: Any, keepdims: bool) -> Any:
    if order in (None, 2, "fro") and (axis is None or isinstance(axis, int)):
        return np.sqrt(np.sum(a * a, axis=axis, keepdims=keepdims))
    if isinstance(axis, int) and order in (1, np.inf):
        fold = np.sum if order == 1 else np.max
        return fold(np.abs(a), axis=axis, keepdims=keepdims)
    raise tape.refuse("this norm isn't read")


def _dot(tape: Tape, a: Any, b: Any) -> Traced:
    x, y = lifted(tape, a), lifted(tape, b)
    if x.ndim == 0 or y.ndim == 0:
        return applied(tape, np.multiply, (x, y))
    if y.ndim <= 2:
        return product(tape, np.matmul, x, y)
    result: Traced = np.tensordot(x, y, axes=(-1, -2))
    return result


@reads(np.matmul)
def _matmul(tape: Tape, a: Any, b: Any, out: Any = None) -> Any:
    return stored(product(tape, np.matmul, a, b), out)


@reads(np.einsum)
def _einsum(tape: Tape, spec: str, *operands: Any, out: Any = None, **_: Any) -> Any:
    arrays = [lifted(tape, one) for one in operands]
    real = np.asarray(np.einsum(spec, *(one.real for one in arrays)))
    spec = _without_dots(spec.replace(" ", ""), [one.ndim for one in arrays])
    nodes = [one.astype(real.dtype).node for one in arrays]
    node = forms.einsum(tape.builder, spec, nodes, real.dtype.name)
    return stored(fresh(tape, node, real, given=any(one.given for one in arrays)), out)


def _without_dots(spec: str, ranks: Sequence[int]) -> str:
    if "..." not in spec:
        return spec
    free = [one for one in "ABCDEFGH" if one not in spec]
    given, _, result = spec.partition("->")
    terms = given.split(",")
    counts = [rank - len(term.replace("...", "")) if "..." in term else 0
              for term, rank in zip(terms, ranks, strict=True)]  # fmt: skip
    most = max(counts)
    terms = [term.replace("...", "".join(free[most - count : most]))
             for term, count in zip(terms, counts, strict=True)]  # fmt: skip
    if "->" not in spec:
        names = given.replace("...", "").replace(",", "")
        result = "..." + "".join(sorted(one for one in set(names) if names.count(one) == 1))
    return ",".join(terms) + "->" + result.replace("...", "".join(free[:most]))


@reads(np.tensordot)
def _tensordot(tape: Tape, a: Any, b: Any, axes: Any = 2) -> Traced:
    x, y = lifted(tape, a), lifted(tape, b)
    if isinstance(axes, int):
        mine, theirs = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        mine, theirs = (
            list(sequence(one, 0 or r.ndim)) for one, r in zip(axes, (x, y), strict=True)
        )
    letters = iter(forms.LETTERS)
    left = [next(letters) for _ in range(x.ndim)]
    right = [left[mine[theirs.index(at)]] if at in theirs else next(letters)
             for at in range(y.ndim)]  # fmt: skip
    result = [c for at, c in enumerate(left) if at not in mine]
    result += [c for at, c in enumerate(right) if at not in theirs]
    spec = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    made: Traced = _einsum(tape, spec, x, y)
    return made


@reads(np.convolve)
def _convolve(tape: Tape, a: Any, v: Any, mode: str = "full") -> Any:
    x, w = lifted(tape, a), lifted(tape, v)
    if len(w) > len(x):
        x, w = w, x
    count = len(w)
    pad = {"full": (count - 1, count - 1), "valid": (0, 0),
           "same": ((count - 1) // 2 + (count + 1) % 2 * 0, count // 2)}[mode]  # fmt: skip
    if mode == "same":
        pad = (count - 1 - (count - 1) // 2, (count - 1) // 2)
    wide = np.pad(x, pad)
    seen = np.lib.stride_tricks.sliding_window_view(wide, count)
    return _dot(tape, seen, w[::-1])


@reads(np.dot)
def _dotted(tape: Tape, a: Any, b: Any, out: Any = None) -> Any:
    return stored(_dot(tape, a, b), out)


@reads(np.inner)
def _inner(_: Tape, a: Any, b: Any) -> Any:
    return np.tensordot(a, b, axes=(-1, -1))


@reads(np.vdot)
def _vdot(tape: Tape, a: Any, b: Any) -> Any:
    return _dot(tape, np.ravel(a), np.ravel(b))


@reads(np.outer)
def _outer(_: Tape, a: Any, b: Any, out: Any = None) -> Any:
    return stored(np.multiply(np.ravel(a)[:, None], np.ravel(b)[None, :]), out)


@reads(np.linalg.norm)
def _normed(tape: Tape, a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return _norm(tape, a, ord, axis, keepdims)
