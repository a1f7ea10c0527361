"""Starts the server: on stdin and stdout, or as streamable HTTP on this machine alone."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.mcpserver.resources import FunctionResource, ResourceSecurity
from mcp.types import CallToolResult, InputRequiredResult
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from roofsmith import __version__, api
from roofsmith.errors import MachineError, RoofsmithError, UsageError
from roofsmith.mcp.answers import error_text, fitting
from roofsmith.mcp.tools import Tools

_MARKDOWN = "text/markdown"
_ANYWHERE = ResourceSecurity(reject_absolute_paths=False)
"""Campaigns are named by absolute paths, too; of a folder without one, nothing is read."""


def register_pages(server: MCPServer[Any]) -> None:
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


TOKEN = "ROOFSMITH_MCP_TOKEN"
PATH = "/mcp"
_LEAST_TOKEN = 16
_GRACE_S = 3
"""For open connections when the server ends."""

_INSTRUCTIONS = """\
roofsmith makes compute kernels faster, one judged change at a time, and keeps only what is proven.
campaign_start measures the baseline; then in turns campaign_brief and campaign_submit with one
change that cites the brief's evidence; campaign_try looks at one in seconds, and decides nothing.
At the end campaign_report. A verdict is final: answer it with another idea, not the same code.
"""


def serve_stdio() -> None:
    """Serve one client on stdin and stdout until it closes them."""
    tools = Tools()
    try:
        anyio.run(_server(tools).run_stdio_async)
    finally:
        tools.end()


def serve_http(address: str, say: Callable[[str], None]) -> None:
    """Serve clients that know the token, until a signal.

    Args:
        address: `127.0.0.1:PORT`; port 0 is any that is free.
        say: told the URL, and the token where the environment has none.

    Raises:
        UsageError: the address isn't of this machine alone, or the token is too short.
        MachineError: the port is taken.
    """
    host, port = _parsed(address)
    token, given = os.environ.get(TOKEN, ""), TOKEN in os.environ
    if given and len(token) < _LEAST_TOKEN:
        raise UsageError(
            f"{TOKEN} has {len(token)} characters; {_LEAST_TOKEN} are the least",
            hint="unset it, and a token is made",
        )
    token = token or secrets.token_urlsafe(32)
    tools = Tools()
    listening = _bound(host, port)
    name = f"[{host}]" if ":" in host else host
    served = _server(tools).streamable_http_app(streamable_http_path=PATH, host=host)
    config = uvicorn.Config(
        Guarded(served, token), log_level="warning", timeout_graceful_shutdown=_GRACE_S
    )
    try:
        say(f"http://{name}:{listening.getsockname()[1]}{PATH}")
        if not given:
            say(f"token: {token}")
        anyio.run(lambda: uvicorn.Server(config).serve(sockets=[listening]))
    finally:
        tools.end()


class Guarded:
    """Lets nobody through without the token."""

    def __init__(self, served: ASGIApp, token: str) -> None:
        self._served = served
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            said = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(said, self._expected):
                headers = {"WWW-Authenticate": "Bearer"}
                refusal = PlainTextResponse(f"wrong token: see {TOKEN}\n", 401, headers)
                await refusal(scope, receive, send)
                return
        await self._served(scope, receive, send)


class ToolServer(MCPServer[None]):
    """Says which arguments no tool knows, where the protocol's package passes them over."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: it has no such argument.
        """
        for tool in await self.list_tools():
            known = tool.input_schema.get("properties", {})
            if tool.name == name and (unknown := sorted(set(arguments) - set(known))):
                raise ToolError(
                    f"{name} has no argument {', '.join(unknown)}\ntry: {', '.join(known)}"
                )
        return await super().call_tool(name, arguments, context)


def _server(tools: Tools) -> MCPServer[None]:
    server = ToolServer(
        name="roofsmith", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR"
    )
    tools.register(server)
    register_pages(server)
    return server


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = {"localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
        number = int(port)
    except ValueError as error:
        raise UsageError(f"--http {address}: {error}", hint="--http 127.0.0.1:8765") from error
    if not is_loopback or not 0 <= number < 1 << 16:
        raise UsageError(
            f"--http {address}: only addresses of this machine alone are served",
            hint="--http 127.0.0.1:8765; from elsewhere, through a tunnel of ssh",
        )
    return host, number


def _bound(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # before anybody is told of it
    except OSError as error:
        listening.close()
        raise MachineError(
            f"can't listen on {host}:{port}: {error.strerror}", hint="name another port, or 0"
        ) from error
    return listening
