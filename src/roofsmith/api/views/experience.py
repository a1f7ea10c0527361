"""Experiments for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.recommend import recommended_line
from roofsmith.api.views.blocks import Blocks, Prose, Table
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.recommendation import Recommendation
from roofsmith.domain.tip import Tip

if TYPE_CHECKING:
    from roofsmith.api.experience import Imported, Merged, Synced
    from roofsmith.experience.rates import SuccessRate

_SHOWN_OF_DIFF = 200
"""Lines."""
_SHOWN_OF_COMPLAINTS = 10


def listing(found: Sequence[Experiment]) -> Blocks:
    """A row for each."""
    yield Table(
        ("id", "score", "outcome", "status", "kernel", "on", "what"),
        [
            (
                one.id,
                f"{one.score:.2f}x" if one.score else "-",
                f"{one.outcome}{' (masked)' if one.masked else ''}",
                one.status.replace("_", " "),
                fmt.one_line(f"{one.operator_sig}, {one.backend}, {one.dtype_sig or '-'}", 40),
                fmt.one_line(one.arch or one.device, 24),
                fmt.one_line(fmt.visible(one.change_summary)),
            )
            for one in found
        ],
        shorten=6,
    )


def recommendations(found: Sequence[Recommendation]) -> Blocks:
    """What worked first, each with its evidence."""
    yield from (Prose(recommended_line(one)) for one in found)


def experiment(one: Experiment) -> Blocks:
    """What it says in words, a line per figure first."""
    figures = {
        "id": one.id, "builds on": one.pid, "time": one.time,
        "kernel": f"{one.operator_sig} in {one.backend}", "dtype": one.dtype_sig,
        "on": f"{one.device} {one.arch}".strip(), "env": one.env,
        "workloads": "; ".join(one.dims), "status": one.status, "outcome": one.outcome,
        "score": fmt.ratio(one.score, one.interval) if one.score else "not measured",
        "bucket": one.bucket, "masked": one.masked_because if one.masked else None,
        "proposer": one.proposer, "campaign": f"{one.campaign}, round {one.round}"
        if one.round else one.campaign, "ledger": one.ledger, "commit": one.commit,
        "base commit": one.base_commit, "folded into": one.merged_into,
    }  # fmt: skip
    yield one.change_summary
    yield from (f"  {name}: {fmt.one_line(value)}" for name, value in figures.items() if value)
    texts = (one.detailed_description, one.raw_result, one.profiling_info, *one.notes)
    yield from (f"\n{fmt.visible(text)}" for text in texts if text)
    if one.diff:
        yield "\n" + "\n".join(fmt.visible(one.diff).splitlines()[:_SHOWN_OF_DIFF])
    for change in one.revisions:
        yield f"\n{change.at}: {change.field} was {change.old!r}: {change.reason}"


def rates(found: Sequence[SuccessRate]) -> Blocks:
    """A row for each group."""
    yield Table(
        ("by", "what", "attempts", "success", "neutral", "failure", "share", "95%", "best"),
        [
            (
                one.by, one.what, str(one.attempts), str(one.success), str(one.neutral),
                str(one.failure), f"{one.share:.0%}",
                f"[{one.interval[0]:.0%}, {one.interval[1]:.0%}]",
                fmt.speedup(one.best) if one.best else "-",
            )
            for one in found
        ],
    )  # fmt: skip


def merged(found: Merged) -> Blocks:
    """The groups, and how to fold them."""
    for stays, others in found.groups:
        yield f"{stays.id} stands for {', '.join(one.id for one in others)}: {stays.change_summary}"
    count = sum(len(others) for _, others in found.groups)
    if not count:
        yield "no two experiments tell the same"
    elif not found.done:
        yield f"{fmt.plural(count, 'experiment')} would be folded; `--yes` does it"


def tips(found: Sequence[tuple[Experiment, Tip]]) -> Blocks:
    """A block for each."""
    for row, one in found:
        where = f"{row.operator}, {row.backend}, {row.device or row.arch}"
        yield f"{row.id}  {fmt.one_line(one.takeaway)}\n    {where}: {fmt.one_line(one.signal)}"
        yield f"    {fmt.one_line(one.applicability)}"


def tip(found: tuple[Experiment, Tip]) -> Blocks:
    """A line per field."""
    for name, value in {"id": found[0].id, **found[1].model_dump()}.items():
        if value:
            yield f"{name}: {fmt.one_line(value)}"


def imported(found: Imported) -> Blocks:
    """How many, and what was passed over."""
    shown = found.complaints[:_SHOWN_OF_COMPLAINTS]
    yield from (f"passed over: {fmt.one_line(one)}" for one in shown)
    if more := len(found.complaints) - len(shown):
        yield f"passed over: {more} more, which --json names"
    yield f"{fmt.plural(found.found, 'experiment')} read, {found.new} of them new"


def written(found: Synced) -> Blocks:
    """The files, and what stays in them as people wrote it."""
    yield from map(str, found.files)
    yield from (f"{fmt.one_line(one)}: it stays at the page's end" for one in found.complaints)
