"""Campaigns in memory whose ideas take given times, and campaigns on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from campaign_builder import campaign_of

from roofsmith.domain.campaign import Event, Resumed
from roofsmith.domain.target import Target
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels

WHEN = {"at": "", "wall_s": 0.0, "kernel_s": 0.0, "measured_s": None, "spent_s": None}


def world(*times_s: float, target: Target | None = None, **more: Any) -> FakeWorld:
    """A baseline of 1 ms, and ideas that take the given times."""
    target = target or fake_target()
    ideas = [fake_idea(target, f"idea {n}") for n in range(len(times_s))]
    kernels = FakeKernels()
    for idea, time_s in zip(ideas, times_s, strict=True):
        kernels.add(idea.candidate, time_s=time_s)
    return FakeWorld(target=target, kernels=kernels, ideas=ideas, **more)


def written(directory: Path, events: Sequence[Event]) -> Path:
    """A campaign's directory: its ledger, and all that is rendered of it."""
    with CampaignDirectory.create(directory) as files:
        ledger = JsonlLedger(files.ledger_path)
        for event in events:
            ledger.append(event)
        files.write(render_campaign(campaign_of(events)).files)
    return directory


def substance(records: Iterable[Event], *kinds: type) -> list[Event]:
    """Records of these classes, or all but resumes, without what depends on when they were made."""
    return [
        event.model_copy(update={k: v for k, v in WHEN.items() if hasattr(event, k)})
        for event in records
        if (isinstance(event, kinds) if kinds else not isinstance(event, Resumed))
    ]
