"""Which of a device's ceilings stands over a workload: memory's bandwidth, arithmetic's peak.

The choice must keep the roofline a lower bound on time, so it is the fastest ceiling that the
workload could reach; `roofsmith.analysis.roofline` says how.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from roofsmith.analysis.residency import MEMORY
from roofsmith.domain.bound import CeilingKind, CeilingPair, Cost
from roofsmith.domain.device import Device
from roofsmith.domain.facts import (
    ArithmeticType,
    BandwidthCeiling,
    ComputeCeiling,
    Datasheet,
    Fact,
    FactSheet,
)

PURE_READER_WRITE_SHARE = 0.01
"""Up to this share of written bytes a kernel counts as a reader: its writes are below the
repeatability of the measured ceilings, 2%."""

MATRIX_TYPES: Final = ("float16", "bfloat16", "int8")
"""What the matrix units of every GPU that has some work on."""

COMPOSED: Final[Mapping[ArithmeticType, tuple[ArithmeticType, ...]]] = {
    "float32": ("tfloat32", "bfloat16", "float16"),
    "float64": ("int8", "tfloat32", "bfloat16", "float16"),
}
"""Types of matrix units that products of more precise types are put together from: Ootomo and
Yokota, "Recovering single precision accuracy from Tensor Cores", 2022; Ootomo, Ozaki and Yokota,
"DGEMM on integer matrix multiplication unit", 2024."""


def measured_ceilings(
    cost: Cost,
    facts: FactSheet,
    device: Device,
    threads: int,
    held: float | None,
    level: str,
    *,
    tf32: bool,
) -> CeilingPair:
    """What this machine was seen to do.

    Args:
        cost: what is to be done.
        facts: with what was measured.
        device: whether its matrix units are sure to be used.
        threads: processors that the kernel may use.
        held: bytes of the working set; None: UNKNOWN.
        level: where the working set lives.
        tf32: whether float32 matrix products may be done in TF32.
    """
    return CeilingPair(
        bandwidth=_bandwidth(cost, facts.bandwidth, threads, held, level),
        peak=_peak(cost, facts.compute, threads, device, tf32),
    )


def printed_ceilings(
    cost: Cost, datasheet: Datasheet, device: Device, level: str, *, tf32: bool
) -> CeilingPair:
    """What the device's page in the hardware wiki says; of its memory, not of its caches."""
    bandwidth = datasheet.bandwidth
    if level != MEMORY:
        reason = f"{datasheet.page} has the bandwidth of memory; the data is in {level}"
        bandwidth = Fact(metric="bandwidth", value=None, unit="byte/s", reason=reason)
    return CeilingPair(
        bandwidth=bandwidth, peak=_peak(cost, datasheet.compute, 1, device, tf32, datasheet.page)
    )


def chosen(
    kind: CeilingKind, measured: CeilingPair, datasheet: CeilingPair | None
) -> tuple[CeilingPair, tuple[str, ...]]:
    """The ceilings of the kind that is asked for, and where the other's had to serve."""
    if datasheet is None:
        wanted = ("no datasheet of this device: measured ceilings are used",)
        return measured, (wanted if kind == "datasheet" else ())
    first, second = (measured, datasheet) if kind == "measured" else (datasheet, measured)
    other = "datasheet's" if kind == "measured" else "measured"
    bandwidth, peak = first.bandwidth, first.peak
    notes = []
    if bandwidth.value is None and second.bandwidth.value is not None:
        notes.append(f"the {other} bandwidth is used: {bandwidth.reason or 'the other is UNKNOWN'}")
        bandwidth = second.bandwidth
    if peak.value is None and second.peak.value is not None:
        notes.append(f"the {other} peak is used: {peak.reason or 'the other is UNKNOWN'}")
        peak = second.peak
    return CeilingPair(bandwidth=bandwidth, peak=peak), tuple(notes)


def highest(facts: Sequence[Fact]) -> Fact | None:
    """The largest of several facts; None if nothing is known."""
    known = [fact for fact in facts if fact.value is not None]
    return max(known, key=lambda fact: fact.value or 0.0, default=None)


def matrix_peaks(cost: Cost, facts: FactSheet, device: Device) -> list[Fact]:
    """Ceilings of a GPU's matrix units that the operations might be done on after all.

    Those of their own type, since sums can be written as products and nobody may have seen one; and
    of products those of less precise types, from which more precise ones are put together.
    """
    if device.kind == "cpu":
        return []
    types = (cost.dtype, *(COMPOSED.get(cost.dtype, ()) if cost.matrix_product else ()))
    printed = facts.datasheet.compute if facts.datasheet else ()
    return [
        c.fact
        for c in (*facts.compute, *printed)
        if c.operation == "mma" and c.dtype in types and c.fact.value is not None
    ]


