"""The work a workload can't do without: floating-point operations and bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from roofsmith.analysis.flops import UnknownFlopsError, family_flops
from roofsmith.domain.bound import Cost
from roofsmith.domain.facts import DType
from roofsmith.domain.workload import Workload

FLOAT_WIDTHS: Mapping[DType, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of each floating type, the widest first."""

MATRIX_FAMILIES = frozenset({"gemm", "attention"})
"""Families whose operations are matrix products, but for a vanishing share."""


class Array(Protocol):
    """What the cost needs of an array; `roofsmith.ports.ArraySpec` is one."""

    @property
    def role(self) -> str:
        """input or output."""
        ...

    @property
    def dtype(self) -> DType:
        """Element type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array."""
        ...


class Description(Protocol):
    """What the cost needs of a workload; `roofsmith.ports.WorkloadDescription` is one."""

    @property
    def arrays(self) -> Sequence[Array]:
        """Every array passed to `solve`."""
        ...

    @property
    def flops(self) -> float | None:
        """The reference's `flops(**dims)`."""
        ...

    @property
    def bytes(self) -> float | None:
        """The reference's `bytes(**dims)`: read and written together."""
        ...


def cost(workload: Workload, description: Description, family: str | None) -> Cost:
    """FLOPs and bytes of one workload, and where each figure comes from.

    FLOPs are the reference's `flops()`, else the formula of the operator family (see
    `roofsmith.analysis.flops`), else UNKNOWN. Bytes are the reference's `bytes()`, divided into
    reads and writes as the arrays are, else every input once and every output once, else UNKNOWN.

    Args:
        workload: its dimensions; names such as M, N, K and heads settle what shapes leave open.
        description: arrays and declared cost.
        family: operator family of the target, or None.
    """
    flops, flops_source, flops_reason = _flops(workload, description, family)
    read, written, bytes_source, bytes_reason = _bytes(description)
    reasons = [reason for reason in (flops_reason, bytes_reason) if reason]
    return Cost(
        flops=flops,
        read_bytes=read,
        written_bytes=written,
        dtype=_arithmetic_dtype(_operands(description.arrays, family)),
        matrix_product=family in MATRIX_FAMILIES,
        source=f"flops: {flops_source}; bytes: {bytes_source}",
        reason="; ".join(reasons) or None,
    )


def working_set_bytes(description: Description) -> int:
    """Bytes of all arrays together: what a cache must hold for the kernel to run from it."""
    return sum(array.size_bytes for array in description.arrays)


def _usable(figure: float | None) -> bool:
    return figure is not None and math.isfinite(figure) and figure >= 0


def _flops(
    workload: Workload, description: Description, family: str | None
) -> tuple[float | None, str, str | None]:
    declared = description.flops
    if declared is not None and _usable(declared):
        return float(declared), "the reference's flops()", None
    wrong = f"the reference's flops() gave {declared}, " if declared is not None else ""
    try:
        flops, formula = family_flops(family, workload.dims, description.arrays)
    except UnknownFlopsError as unknown:
        hint = "give the reference a flops(**dims)"
        return None, "UNKNOWN", f"flops UNKNOWN: {wrong}{unknown}; {hint}"
    return flops, f"{family} family, {formula}", (f"{wrong}not used" if wrong else None)


def _bytes(description: Description) -> tuple[float | None, float | None, str, str | None]:
    read = float(sum(a.size_bytes for a in description.arrays if a.role == "input"))
    written = float(sum(a.size_bytes for a in description.arrays if a.role != "input"))
    total = read + written
    declared = description.bytes
    if declared is None or not _usable(declared):
        wrong = f"the reference's bytes() gave {declared}" if declared is not None else None
        if total == 0:
            return None, None, "UNKNOWN", wrong or "bytes UNKNOWN: no arrays and no bytes(**dims)"
        source = "inputs once and outputs once, from the arrays"
        return read, written, source, f"{wrong}, not used" if wrong else None
    if total == 0:
        return float(declared), 0.0, "the reference's bytes(), all counted as read", None
    share = written / total
    source = "the reference's bytes()"
    if not math.isclose(declared, total, rel_tol=1e-9):
        source += (
            f" ({declared:.6g}), which disagrees with the arrays' {total:.6g}"
            f" (ratio {declared / total:.3g}); divided into reads and writes as the arrays are"
        )
    return float(declared) * (1 - share), float(declared) * share, source, None


def _operands(arrays: Sequence[Array], family: str | None) -> Sequence[Array]:
    """The arrays whose type the arithmetic has: sums of matrix units may be wider than inputs."""
    inputs = [array for array in arrays if array.role == "input"]
    return inputs if family in MATRIX_FAMILIES and inputs else arrays


def _arithmetic_dtype(arrays: Sequence[Array]) -> DType:
    """The widest floating type among the arrays, else the widest integer, else float32."""
    present = {array.dtype for array in arrays}
    for dtype in FLOAT_WIDTHS:
        if dtype in present:
            return dtype
    integers: tuple[DType, ...] = ("int64", "uint64", "int32", "uint32", "int16", "uint16")
    for dtype in (*integers, "int8", "uint8"):
        if dtype in present:
            return dtype
    return "float32"
