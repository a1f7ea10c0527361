"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AS_JSON = "roofsmith.as_json"
"""In a context's `meta`: whether stdout is for a program, which wants errors there, too."""
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout; if the command fails, `error` says why.",
    ),
]  # fmt: skip
CampaignDir = Annotated[Path, typer.Argument(metavar="DIR", help="A campaign directory.")]
WikiDir = Annotated[
    Path | None,
    typer.Option(
        "--wiki", metavar="DIR", exists=True, file_okay=False,
        help="Wiki pages of your own, which win over the bundled ones.",
        show_default="$ROOFSMITH_WIKI, else ~/.config/roofsmith/wiki",
    ),
]  # fmt: skip
AgentDeadlineS = Annotated[
    float | None,
    typer.Option(
        min=1, show_default=False,
        help="Seconds that a coding agent may take for one answer; by default"
        " ROOFSMITH_AGENT_DEADLINE_S, or 900.",
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="The campaign's directory, new or empty.",
        show_default="campaigns/<name>-<date>",
    ),
]  # fmt: skip
OnEvent = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND", show_default=False,
        help="Told what matters, as JSON on stdin: new_best, stalled, ended, needs_you. It may take"
        " 10 s; a failure of its own is a line in logs/events.jsonl.",
    ),
]  # fmt: skip
