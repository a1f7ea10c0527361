"""`roofsmith show`: what a brief has no room for."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsmith.cli import options
from roofsmith.cli.output import print_json, print_lines
from roofsmith.cli.root import cli


@cli.command(rich_help_panel="Campaigns")
def show(
    directory: options.CampaignDir,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT",
            help="counters, listing, kernel, reference, history, refused, facts, tips, experience,"
            ' knowledge, diagnosis, "round N" or "diff N"; counters, listing and kernel take a'
            " round, too.",
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Print one part of a campaign whole, from its ledger alone.

    It is what a brief of `roofsmith ask` has no room for. Nothing is measured, and a campaign that
    is at work may be looked at.
    """
    from roofsmith import api

    shown = api.show_part(directory, what)
    if as_json:
        print_json({"what": shown.what, "document": shown.document})
    else:
        print_lines(shown.visible.splitlines())
