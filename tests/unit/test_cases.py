"""The case studies' ledgers: whole, and every kept round of them follows from its samples."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from roofsmith.domain.campaign import Event, replay
from roofsmith.engine.verify import verify
from roofsmith.store.records import check_chain, unseal

CASES = Path(__file__).parents[2] / "docs" / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/ledger.jsonl.gz"))


def events_of(folder: Path) -> tuple[Event, ...]:
    lines = gzip.decompress((folder / "ledger.jsonl.gz").read_bytes()).splitlines()
    records = [unseal(line) for line in lines]
    check_chain(records)
    return tuple(record.event() for record in records)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_a_case_says_follows_from_its_ledger(folder: Path) -> None:
    events = events_of(folder)
    assert [one for one in verify(events) if one.rules is None] == []
    campaign = replay(events)
    page = (CASES / "README.md").read_text().splitlines()
    row = next(line for line in page if f"({folder.name})" in line)
    _, _, _, rounds, kept, *_ = row.split("|")
    assert (int(rounds), int(kept)) == (len(campaign.rounds), len(campaign.kept))
