"""How far off a kernel is, for people: the inputs that came nearest to a budget, per workload."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis import figures as fmt
from roofsmith.domain.comparison import ErrorReport

HEADERS = ("workload", "output", "inputs", "norm error", "allowed", "element error", "allowed")


def error_rows(errors: Sequence[ErrorReport]) -> list[tuple[str, ...]]:
    """A row per workload and output, under `HEADERS`; JSON has every kind of inputs."""
    tried: dict[tuple[str, str], list[ErrorReport]] = {}
    for error in errors:
        tried.setdefault((error.workload, error.output), []).append(error)
    return [_row(reports) for reports in tried.values()]


def _row(reports: Sequence[ErrorReport]) -> tuple[str, ...]:
    worst = max(reports, key=lambda report: report.share)
    kinds = worst.inputs if len(reports) == 1 else f"{worst.inputs} (worst of {len(reports)})"
    figures = (worst.norm_error, worst.norm_budget, worst.element_error, worst.element_budget)
    return (worst.workload, worst.output, kinds, *map(fmt.error, figures))
