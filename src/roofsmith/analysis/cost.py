"""The work a workload can't do without: operations and bytes, and who says so.

Four sources may know: a run of the reference, where it is PyTorch and its operators were counted;
what the reference declares (`flops()`, `bytes()`), or a repository's target (`command.flops`,
`command.bytes`); the operations that the reference was read to be made of; and the formula of the
operator family. All that are known are kept. One comes before the other in this order, with one
exception: of a run and a declaration the lower counts, since a floor must never lie above what is
possible. A run counts every element of a product that is masked by hand; whoever wrote `flops()`
knows about the mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from roofsmith.analysis.flops import UnknownFlopsError, family_flops
from roofsmith.analysis.traffic import bytes_counts, declared
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import Cost, Count, OperationCount
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.facts import ArithmeticType, DType
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload

FLOAT_WIDTHS: Mapping[DType, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of each floating type, the widest first."""

MATRIX_FAMILIES = frozenset({"gemm", "gemv", "grouped_gemm", "moe", "conv2d", "attention"})
"""Families whose operations are matrix products, but for a vanishing share."""

FASTEST_FIRST: Final[tuple[ArithmeticType, ...]] = (
    "float8", "int8", "float16", "bfloat16", "tfloat32", "float32", "float64",
)  # fmt: skip
"""Types in which matrix units work, the fastest first."""

MASKED_SHARE = 0.5
"""What a causal mask leaves of an attention, which shapes don't show."""

READ: Final = "the operations that the reference is made of"
_SEEN = frozenset({"counted", "declared"})
"""Who comes before what is read and before a formula."""

AGREE = 0.05
"""FLOPs that differ by less than this share agree: a softmax between two products counts or not."""


def cost(
    workload: Workload,
    description: WorkloadDescription,
    family: str | None,
    read: float | None = None,
) -> Cost:
    """FLOPs and bytes of one workload, and where each figure comes from.

    Args:
        workload: its dimensions; names such as M, N, K and heads settle what shapes leave open.
        description: arrays, declared cost, and what the reference was seen to do.
        family: operator family of the target, or None.
        read: operations of the reference, as it was read.
    """
    flops = _flops_counts(workload, description, family, read)
    moved = bytes_counts(description, family)
    used = next((count for count in flops if count.used), None)
    products = description.counted is not None and description.counted.flops is not None
    dtype, mixed = _arithmetic(description, family)
    reasons = [*_unknown(flops, description), *_disagreements(flops), mixed, moved.reason]
    flops_source = _said(used) if used else "UNKNOWN"
    return Cost(
        flops=used.value if used else None,
        read_bytes=moved.read,
        written_bytes=moved.written,
        dtype=dtype,
        matrix_product=products or family in MATRIX_FAMILIES,
        source=f"flops: {flops_source}; bytes: {moved.source}",
        reason="; ".join(reason for reason in reasons if reason) or None,
        counts=(*flops, *moved.counts),
        least_flops=_vouched(used.value, flops, description, family) if used else None,
        least_bytes=moved.least,
    )


def working_set_bytes(description: WorkloadDescription) -> int:
    """Bytes of all arrays together: what a cache must hold for the kernel to run from it."""
    return sum(array.size_bytes for array in description.arrays)


def _flops_counts(
    workload: Workload, description: WorkloadDescription, family: str | None, read: float | None
) -> tuple[Count, ...]:
    counts = [*_counted(description), *declared("flops", description.flops, description.arrays)]
    if read is not None:
        counts.append(Count(quantity="flops", origin="read", value=read, detail=READ))
    counts.append(_family(workload, description, family))
    known = [count for count in counts if count.value is not None]
    seen = [count for count in known if count.origin in _SEEN] or known[:1]
    least = min(seen, key=lambda count: count.value or 0.0, default=None)
    return tuple(c.model_copy(update={"used": True}) if c is least else c for c in counts)


def _counted(description: WorkloadDescription) -> list[Count]:
    seen = description.counted
    if seen is None:
        return []
    detail = _operators(seen) or seen.reason or "nothing that is counted"
    return [Count(quantity="flops", origin="counted", value=seen.flops, detail=detail)]


def _operators(seen: OperationCount) -> str:
    """`aten.mm`, or each operator's share where there are several."""
    if seen.flops is None or len(seen.by_operator) < 2:
        return ", ".join(seen.by_operator)
    return ", ".join(f"{name} {flops / seen.flops:.0%}" for name, flops in seen.by_operator.items())


def _family(workload: Workload, description: WorkloadDescription, family: str | None) -> Count:
    try:
        flops, formula = family_flops(family, workload.dims, description.arrays)
    except UnknownFlopsError as unknown:
        return Count(quantity="flops", origin="family", value=None, detail=str(unknown))
    detail = f"{family} family, {formula}"
    return Count(quantity="flops", origin="family", value=flops, detail=detail)


