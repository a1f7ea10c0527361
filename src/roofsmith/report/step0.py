"""Step 0 as the README of a workspace has it, for a device that isn't plugged in. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.domain.bound import Bound
from roofsmith.domain.device import Device
from roofsmith.domain.facts import Datasheet
from roofsmith.domain.target import Target
from roofsmith.report.arithmetic import absolute_target, limiter_words, roofline_lines
from roofsmith.report.markdown import fact_lines
from roofsmith.report.templating import Raw, render_markdown


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
