"""What `roofsmith kernel roofline` prints: bounds in a table, and worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.domain.bound import Bound
from roofsmith.domain.device import Device
from roofsmith.domain.facts import Datasheet, Fact
from roofsmith.domain.target import Target
from roofsmith.report.arithmetic import (
    absolute_target,
    limiter_words,
    roofline_lines,
    target_time_s,
)
from roofsmith.report.markdown import fact_lines
from roofsmith.report.rates import stood_on
from roofsmith.report.templating import Raw, render_markdown

if TYPE_CHECKING:
    from roofsmith.api.steps import Roofline


def bounded(found: Roofline) -> Blocks:
    """Bounds and goals per workload, and the facts that they rest on."""
    survey = found.survey
    device, sheet = survey.environment.device, survey.facts.datasheet
    if found.on_paper is not None and sheet is not None:
        yield from step0(found.on_paper, device, sheet, survey.bounds, found.unsaid).splitlines()
        return
    on = fmt.on_device(device.name, survey.threads if device.kind == "cpu" else None)
    stands = f"floor and goal stand on {stood_on(survey.bounds, found.ceilings)}"
    yield from [f"{on}; {stands}", ""]
    yield _table(found)
    if any(bound.bytes_only for bound in survey.bounds):
        yield found.unsaid
    cited = _cited(survey.bounds)
    for bound in survey.bounds:
        lines = roofline_lines(bound, found.goal, cited)
        yield from ["", bound.workload, *(f"  {line}" for line in lines)]
    unlisted = [f for f in survey.facts.other if f.value is None and "datasheet" in f.metric]
    yield from ["", *(f"[{number}] {fact}" for fact, number in cited.items())]
    yield from (str(fact) for fact in unlisted)


def _table(found: Roofline) -> Table:
    bounds = found.survey.bounds
    aim = found.goal.roofline_fraction
    share = "none" if aim is None else fmt.percent(aim)
    return Table(
        ("workload", "type", "work", "moved", "FLOP/byte", "limit", "floor", f"goal {share}"),
        [
            (
                bound.workload,
                bound.cost.dtype,
                fmt.quantity(bound.cost.flops, "FLOP"),
                fmt.quantity(bound.cost.total_bytes, "byte"),
                _ratio(bound.intensity),
                "bytes only" if bound.bytes_only else bound.limiter,
                fmt.time(bound.floor_time_s),
                fmt.time(target_time_s(bound, found.goal)),
            )
            for bound in bounds
        ],
    )


def _ratio(flop_per_byte: float | None) -> str:
    return fmt.UNKNOWN if flop_per_byte is None else fmt.significant(flop_per_byte)


def _cited(bounds: Sequence[Bound]) -> dict[Fact, int]:
    """Every ceiling that a bound rests on or is shown beside, numbered as they come."""
    cited: dict[Fact, int] = {}
    for bound in bounds:
        for pair in (bound.measured, bound.datasheet):
            if pair is not None:
                for fact in (pair.bandwidth, pair.peak):
                    cited.setdefault(fact, len(cited) + 1)
    return cited


def step0(
    target: Target, device: Device, sheet: Datasheet, bounds: Sequence[Bound], unsaid: str
) -> str:
    """Task, hardware specs with their citations, roofline, stop conditions, and what is UNKNOWN."""
    lacking = [fact for bound in bounds for fact in (bound.bandwidth, bound.peak)]
    return render_markdown(
        "step0.md",
        target=target,
        device=device,
        sheet=sheet,
        bounds=bounds,
        unsaid=unsaid if any(bound.bytes_only for bound in bounds) else "",
        shapes=[workload.label for workload in target.workloads],
        facts=fact_lines(sheet.facts()),
        limiter=limiter_words,
        goal=lambda bound: Raw(absolute_target(bound, target.goal)),
        arithmetic=lambda bound: "\n".join(roofline_lines(bound, target.goal)),
        gaps=list(dict.fromkeys(str(fact) for fact in lacking if fact.value is None)),
    )
