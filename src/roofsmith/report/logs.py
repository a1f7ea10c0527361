"""The logs of a campaign directory, which only grow: a correction is a new line. Pure.

What is written of a record depends on no later one, not even a commit that comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import geometric_mean

from roofsmith.analysis import kernel_table
from roofsmith.domain.campaign import Aside, Campaign, Committed, Stopped
from roofsmith.domain.yardstick import PyTorchBaselines
from roofsmith.report.ends import PAUSES
from roofsmith.report.headline import unseen_of
from roofsmith.report.steps import counting_ratio
from roofsmith.report.summary import Attribution, Ending, Summary
from roofsmith.report.templating import Raw, render_markdown
from roofsmith.report.transfer import attribution

_End = tuple[Ending, Attribution | None]


def optimize_log(campaign: Campaign, summary: Summary) -> str:
    """`logs/optimize.md`: a block per round and per stop, a line for whatever else happened."""
    head = render_markdown("optimize_head.md", s=summary, target=campaign.started.target)
    return head + "".join(_entries(campaign, summary))


def performance_trend(summary: Summary) -> str:
    """`logs/performance_trend.md`: one table row per round."""
    rows = (
        render_markdown(
            "trend_row.md",
            step=step,
            time=geometric_mean(step.times_s.values()) if step.times_s else None,
        )
        for step in summary.steps
    )
    return render_markdown("trend_head.md", s=summary) + "".join(rows)


def end_block(end: Ending | None) -> Raw:
    """The conditions of an end, and the kernel that held; empty without one."""
    if end is None:
        return Raw("")
    profile = end.held.profile_after if end.held is not None else None
    hottest = kernel_table.hottest(profile.kernels) if profile is not None else ""
    return Raw(render_markdown("end_block.md", end=end, hottest=hottest).rstrip("\n"))


def holders_of(summary: Summary) -> dict[int, int]:
    """Round number to the number of the round whose kernel it was compared with."""
    holders, holder = {}, 1
    for step in summary.steps:
        holders[step.number] = holder
        if step.mark == "kept":
            holder = step.number
    return holders


def _entries(campaign: Campaign, summary: Summary) -> Iterator[str]:
    later = {aside.event.round for aside in campaign.asides if isinstance(aside.event, Committed)}
    commits = {s.number: None if s.number in later else s.commit for s in summary.steps}
    holders = holders_of(summary)
    ends = iter([(end, _attributed(summary, end)) for end in summary.endings])
    yield from _asides(campaign, 0, commits, ends)
    for step in summary.steps:
        known = replace(step, commit=commits[step.number])
        yield render_markdown("optimize_block.md", step=known, holder=holders[step.number])
        yield from _asides(campaign, step.number, commits, ends)


def _asides(
    campaign: Campaign, after_round: int, commits: dict[int, str | None], ends: Iterator[_End]
) -> Iterator[str]:
    """What happened before the next round; `commits` learns of those made by then.

    The log has a plan from the next record on: the recorder writes nothing when one is made.
    """
    for aside in campaign.asides:
        is_last = aside is campaign.asides[-1]
        if aside.after_round == after_round and not (is_last and aside.event == campaign.planned):
            yield _aside(aside, commits, ends)


def _aside(aside: Aside, commits: dict[int, str | None], ends: Iterator[_End]) -> str:
    event = aside.event
    if isinstance(event, PyTorchBaselines):
        return ""
    if isinstance(event, Stopped):
        known, parts = next(ends)
        end = _as_it_was(known, commits)
        paired = event.against_baseline
        measured = counting_ratio(paired) if paired is not None else None
        held = end.held.total_speedup if end.held else None
        return render_markdown(
            "end_log.md",
            end=end,
            block=end_block(end),
            is_final=event.code not in PAUSES,
            parts=parts,
            unseen=unseen_of(event.generalization, measured.value if measured else held)
            if held
            else None,
            measured=measured,
        )
    before, late = None, False
    if isinstance(event, Committed):
        before, late = commits.get(event.round), event.round != aside.after_round
        commits[event.round] = event.commit
    return render_markdown("optimize_aside.md", event=event, before=before, late=late)


def _attributed(summary: Summary, end: Ending) -> Attribution | None:
    if end.held is None:
        return None
    before = [step for step in summary.steps if step.number <= end.after_round]
    return attribution(before, end.held.total_speedup)


def _as_it_was(end: Ending, commits: dict[int, str | None]) -> Ending:
    if end.held is None:
        return end
    return replace(end, held=replace(end.held, commit=commits[end.held.number]))
