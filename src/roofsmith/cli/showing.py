"""`roofsmith campaign show`: what a brief has no room for."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.held import answered
from roofsmith.cli.output import print_json, print_lines
from roofsmith.cli.root import campaign
from roofsmith.errors import RoofsmithError, UsageError


@campaign.command()
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
    """Print one part of a campaign whole, from its ledger.

    It is what a brief of `roofsmith ask` has no room for. A campaign that is at work may be looked
    at. Nothing is measured, but for the first look at a round's profile: that is made now, and
    kept.
    """
    try:
        wanted = api.unlooked(directory, what)
        if wanted and not answered(directory, "look", wanted).get("is_there"):
            print("not profiled: the campaign is at work on another command", file=sys.stderr)
    except RoofsmithError as error:
        if isinstance(error, UsageError):
            raise
        print(f"not profiled: {error.message}", file=sys.stderr)
    shown = api.show_part(directory, what)
    if as_json:
        print_json({"what": shown.what, "document": shown.document})
    else:
        print_lines(shown.visible.splitlines())
