"""`roofsmith agent mcp`: a server for clients of the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsmith.cli.root import agent
from roofsmith.errors import UsageError


@agent.command(name="mcp")
def mcp_(
    http: Annotated[
        str | None,
        typer.Option(
            metavar="127.0.0.1:PORT",
            help="Serve streamable HTTP there; clients send the token of $ROOFSMITH_MCP_TOKEN, or "
            "the one that is printed.",
            show_default="stdin and stdout",
        ),
    ] = None,
) -> None:
    """Serve campaigns to a coding agent over the Model Context Protocol.

    Tools begin a campaign, give its brief, judge changes and report; the campaign stays open in
    between. Needs `pip install 'roofsmith[mcp]'`.
    """
    try:
        from roofsmith.mcp import serving
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("roofsmith"):
            raise
        raise UsageError(
            f"the Python package {error.name} is not installed", hint="pip install 'roofsmith[mcp]'"
        ) from error
    if http is None:
        serving.serve_stdio()
    else:
        serving.serve_http(http, lambda line: print(line, flush=True))