def _bandwidth(
    cost: Cost, ceilings: Sequence[BandwidthCeiling], threads: int, held: float | None, level: str
) -> Fact:
    """The fastest bandwidth that a working set of `held` bytes could see."""
    measured = [c for c in ceilings if c.fact.value is not None]
    usable = _thread_counts({c.threads for c in measured}, threads)
    measured = [c for c in measured if c.threads in usable]
    if _only_reads(cost):
        measured = _readers(measured, math.inf if level == MEMORY else held) or measured
    if not measured:
        return _unknown("bandwidth", "byte/s", threads, [c.fact for c in ceilings])
    if held is None:
        return Fact(metric="bandwidth", value=None, unit="byte/s", reason="bytes are UNKNOWN")
    # The count asked for comes first, so that it is the one cited where several are equal.
    least = math.inf if level == MEMORY else held
    reachable = [c for n in sorted(usable, reverse=True) for c in _at_least(measured, n, least)]
    return max((c.fact for c in reachable), key=lambda fact: fact.value or 0.0)


def _readers(measured: Sequence[BandwidthCeiling], held: float | None) -> list[BandwidthCeiling]:
    """Those of reading alone, if sets as small as this one were read: larger ones are slower."""
    reading = [c for c in measured if c.pattern == "read"]
    near_enough = any(held is not None and c.working_set_bytes <= held for c in reading)
    return reading if near_enough else []


def _at_least(
    measured: Sequence[BandwidthCeiling], threads: int, held: float
) -> list[BandwidthCeiling]:
    """Ceilings from the largest measured set within `held` (else the smallest of all) upwards."""
    own = [c for c in measured if c.threads == threads]
    sizes = sorted({c.working_set_bytes for c in own})
    within = [size for size in sizes if size <= held]
    start = within[-1] if within else sizes[0] if sizes else 0
    return [c for c in own if c.working_set_bytes >= start]


def _only_reads(cost: Cost) -> bool:
    total = cost.total_bytes
    if total is None or cost.written_bytes is None or total == 0:
        return False
    return cost.written_bytes <= PURE_READER_WRITE_SHARE * total


def _peak(
    cost: Cost,
    ceilings: Sequence[ComputeCeiling],
    threads: int,
    device: Device,
    tf32: bool,
    page: str | None = None,
) -> Fact:
    own = [c for c in ceilings if _may_use(c, cost, tf32)]
    measured = [c for c in own if c.fact.value is not None]
    if _needs_matrix_units(cost, device) and not any(c.operation == "mma" for c in measured):
        # Multiply-adds alone would be a ceiling that an ordinary kernel breaks through.
        lacking = [c.fact for c in own if c.operation == "mma"]
        return _unknown(f"{cost.dtype} matrix peak", "FLOP/s", threads, lacking, page)
    usable = _thread_counts({c.threads for c in measured}, threads)
    measured.sort(key=lambda c: c.threads, reverse=True)
    reachable = [c.fact for c in measured if c.threads in usable]
    if not reachable:
        return _unknown(f"{cost.dtype} peak", "FLOP/s", threads, [c.fact for c in own], page)
    return max(reachable, key=lambda fact: fact.value or 0.0)


def _may_use(ceiling: ComputeCeiling, cost: Cost, tf32: bool) -> bool:
    """Whether the cost's operations can be done the way that a ceiling measures."""
    if ceiling.operation == "fma":
        return ceiling.dtype == cost.dtype
    if not cost.matrix_product:
        return False
    as_tf32 = tf32 and cost.dtype == "float32" and ceiling.dtype == "tfloat32"
    return ceiling.dtype == cost.dtype or as_tf32


def _needs_matrix_units(cost: Cost, device: Device) -> bool:
    """Whether the device's matrix units surely do this type's products, faster than anything."""
    return device.kind != "cpu" and cost.matrix_product and cost.dtype in MATRIX_TYPES


def _thread_counts(measured: set[int], threads: int) -> set[int]:
    """Counts whose ceilings together bound `threads` processors: all below, and one at or above."""
    above = [count for count in measured if count >= threads]
    if not above:
        return set()
    return {count for count in measured if count <= min(above)}


def _unknown(
    metric: str, unit: str, threads: int, facts: Sequence[Fact], page: str | None = None
) -> Fact:
    reason = next((fact.reason for fact in facts if fact.reason), None)
    missing = f"no ceiling was measured for {threads} threads"
    if page is not None:
        missing = f"not on the wiki page {page}"
    return Fact(metric=metric, value=None, unit=unit, reason=reason or missing)
