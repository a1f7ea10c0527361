"""The final kernel against PyTorch, as rows. Pure.

A yardstick was judged as the candidate, with the kernel as the incumbent; here it is turned around,
so that above 1 means that the kernel is faster, as everywhere else in a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Estimate, Judgement
from roofsmith.domain.outcome import Passed
from roofsmith.domain.yardstick import YardstickResult
from roofsmith.report.summary import Ratio, YardstickRow


def campaign_yardsticks(campaign: Campaign) -> tuple[YardstickRow, ...]:
    """Rows of what was measured beside the kernel that holds now; none if that is another one."""
    event = campaign.yardsticks
    if event is None or event.incumbent_id != campaign.incumbent.id:
        return ()
    return yardstick_rows(event.results)


def yardstick_rows(results: Sequence[YardstickResult]) -> tuple[YardstickRow, ...]:
    """A row per yardstick and workload; one alone for a yardstick without times."""
    return tuple(row for result in results for row in _rows(result))


def ratio_over(judgement: Judgement) -> Ratio | None:
    """How much faster the kernel is than a yardstick over all workloads; None if nobody knows."""
    if judgement.comparison is None or not isinstance(judgement.outcome, Passed):
        return None
    return inverse(judgement.comparison.overall)


def _rows(result: YardstickResult) -> Iterator[YardstickRow]:
    name = f"{result.name} ({', '.join(result.calls)})" if result.calls else result.name
    found = result.judgement
    if found.comparison is None or not isinstance(found.outcome, Passed):
        yield YardstickRow(name, None, None, None, None, _why(found))
        return
    for row in found.comparison.workloads:
        yield YardstickRow(
            name, row.workload, row.candidate_time_s, row.incumbent_time_s, inverse(row.estimate)
        )
    if len(found.comparison.workloads) > 1:
        yield YardstickRow(name, None, None, None, inverse(found.comparison.overall))


def _why(judgement: Judgement) -> str:
    outcome = judgement.outcome
    if isinstance(outcome, Passed):
        return next(iter(judgement.notes), "not measured")
    return f"{outcome.kind.replace('_', ' ')}: {fmt.first_line(outcome.detail) or outcome.reason}"


def inverse(estimate: Estimate) -> Ratio:
    """The same ratio, seen from the kernel."""
    low, high = estimate.ci
    return Ratio(1 / estimate.speedup, (1 / high, 1 / low))
