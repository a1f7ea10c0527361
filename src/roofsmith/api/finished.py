"""What a campaign came to, and its files rendered again. Builds and measures nothing."""

from __future__ import annotations

import shlex
import traceback
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.spending import spent_s
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.engine.progress import overhead_fraction
from roofsmith.errors import RenderingError
from roofsmith.ports import RenderFailure
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.files import write_file
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


LOG = Path("logs/rendering.log")
"""In a campaign's directory: where each file failed that could not be rendered."""


def require_rendered(failures: tuple[RenderFailure, ...], directory: Path) -> None:
    """Say that files of a campaign could not be rendered, once everything else is done.

    Raises:
        RenderingError: some could not.
    """
    if failures:
        first = failures[0].error
        again = f"roofsmith --debug report {shlex.quote(str(directory))}"
        raise RenderingError(
            f"{_told(failures)}. The records in {directory} are whole, and every other file is"
            " written",
            hint=f"`{again}` shows where it fails; a later version of roofsmith can render it"
            " again",
            log=_logged(failures, directory),
        ) from first


def unrendered(failures: tuple[RenderFailure, ...], directory: Path) -> tuple[str, ...]:
    """The same as a note, for a run whose work is done but for these files."""
    if not failures:
        return ()
    again = f"roofsmith campaign report {shlex.quote(str(directory))}"
    log = _logged(failures, directory)
    return (f"warning: {_told(failures)}, see {log}; a later version can `{again}`",)


def _told(failures: tuple[RenderFailure, ...]) -> str:
    first = failures[0].error
    named = ", ".join(failure.what for failure in failures)
    return f"can't render {named} ({type(first).__name__}: {first}): a fault of roofsmith"


def _logged(failures: tuple[RenderFailure, ...], directory: Path) -> Path:
    traces = ("".join(traceback.format_exception(failure.error)) for failure in failures)
    named = (f"{f.what}\n{trace}" for f, trace in zip(failures, traces, strict=True))
    write_file(directory / LOG, "\n".join(named).encode("utf-8", errors="backslashreplace"))
    return directory / LOG
