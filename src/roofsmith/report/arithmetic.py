"""The roofline worked out on paper, line by line, so that a reader can check it. Pure.

Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009: attainable = min(peak, bandwidth x
intensity); hence floor time = max(bytes / bandwidth, flops / peak).
"""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.domain.bound import Bound
from roofsmith.domain.target import Goal
from roofsmith.report import format as fmt


def roofline_lines(bound: Bound) -> Iterator[str]:
    """How a workload's bound follows from its cost and the device's ceilings."""
    cost = bound.cost
    flops = fmt.quantity(cost.flops, "FLOP")
    moved = fmt.quantity(cost.total_bytes, "byte")
    bandwidth = fmt.quantity(bound.bandwidth.value, bound.bandwidth.unit)
    peak = fmt.quantity(bound.peak.value, bound.peak.unit)
    yield f"work      = {flops} in {cost.dtype} (from {fmt.one_line(cost.source)})"
    yield (
        f"traffic   = {fmt.quantity(cost.read_bytes, 'byte')} read"
        f" + {fmt.quantity(cost.written_bytes, 'byte')} written = {moved}"
    )
    if bound.intensity is not None:
        yield f"intensity = {flops} / {moved} = {fmt.intensity(bound.intensity)}"
    if bound.ridge is not None:
        yield f"ridge     = {peak} / {bandwidth} = {fmt.intensity(bound.ridge)}"
    yield _floor_line(bound, flops, moved, bandwidth, peak)
    for reason in dict.fromkeys(r for r in (cost.reason, bound.reason) if r):
        yield f"note      : {fmt.one_line(reason)}"


def _floor_line(bound: Bound, flops: str, moved: str, bandwidth: str, peak: str) -> str:
    if bound.floor_time_s is None:
        return f"floor     = {fmt.UNKNOWN}"
    terms = []
    if bound.cost.total_bytes is not None and bound.bandwidth.value:
        terms.append((f"{moved} / {bandwidth}", bound.cost.total_bytes / bound.bandwidth.value))
    if bound.cost.flops is not None and bound.peak.value:
        terms.append((f"{flops} / {peak}", bound.cost.flops / bound.peak.value))
    quotients = ", ".join(text for text, _ in terms)
    times = ", ".join(fmt.time(time_s) for _, time_s in terms)
    floor = fmt.time(bound.floor_time_s)
    if len(terms) > 1:
        line = f"floor     = max({quotients}) = max({times}) = {floor}"
    else:
        line = f"floor     = {quotients} = {floor}"
    return f"{line}, {limiter_words(bound)}"


def limiter_words(bound: Bound) -> str:
    """What the floor comes from: `memory-bound (data in L3)`, `compute-bound`, `bound UNKNOWN`."""
    match bound.limiter:
        case "memory":
            return f"memory-bound (data in {fmt.one_line(bound.working_set)})"
        case "compute":
            return "compute-bound"
        case "unknown":
            return f"bound {fmt.UNKNOWN}"


def absolute_target(bound: Bound, goal: Goal) -> str:
    """The goal in absolute terms: a time, and the rate that it takes."""
    if bound.floor_time_s is None:
        return fmt.UNKNOWN
    time_s = bound.floor_time_s / goal.roofline_fraction
    moved, flops = bound.cost.total_bytes, bound.cost.flops
    if bound.limiter == "compute" and flops is not None:
        rate = f", computing {fmt.quantity(flops / time_s, 'FLOP/s')}"
    elif moved is not None:
        rate = f", moving {fmt.quantity(moved / time_s, 'byte/s')}"
    else:
        rate = ""
    return f"at most {fmt.time(time_s)}{rate}"
