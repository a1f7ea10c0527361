"""What clients may read: skills, and the newest brief and report of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.mcpserver.resources import FunctionResource, ResourceSecurity

from roofsmith import api
from roofsmith.errors import RoofsmithError
from roofsmith.mcp.answers import error_text, fitting

_MARKDOWN = "text/markdown"
_ANYWHERE = ResourceSecurity(reject_absolute_paths=False)
"""Campaigns are named by absolute paths, too; of a folder without one, nothing is read."""


def register(server: MCPServer[Any]) -> None:
    """Offer all of them; campaigns are named as tools name them."""
    for skill in api.skills():
        server.add_resource(
            FunctionResource.from_function(
                fn=skill.read,
                uri=f"roofsmith://skills/{skill.name}",
                name=skill.name,
                description=skill.description,
                mime_type=_MARKDOWN,
            )
        )

    @server.resource(
        "roofsmith://brief/{+directory}", name="brief", mime_type=_MARKDOWN, security=_ANYWHERE
    )
    def brief(directory: str) -> str:
        """The newest brief of a campaign, as campaign_brief wrote it."""
        asked = Path(directory) / "asks" / f"round-{_last_round(directory) + 1}" / "brief.md"
        return _text(asked, "campaign_brief writes it")

    @server.resource(
        "roofsmith://report/{+directory}", name="report", mime_type=_MARKDOWN, security=_ANYWHERE
    )
    def report(directory: str) -> str:
        """The report of a campaign, as it was last written."""
        _last_round(directory)
        return _text(Path(directory) / "final_report.md", "campaign_report writes it")


def _last_round(directory: str) -> int:
    """Of a folder that holds a campaign: nothing else is read."""
    try:
        return api.read_campaign(Path(directory)).last_round
    except RoofsmithError as error:
        raise ResourceError(error_text(error)) from error


def _text(path: Path, how: str) -> str:
    try:
        return fitting(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ResourceError(f"there is no {path}\ntry: {how}") from error
