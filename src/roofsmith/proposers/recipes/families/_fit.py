"""Which operator a target's arrays make up, told by their shapes on all workloads.

Names are asked only where shapes leave a choice. A fit is what may be, not what is: that is for
`family`, the kernel's words and, at last, the judge to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Literal

from roofsmith.analysis.group_names import SIZES, is_offsets
from roofsmith.domain.description import Scalar
from roofsmith.domain.facts import DType
from roofsmith.proposers.cards import CardContext

Shape = tuple[int, ...]

FLOATS: frozenset[DType] = frozenset(("float16", "bfloat16", "float32"))
"""What the implementations here compute with."""


@dataclass(frozen=True, slots=True)
class CallArray:
    name: str
    role: str
    """As `ArraySpec.role`."""
    dtype: DType
    shapes: tuple[Shape, ...]
    """On every workload."""

    @property
    def rank(self) -> int:
        """How many axes it has, on every workload alike."""
        return len(self.shapes[0])

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(map(prod, self.shapes))

    @property
    def last(self) -> tuple[int, ...]:
        """Size of the last axis on every workload; 1 without axes."""
        return tuple(shape[-1] if shape else 1 for shape in self.shapes)

    @property
    def rows(self) -> tuple[int, ...]:
        """Elements over the size of the last axis, on every workload."""
        return tuple(prod(shape[:-1]) for shape in self.shapes)

    def axis(self, index: int) -> tuple[int, ...]:
        return tuple(shape[index] for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Call:
    """What all workloads pass to a kernel."""

    operands: tuple[CallArray, ...]
    scalars: Mapping[str, tuple[Scalar, ...]]
    """On every workload."""

    def of(self, *roles: str) -> tuple[CallArray, ...]:
        """The arrays of some roles, in the call's order."""
        return tuple(operand for operand in self.operands if operand.role in roles)

    @property
    def floats(self) -> tuple[str, ...]:
        """Scalars that are no sizes, such as an epsilon."""
        return tuple(n for n, v in self.scalars.items() if any(isinstance(x, float) for x in v))

    def extent(self, sizes: tuple[int, ...]) -> str | None:
        """Sizes on every workload in C: a scalar's name, or a product of up to three; else None.

        For kernels that see no shapes. A number that is the same on every workload isn't written
        down: the judge has workloads that no proposer sees.
        """
        if all(size == 1 for size in sizes):
            return "1"
        whole = {n: v for n, v in self.scalars.items() if all(type(x) is int for x in v)}
        for count in (1, 2, 3):
            for names in combinations(whole, count):
                if tuple(map(prod, zip(*(whole[n] for n in names), strict=True))) == sizes:
                    return " * ".join(names)
        return None


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """Rows of C (M, N) are those of A (M, K) times their group's matrix of B (G, K, N)."""

    a: CallArray
    b: CallArray
    c: CallArray
    groups: CallArray
    kind: Literal["sizes", "ends", "offsets"]
    """What it holds: rows of each group, the row behind its last, or a zero and these."""
    transposed_b: bool
    """Whether B lies as (G, N, K)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """O = softmax(Q K^T scale) V for every head."""

    call: Call
    q: CallArray
    k: CallArray
    v: CallArray
    o: CallArray
    heads_last: bool
    """(B, S, H, D), or (S, H * D) with a scalar; else (B, H, S, D), (B * H, S, D) or (S, D)."""
    heads: str | None
    """The scalar that says how many heads share the last axis; None: they have an axis."""
    scale: str | None
    """The scalar that is no size; None: one over the root of D."""
    causal: bool
    """As words of the kernel, or a scalar, say."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Rows of `x` (..., D) as 8-bit `y`, and one scale for each row."""

    x: CallArray
    y: CallArray
    """int8, or the bits of float8 as uint8."""
    scales: CallArray


def call_of(context: CardContext) -> Call | None:
    """The arrays and scalars of all workloads; None where they differ in more than sizes."""
    described = tuple(context.descriptions.values())
    if not described or any(set(d.scalars) != set(described[0].scalars) for d in described):
        return None
    operands = []
    for spec in described[0].arrays:
        same = [s for d in described for s in d.arrays if s.name == spec.name]
        ranks = {(s.role, s.dtype, len(s.shape)) for s in same}
        if len(same) != len(described) or len(ranks) > 1:
            return None
        shapes = tuple(s.shape for s in same)
        operands.append(CallArray(spec.name, spec.role, spec.dtype, shapes))
    names = described[0].scalars
    return Call(
        tuple(operands), {name: tuple(d.scalars[name] for d in described) for name in names}
    )


def grouped_product(context: CardContext) -> GroupedProduct | None:
    """Rows, a matrix for each group, and whole numbers that say which rows are whose."""
    call = call_of(context)
    if call is None or call.floats or len(call.operands) != 4 or len(call.of("output")) != 1:
        return None
    c, inputs = call.of("output")[0], call.of("input")
    a = next((o for o in inputs if o.rank == 2), None)
    b = next((o for o in inputs if o.rank == 3), None)
    groups = next((o for o in inputs if o.rank == 1 and o.dtype in ("int32", "int64")), None)
    if a is None or b is None or groups is None or not _all_floats((a, b, c)) or c.rank != 2:
        return None
    kind = _kind_of_groups(groups, b.axis(0))
    if kind is None or a.dtype != b.dtype or c.rows != a.rows:
        return None
    inner, columns = b.axis(1), b.axis(2)
    plain, turned = (a.last, c.last) == (inner, columns), (a.last, c.last) == (columns, inner)
    if not plain and not turned:
        return None
    return GroupedProduct(a, b, c, groups, kind, turned and (not plain or says(context, _TURNED)))


