"""What sanitizers said of a kernel, in lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from roofsmith.domain.inspection import (
    Clean,
    Defect,
    Inspection,
    InspectionFound,
    ToolReport,
    Unavailable,
)


def inspection_lines(inspection: Inspection) -> Iterator[str]:
    """A line for each tool, a line for each defect, and the notes."""
    reasons = {r.reason if isinstance(r, Unavailable) else None for r in inspection.reports}
    if len(reasons) == 1 and (reason := reasons.pop()) is not None:
        yield f"no tool could look: {reason}"
        yield from inspection.notes
        return
    for report in inspection.reports:
        yield f"{report.tool}: {_verdict(report)}"
        if isinstance(report, InspectionFound):
            yield from (f"{report.tool}: {_named(defect)}" for defect in report.defects)
    yield from inspection.notes


def _verdict(report: ToolReport) -> str:
    match report:
        case Clean():
            return "clean"
        case InspectionFound(defects=defects):
            return f"found {len(defects)} " + ("defect" if len(defects) == 1 else "defects")
        case Unavailable(reason=reason):
            return f"could not look: {reason}"
        case _:
            assert_never(report)


def _named(defect: Defect) -> str:
    place = " ".join(
        (["in " + defect.kernel] if defect.kernel else [])
        + (["at " + defect.source] if defect.source else [])
    )
    times = f" ({defect.times} times)" if defect.times > 1 else ""
    return f"{defect.kind} {place}".rstrip() + times
