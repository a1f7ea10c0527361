"""`roofsmith watch`: the live page of a campaign, in a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roofsmith.cli import options
from roofsmith.cli.output import print_json
from roofsmith.cli.root import campaign
from roofsmith.cli.screen import screen


@campaign.command()
def watch(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A campaign, or a folder of them: what was written last is shown."
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Follow a campaign until it ends: each round as it is judged, what it is at, how far it came.

    It only reads: no run notices, and Ctrl-C ends the looking alone. --json prints how it stands,
    once.
    """
    from roofsmith.api.dashboard import Dashboard
    from roofsmith.api.following import follow

    os.nice(10)  # a kernel may be measured beside it
    shown = Dashboard([directory])
    if as_json:
        print_json(shown.news(shown.latest(), 1).model_dump(mode="json"))
        return
    with screen(sys.stdout) as observer:
        follow(shown, observer)
