"""Looks at a campaign or a suite without holding it: also one that somebody works on right now."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.suite import Suite
from roofsmith.errors import UsageError
from roofsmith.store.campaign_dir import RESULTS, other_than_campaign
from roofsmith.store.ledger import JsonlLedger


def read_campaign(directory: Path) -> Campaign:
    """The campaign that a directory's ledger holds.

    Raises:
        UsageError: there is none.
        LedgerError: a record was changed.
    """
    campaign = replay(JsonlLedger(directory / "ledger.jsonl").events())
    if campaign is None:
        raise UsageError(f"{directory} holds no campaign", hint=other_than_campaign(directory))
    return campaign


def read_suite(place: Path) -> Suite:
    """A suite that ran, or runs.

    Args:
        place: its folder, or its file.

    Raises:
        UsageError: there is none.
    """
    file = place / RESULTS if place.is_dir() else place
    try:
        return Suite.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{file} holds no suite: {error.errors()[0]['msg']}") from error
