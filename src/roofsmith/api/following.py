"""A campaign that somebody follows: its records, and how it stands, as its own screen has them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from roofsmith.analysis import figures as fmt
from roofsmith.api.dashboard import Dashboard
from roofsmith.domain.dashboard import BrokenEntry, CampaignPage
from roofsmith.ports import Observer

_LOOK_S = 1.0


def follow(shown: Dashboard, observer: Observer) -> None:
    """Tell an observer of the campaign that was written last, until it ends.

    Raises:
        RoofsmithError: there is none, or it can't be read any more.
    """
    id_, told = shown.latest(), 0
    seen: object = None
    page: CampaignPage | BrokenEntry | None = None
    while True:
        if (now := shown.stamp(id_)) != seen:
            campaign, events = shown.records(id_)
            for event in events[told:]:
                observer.event(event, campaign)
            if campaign.stopped is not None:
                return
            told, seen, page = len(events), now, shown.news(id_, campaign.last_round)
        if isinstance(page, CampaignPage):
            state = page.row.state
            observer.stage("judge" if state == "running" else state, _standing(page))
        time.sleep(_LOOK_S)


def _standing(page: CampaignPage) -> str:
    """`2.1x, 41% of roofline; tried 7, kept 3, failed 1; $0.20; tiles of 64`."""
    row, silent_s = page.row, _silent_s(page.row.last_at)
    best = row.speedup.reason if row.speedup.value is None else fmt.speedup(row.speedup.value)
    share = "" if row.fraction.value is None else f", {fmt.percent(row.fraction.value)} of roofline"
    cost = "" if not row.cost_usd.value else f"; ${row.cost_usd.value:.2f}"
    stalled = page.now is not None and row.state == "running" and silent_s > page.now.patience_s
    silent = f"no record for {fmt.time(silent_s)}; " if stalled else ""
    counts = f"tried {row.tried}, kept {row.kept}, failed {row.failed}"
    return f"{silent}{best}{share}; {counts}{cost}; {row.doing.removeprefix('judges ')}"


def _silent_s(at: str) -> float:
    try:
        last = datetime.fromisoformat(at).replace(tzinfo=UTC)
    except ValueError:  # a ledger may say anything
        return 0.0
    return (datetime.now(UTC) - last).total_seconds()
