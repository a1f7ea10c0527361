"""What a campaign remembers of its rounds: look at it, hide parts of it from planning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import dumped, printed
from roofsmith.cli.root import campaign

memory = typer.Typer(
    no_args_is_help=True,
    help="What a campaign's rounds taught, and which of them planning must not see.",
)
campaign.add_typer(memory, name="memory")

Versions = Annotated[
    list[str], typer.Argument(metavar="VERSION...", help="Notes, such as v3: round 4.")
]
Reason = Annotated[str | None, typer.Option(help="Why; goes to the log.")]


@memory.command("list")
def list_(directory: options.CampaignDir, as_json: options.Json = False) -> None:
    """Every note: what was tried, what it came to, and whether planning sees it."""
    from roofsmith.api.views import memory as views

    notes = api.memory_notes(directory)
    printed(notes, api.memory_documents.notes_document, views.listing, as_json=as_json)


@memory.command()
def show(
    directory: options.CampaignDir,
    version: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="Such as v3: round 4.", show_default="the last"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print one note, a line per value; with --json all of it, as it stands in its file."""
    from roofsmith.api.views import memory as views

    printed(api.memory_note(directory, version), dumped, views.note, as_json=as_json)


@memory.command()
def summary(directory: options.CampaignDir, as_json: options.Json = False) -> None:
    """What planning sees: what held, what led nowhere and why, what is still open."""
    from roofsmith.api.views import memory as views

    seen = api.Planning.of(api.memory_notes(directory))
    printed(seen, api.memory_documents.planning_document, views.summary, as_json=as_json)


Text = Annotated[str, typer.Argument(metavar="TEXT", help="What planning should know of it.")]


@memory.command()
def add(
    directory: options.CampaignDir,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Such as v3: round 4.")],
    text: Text,
    as_json: options.Json = False,
) -> None:
    """Add to a round's note what you know of it; the next proposals are shown it."""
    from roofsmith.api.views import memory as views

    event = api.add_note(directory, version, text, api.settings())
    printed(event, dumped, views.noted, as_json=as_json)


@memory.command()
def update(
    directory: options.CampaignDir,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="That `add` gave it.")],
    text: Text,
    as_json: options.Json = False,
) -> None:
    """Replace what was added; what it said stays in the log."""
    from roofsmith.api.views import memory as views

    event = api.update_note(directory, number, text, api.settings())
    printed(event, dumped, views.noted, as_json=as_json)


@memory.command()
def mask(
    directory: options.CampaignDir,
    versions: Versions,
    reason: Reason = None,
    as_json: options.Json = False,
) -> None:
    """Hide rounds from planning; what they proved stays true, and nothing is deleted."""
    _masked(directory, versions, reason, masked=True, as_json=as_json)


@memory.command()
def unmask(
    directory: options.CampaignDir,
    versions: Versions,
    reason: Reason = None,
    as_json: options.Json = False,
) -> None:
    """Let planning see rounds again."""
    _masked(directory, versions, reason, masked=False, as_json=as_json)


def _masked(
    directory: Path, versions: list[str], reason: str | None, *, masked: bool, as_json: bool
) -> None:
    from roofsmith.api.views import memory as views

    event = api.mask(directory, versions, masked=masked, reason=reason, settings=api.settings())
    printed(event, dumped, views.masked, as_json=as_json)


@memory.command()
def restart(
    directory: options.CampaignDir,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides which half; drawn by default.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Mask a random half, but for the baseline and the last success; then `roofsmith resume`."""
    from roofsmith.api.views import memory as views

    found = api.partial_restart(directory, seed, api.settings())
    printed(found, api.memory_documents.restarted_document, views.restarted, as_json=as_json)
