"""Looks at a campaign without holding its directory: also one that somebody works on right now."""

from __future__ import annotations

from pathlib import Path

from roofsmith.domain.campaign import Campaign, replay
from roofsmith.errors import UsageError
from roofsmith.store.ledger import JsonlLedger


def read_campaign(directory: Path) -> Campaign:
    """The campaign that a directory's ledger holds.

    Raises:
        UsageError: there is none.
        LedgerError: a record was changed.
    """
    campaign = replay(JsonlLedger(directory / "ledger.jsonl").events())
    if campaign is None:
        raise UsageError(
            f"{directory} holds no campaign", hint="name the directory that its start printed"
        )
    return campaign
