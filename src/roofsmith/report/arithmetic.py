"""The roofline worked out on paper, line by line, so that a reader can check it. Pure.

Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009: attainable = min(peak, bandwidth x
intensity); hence floor time = max(bytes / bandwidth, flops / peak).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.heard import Ends, time_intervals
from roofsmith.domain.bound import Bound, Cost, Count
from roofsmith.domain.comparison import Judgement, WorkloadComparison
from roofsmith.domain.facts import Fact
from roofsmith.domain.measure import Measure
from roofsmith.domain.target import Goal

_BY = {
    "counted": "the reference's run",
    "declared": "what is declared",
    "family": "the family's formula",
    "arrays": "the arrays' sizes",
    "read": "the reference's own operations",
    "loops": "the baseline's loops, which bound no other kernel,",
}
"""Who gives a figure."""

NOTHING_CITED: Final[Mapping[Fact, int]] = {}


def roofline_lines(
    bound: Bound, goal: Goal, cited: Mapping[Fact, int] = NOTHING_CITED
) -> Iterator[str]:
    """How a workload's bound follows from its cost and the device's ceilings, and its goal.

    Args:
        bound: of the workload.
        goal: of the target.
        cited: numbers under which ceilings are cited elsewhere, to be shown behind them.
    """
    cost = bound.cost
    flops = fmt.quantity(cost.flops, "FLOP")
    moved = fmt.quantity(cost.total_bytes, "byte")
    bandwidth = fmt.quantity(bound.bandwidth.value, bound.bandwidth.unit)
    peak = fmt.quantity(bound.peak.value, bound.peak.unit)
    yield f"work      = {flops} in {cost.dtype}{_source(cost, 'flops')}"
    yield from _disagreeing(cost, "flops", "FLOP")
    yield (
        f"traffic   = {fmt.quantity(cost.read_bytes, 'byte')} read"
        f" + {fmt.quantity(cost.written_bytes, 'byte')} written = {moved}{_source(cost, 'bytes')}"
    )
    yield from _disagreeing(cost, "bytes", "byte")
    if bound.intensity is not None:
        yield f"intensity = {flops} / {moved} = {fmt.intensity(bound.intensity)}"
    if bound.ridge is not None:
        yield f"ridge     = {peak} / {bandwidth} = {fmt.intensity(bound.ridge)}"
    yield from _both_kinds(bound, cited)
    yield _floor_line(bound, flops, moved, bandwidth, peak)
    if bound.floor_time_s is not None:
        if bound.attainable is not None:
            yield _attainable_line(bound)
        reached_s = bound.attainable_s or bound.floor_time_s
    if bound.floor_time_s is not None and goal.roofline_fraction is not None:
        quotient = f"{fmt.time(reached_s)} / {goal.roofline_fraction:g}"
        yield f"goal      = {quotient}: {absolute_target(bound, goal)}"
    for reason in dict.fromkeys(r for r in (bound.reason or cost.reason,) if r):
        yield f"note      : {fmt.one_line(reason)}"


def _both_kinds(bound: Bound, cited: Mapping[Fact, int]) -> Iterator[str]:
    """What was measured beside what the datasheet says; alone only to say where it is cited."""
    kinds = (("measured", bound.measured), ("datasheet", bound.datasheet))
    pairs = [(kind, pair) for kind, pair in kinds if pair is not None]
    if len(pairs) < 2 and not cited:
        return
    for name in ("bandwidth", "peak"):
        said = []
        for kind, pair in pairs:
            fact: Fact = getattr(pair, name)
            place = f" [{cited[fact]}]" if fact in cited else ""
            said.append(f"{kind} {fmt.quantity(fact.value, fact.unit)}{place}")
        yield f"{name:<9} : {', '.join(said)}"


def _attainable_line(bound: Bound) -> str:
    """What a copy of the same bytes takes where it is timed as candidates are."""
    assert bound.attainable is not None
    if bound.attainable.value is None or bound.cost.total_bytes is None:
        return f"attainable: {fmt.UNKNOWN} ({fmt.one_line(bound.attainable.reason or '')})"
    rate = fmt.quantity(bound.attainable.value, bound.attainable.unit)
    time_s = bound.cost.total_bytes / bound.attainable.value
    return f"attainable= {fmt.time(time_s)}, {rate}: a copy of the bytes, timed as the judge does"


def _source(cost: Cost, quantity: Literal["flops", "bytes"]) -> str:
    """Who gave the figure that is used; records from before this was kept name both at once."""
    used = next((c for c in cost.counts if c.quantity == quantity and c.used), None)
    if used is None:
        return f" (from {fmt.one_line(cost.source)})" if quantity == "flops" else ""
    by = "counted: " if used.origin == "counted" and quantity == "flops" else ""
    agreeing = [_BY[count.origin] for count in _others(cost, quantity) if count.value == used.value]
    also = f"; so by {' and '.join(agreeing)}" if agreeing else ""
    return f" ({by}{fmt.one_line(used.detail)}{also})"


def _disagreeing(cost: Cost, quantity: Literal["flops", "bytes"], unit: str) -> Iterator[str]:
    """What everybody else says of the same quantity, where it is something else."""
    used = next((c for c in cost.counts if c.quantity == quantity and c.used), None)
    for count in _others(cost, quantity):
        if used is None or count.value != used.value:
            value = fmt.quantity(count.value, unit)
            yield f"            by {_BY[count.origin]} {value} ({fmt.one_line(count.detail)})"


def _others(cost: Cost, quantity: Literal["flops", "bytes"]) -> list[Count]:
    found = [c for c in cost.counts if c.quantity == quantity and not c.used]
    return [count for count in found if count.value is not None]


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
    """What the floor comes from: `memory roof (data in L3)`, `compute roof`, `bound UNKNOWN`.

    A floor for which nobody says how many operations there are is `bytes only (data in L3)`.
    """
    match bound.limiter:
        case "memory":
            roof = "bytes only" if bound.bytes_only else "memory roof"
            return f"{roof} (data in {fmt.one_line(bound.working_set)})"
        case "compute":
            return "compute roof"
        case "unknown":
            return f"bound {fmt.UNKNOWN}"


def target_time_s(bound: Bound, goal: Goal) -> float | None:
    """The time at which a workload is at its goal; None where floor or goal is missing."""
    if bound.floor_time_s is None or goal.roofline_fraction is None:
        return None
    return (bound.attainable_s or bound.floor_time_s) / goal.roofline_fraction


def absolute_target(bound: Bound, goal: Goal) -> str:
    """The goal in absolute terms: a time, and the rate that it takes."""
    time_s = target_time_s(bound, goal)
    if time_s is None:
        return fmt.UNKNOWN if goal.roofline_fraction is not None else "no goal"
    moved, flops = bound.cost.total_bytes, bound.cost.flops
    if bound.limiter == "compute" and flops is not None:
        rate = f", computing {fmt.quantity(flops / time_s, 'FLOP/s')}"
    elif moved is not None:
        rate = f", moving {fmt.quantity(moved / time_s, 'byte/s')}"
    else:
        rate = ""
    return f"at most {fmt.time(time_s)}{rate}"


def before_and_after(
    judgement: Judgement,
    one: WorkloadComparison,
    measure: Measure,
    error_rate: float,
    *,
    bytes_only: bool = False,
) -> tuple[str, str, str]:
    """Time or metric before and after, each with its interval, and the roofline's shares."""
    before, after = time_intervals(judgement, one, error_rate)
    shares = (
        fmt.share(None if one.floor_time_s is None else one.floor_time_s / time_s, bytes_only)
        for time_s in (one.incumbent_time_s, one.candidate_time_s)
    )
    return (
        _with_interval(one.incumbent_time_s, before, measure),
        _with_interval(one.candidate_time_s, after, measure),
        " → ".join(shares) if one.floor_time_s is not None else fmt.UNKNOWN,
    )


def _with_interval(recorded: float, ci: Ends | None, measure: Measure) -> str:
    said = fmt.measured(recorded, measure)
    return said if ci is None else f"{said} {fmt.measured_interval(ci, measure)}"