def _kind_of_groups(
    groups: CallArray, counts: tuple[int, ...]
) -> Literal["sizes", "ends", "offsets"] | None:
    """By its length, else by its name; None where neither tells, as with a group for each row."""
    if groups.lengths == tuple(count + 1 for count in counts):
        return "offsets"
    if groups.lengths != counts:
        return None
    if is_offsets(groups.name) or _ENDS.search(groups.name):
        return "ends"
    return "sizes" if SIZES.fullmatch(groups.name) or _SIZED.search(groups.name) else None


def attention(context: CardContext) -> Attention | None:
    """Queries, keys, values and their output, and nothing else that is an array."""
    call = call_of(context)
    if call is None or len(call.floats) > 1 or call.of("inout", "scratch"):
        return None
    inputs, outputs = call.of("input"), call.of("output")
    if len(inputs) != 3 or len(outputs) != 1 or not _all_floats((*inputs, *outputs)):
        return None
    o = outputs[0]
    q, k, v = (_named(inputs, letter, first=True) or inputs[i] for i, letter in enumerate("qkv"))
    if len({q.name, k.name, v.name}) < 3 or q.shapes != o.shapes or k.shapes != v.shapes:
        return None
    if q.last != k.last or q.rank != k.rank or q.rank not in (2, 3, 4):
        return None
    heads = _heads(call) if q.rank == 2 else None
    heads_last = heads is not None or (q.rank == 4 and _has_heads_last(context, q, k))
    around = (0, 2 if heads_last else 1)
    if q.rank > 2 and any(q.axis(i) != k.axis(i) for i in around[: q.rank - 2]):
        return None  # grouped heads, or lengths that differ in another way
    scale = next(iter(call.floats), None)
    return Attention(call, q, k, v, o, heads_last, heads, scale, _is_causal(context, call))


_ENDS = re.compile(r"end|cum", re.IGNORECASE)
_SIZED = re.compile(r"size|len|count|split|per_", re.IGNORECASE)
_HEADS = frozenset(("h", "heads", "num_heads", "n_heads", "nheads", "nh"))
_MASKED = re.compile(r"causal|tril|triu|\[:, None\] *>=|>= *\w+\[None, :\]", re.IGNORECASE)
_UNMASKED = re.compile(r"non-?_?causal|not causal|causal *= *False", re.IGNORECASE)
_TURNED = re.compile(r"\.T\b|\.t\(\)|transpose|linear\(|swapaxes|\bmT\b|_nt\b", re.IGNORECASE)
_EXCHANGED = re.compile(r"transpose\(\s*1\s*,\s*2\s*\)|transpose\(\s*2\s*,\s*1\s*\)|bshd|b[ln]hd")


def _heads(call: Call) -> str | None:
    return next((name for name in call.scalars if name.lower() in _HEADS), None)


def _has_heads_last(context: CardContext, q: CallArray, k: CallArray) -> bool:
    """Whether the third of four axes is the heads', by a dimension's name, else by the text."""
    sizes = [next((v for n, v in d.items() if n.lower() in _HEADS), None) for d in context.dims]
    if None not in sizes:
        second, third = q.axis(1) == tuple(sizes), q.axis(2) == tuple(sizes)
        if second != third:
            return third
    if q.axis(1) != k.axis(1):
        return True
    return says(context, _EXCHANGED)


def _is_causal(context: CardContext, call: Call) -> bool:
    told = next((v for n, v in call.scalars.items() if "causal" in n.lower()), None)
    dims = (size for d in context.dims for n, size in d.items() if "causal" in n.lower())
    if told is not None:
        return all(map(bool, told))
    text = _UNMASKED.sub("", context.candidate.kernel.text)
    return _MASKED.search(text) is not None and all(map(bool, dims))


def quantisation(context: CardContext) -> Quantisation | None:
    """One input, its elements in 8 bits, and a scale for each row."""
    call = call_of(context)
    if call is None or len(call.operands) != 3 or call.floats:
        return None
    xs, ys = call.of("input"), call.of("output")
    narrow = next((o for o in ys if o.dtype in ("int8", "uint8")), None)
    scales = next((o for o in ys if o.dtype == "float32"), None)
    if len(xs) != 1 or narrow is None or scales is None or xs[0].dtype not in FLOATS:
        return None
    fits = narrow.shapes == xs[0].shapes and scales.lengths == xs[0].rows
    return Quantisation(xs[0], narrow, scales) if fits else None


def says(context: CardContext, words: re.Pattern[str]) -> bool:
    """Whether the kernel's file has one of these words."""
    return words.search(context.candidate.kernel.text) is not None


def _all_floats(operands: tuple[CallArray, ...]) -> bool:
    return all(operand.dtype in FLOATS for operand in operands)


def _named(operands: Sequence[CallArray], word: str, *, first: bool = False) -> CallArray | None:
    """The only one whose name has the word in it, or begins with it."""
    test: Callable[[str], bool] = (lambda n: n.startswith(word)) if first else (lambda n: word in n)
    found = [operand for operand in operands if test(operand.name.lower())]
    return found[0] if len(found) == 1 else None
