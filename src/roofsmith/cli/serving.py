"""Servers: of tools for coding agents, and of pages for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from roofsmith.cli.root import agent, campaign
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
    with _extra("mcp"):
        from roofsmith.mcp import serving
    if http is None:
        serving.serve_stdio()
    else:
        serving.serve_http(http, lambda line: print(line, flush=True))


@campaign.command()
def serve(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Campaigns, suites, or folders of them; by default campaigns and suites.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Of this machine alone, unless another address is named.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    control: Annotated[
        bool,
        typer.Option("--control", help="Buttons stop a campaign that runs, and raise its limits."),
    ] = False,
) -> None:
    """Show campaigns and suites in a browser, also while they run.

    Prints the address, whose token lets in. Without --control it only reads: no run notices. Needs
    `pip install 'roofsmith[web]'`.
    """
    with _extra("web"):
        from roofsmith.web import serving
    here = [folder for folder in (Path("campaigns"), Path("suites")) if folder.is_dir()]
    os.nice(10)  # a kernel may be measured beside it
    named = directories or here or [Path("campaigns")]
    serving.serve(named, host, port, lambda line: print(line, flush=True), control)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("roofsmith"):
            raise
        raise UsageError(
            f"the Python package {error.name} is not installed",
            hint=f"pip install 'roofsmith[{name}]'",
        ) from error
