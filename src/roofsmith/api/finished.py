"""What a campaign came to, and its files rendered again. Builds and measures nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.spending import spent_s
from roofsmith.api.rendering import require_rendered
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.engine.progress import overhead_fraction
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage_place import remembered

REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class FinishedCampaign:
    """What a run of a campaign came to."""

    campaign: Campaign
    directory: Path
    branch: str | None
    """Where the accepted rounds are commits; None without git."""
    wall_s: float
    """Over all runs of the campaign."""
    overhead_fraction: float | None
    """Share of it that was not building, running or profiling kernels."""
    notes: tuple[str, ...] = ()

    @property
    def report(self) -> Path:
        """The page to open."""
        return self.directory / REPORT


def render_report(directory: Path) -> FinishedCampaign:
    """Write every rendered file of a campaign again."""
    with CampaignDirectory.open(directory) as files:
        campaign = campaign_in(files)
        rendered = render_campaign(campaign)
        files.write(rendered.files)
        require_rendered(rendered.failures, directory)
        place = remembered(files.directory)
        return finished(campaign, files, place.branch if place else None, ())


def has_campaign(directory: Path) -> bool:
    """Whether there is something to resume."""
    return bool(JsonlLedger(directory / "ledger.jsonl").events())


def campaign_in(files: CampaignDirectory) -> Campaign:
    """The campaign that a directory's ledger holds."""
    campaign = replay(JsonlLedger(files.ledger_path).events())
    assert campaign is not None, "an opened campaign directory has a record"
    return campaign


def finished(
    campaign: Campaign, files: CampaignDirectory, branch: str | None, notes: tuple[str, ...]
) -> FinishedCampaign:
    """A campaign after one more run of it."""
    events = JsonlLedger(files.ledger_path).events()
    return FinishedCampaign(
        campaign=campaign,
        directory=files.directory,
        branch=branch,
        wall_s=spent_s(events),
        overhead_fraction=overhead_fraction(events),
        notes=notes,
    )