def _said(count: Count) -> str:
    if count.origin == "counted":
        return f"counted in the reference's run ({count.detail})"
    return count.detail


def _unknown(flops: Sequence[Count], description: WorkloadDescription) -> list[str]:
    """Why there is no figure, or what is wrong with one that was declared."""
    wrong = [count.detail for count in flops if count.origin == "declared" and count.value is None]
    if any(count.used for count in flops):
        return wrong
    causes = [count.detail for count in flops]
    wanted = "the reference a flops(**dims)" if description.arrays else "the target command.flops"
    return [f"flops UNKNOWN: {', '.join(causes)}; give {wanted}"]


def _disagreements(flops: Sequence[Count]) -> list[str]:
    """Every figure that differs from the one that is used, and why that one is."""
    used = next((count for count in flops if count.used), None)
    others = [c for c in flops if used and c is not used and c.value is not None]
    different = [
        c
        for c in others
        if used and not math.isclose(c.value or 0.0, used.value or 0.0, rel_tol=AGREE)
    ]
    if not different or used is None:
        return []
    says = " and ".join(f"{c.origin} {c.value:.6g}" for c in different)
    lower = {used.origin, *(c.origin for c in different)} >= {"counted", "declared"}
    why = ": the lower one, since a floor must not lie above what is possible" if lower else ""
    return [f"flops: {used.origin} {used.value:.6g} is used{why}; it disagrees with {says}"]


def _vouched(
    used: float | None, flops: Sequence[Count], description: WorkloadDescription, family: str | None
) -> float:
    """Operations that somebody says no kernel can do without, for calling times impossible.

    A run shows what one algorithm does, not that no other does with less (a sum of a product is a
    product of sums). Convolutions are known to need fewer (Winograd's, and by Fourier transforms:
    Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016).
    """
    by_operator = description.counted.by_operator if description.counted else {}
    if family == "conv2d" or any("convolution" in name for name in by_operator):
        return 0.0
    said = {count.origin: count.value for count in flops if count.value is not None}
    least = said.get("declared")
    if least is None and family == "attention" and "family" in said:
        least = MASKED_SHARE * (said["family"] or 0.0)
    elif least is None:
        least = said.get("family", 0.0)
    return min(least or 0.0, used or 0.0)


def _arithmetic(
    description: WorkloadDescription, family: str | None
) -> tuple[ArithmeticType, str | None]:
    """The type that operations are done in; a remark where there are several."""
    if description.dtype is not None:
        return description.dtype, None
    seen = description.counted.by_dtype if description.counted else {}
    done = {("int8" if dtype == "uint8" else dtype) for dtype in seen}
    fastest: ArithmeticType | None = next((t for t in FASTEST_FIRST if t in done), None)
    if fastest is None:
        return _stored(_operands(description.arrays, family)), None
    mixed = f"products in {' and '.join(sorted(done))} are all taken as {fastest}, the fastest"
    return fastest, mixed if len(done) > 1 else None


def _operands(arrays: Sequence[ArraySpec], family: str | None) -> Sequence[ArraySpec]:
    """The arrays whose type the arithmetic has.

    Of a product its first two matrices: sums of matrix units may be wider, scales and biases too.
    """
    inputs = [array for array in arrays if array.role == "input"]
    if family not in MATRIX_FAMILIES or not inputs:
        return arrays
    matrices = [array for array in inputs if len(array.shape) > 1]
    return (matrices or inputs)[:2]


def _stored(arrays: Sequence[ArraySpec]) -> DType:
    """The widest floating type among the arrays, else the widest integer, else float32."""
    present = {array.dtype for array in arrays}
    for dtype in FLOAT_WIDTHS:
        if dtype in present:
            return dtype
    integers: tuple[DType, ...] = ("int64", "uint64", "int32", "uint32", "int16", "uint16")
    for dtype in (*integers, "int8", "uint8", "bool"):
        if dtype in present:
            return dtype
    return "float32"


BYTES_ONLY = "the floor counts bytes only"


def unsaid_operations(target: Target, *, is_read: bool = True) -> str:
    """What shares of the roofline are worth without it, and what to add where.

    Args:
        target: whose operations nobody says.
        is_read: whether that was looked for in the reference, too.
    """
    if target.command is not None or target.reference is None:
        return f"{BYTES_ONLY}; give the target command.flops"
    path = target.reference.path
    line = f"def flops({', '.join(target.workloads[0].dims)}): return ..."
    if is_read:
        return f"{BYTES_ONLY}; add `{line}` to {path}"
    return (
        f"{BYTES_ONLY} here; `roofsmith kernel roofline` reads in {path} what is computed, or add"
        f" `{line}` to it"
    )


def is_bytes_only(notes: Iterable[str]) -> bool:
    return any(note.startswith(BYTES_ONLY) for note in notes)
