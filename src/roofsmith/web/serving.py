"""Who may ask: whoever knows the token, by a name that is this machine's."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roofsmith.api import settings
from roofsmith.api.browsing import Experience
from roofsmith.api.dashboard import Dashboard
from roofsmith.errors import MachineError
from roofsmith.web.pages import pages

_GRACE_S = 3
"""For open connections when the server ends."""
TOKEN = "X-Roofsmith-Token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def serve(
    folders: Sequence[Path], host: str, port: int, say: Callable[[str], None], control: bool = False
) -> None:
    """Show what lies in folders, until a signal.

    Args:
        folders: of campaigns and suites.
        host: a name or address of this machine; 0.0.0.0 is all of them.
        port: 0 is any that is free.
        say: told the address, which holds the token.
        control: whether whoever has it may also stop campaigns, and set other limits.

    Raises:
        UsageError: a folder holds nothing to show.
        MachineError: the port is taken, or the host isn't this machine's.
    """
    known, token = settings(), secrets.token_urlsafe(32)
    shown, experience = Dashboard(folders, known.lease_dir), Experience(known.experience)
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise MachineError(
            f"can't listen on {host}:{port}: {why}", hint="name another port, or 0 for a free one"
        ) from error
    app = pages(shown, experience, f"/{token}", lambda: server.should_exit, control)
    config = uvicorn.Config(
        TokenGuard(app, token, host, control), log_level="warning", access_log=False,
        server_header=False, timeout_graceful_shutdown=_GRACE_S,
    )  # fmt: skip
    server = uvicorn.Server(config)
    name = f"[{host}]" if ":" in host else host
    with listening:
        say(f"http://{name}:{listening.getsockname()[1]}/{token}/")
        server.run(sockets=[listening])


class TokenGuard:
    """Lets nobody through without the token, nor by a name that isn't this machine's.

    A page of another site can make its own name lead here; its requests bear that name. What asks
    for more than pages has to come from a page of ours, and to bear the token in a header as well,
    which no form and no link can.
    """

    def __init__(self, served: ASGIApp, token: str, host: str, control: bool) -> None:
        self._served, self._token, self._host = served, token.encode(), host.lower()
        self._control = control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http":
            _, token, *rest = f"{scope['path']}/".split("/", 2)
            headers, reads = Headers(scope=scope), scope["method"] in ("GET", "HEAD")
            host, status, refusal = headers.get("host", ""), 403, ""
            if not self._is_known(host):
                refusal = "this name isn't served: see --host\n"
            elif not self._is_token(token):
                refusal = "open the address that `roofsmith serve` printed\n"
            elif not reads and not self._control:
                status, refusal = 405, "this page only reads: see --control\n"
            elif not reads and not self._is_token(headers.get(TOKEN, "")):
                refusal = f"{TOKEN} isn't the token of the address\n"
            elif not reads and headers.get("origin") != f"http://{host}":
                refusal = "only the page itself may ask for that\n"
            if refusal:
                return await PlainTextResponse(refusal, status)(scope, receive, hardened)
            path = f"/{rest[0].rstrip('/')}" if rest else "/"
            scope = {**scope, "path": path, "raw_path": path.encode("utf-8", "replace")}
        elif scope["type"] == "websocket":
            return None
        return await self._served(scope, receive, hardened)

    def _is_token(self, said: str) -> bool:
        return hmac.compare_digest(said.encode("utf-8", "replace"), self._token)

    def _is_known(self, name: str) -> bool:
        name = name.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        try:
            asked = ipaddress.ip_address(name)
        except ValueError:
            return name in ("localhost", self._host)
        everywhere = self._host in ("0.0.0.0", "::")  # an address is no name that could be made up
        return asked.is_loopback or everywhere or name == self._host
