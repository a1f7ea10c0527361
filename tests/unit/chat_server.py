"""A server of OpenAI's chat completions whose every byte a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HEAD = {"id": "x", "created": 1, "model": "m"}
_USED = {"prompt_tokens": 900, "completion_tokens": 90, "total_tokens": 990}


@dataclass(frozen=True)
class Sent:
    """What goes over the wire."""

    body: str
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


Rule = Callable[[dict[str, Any], int], Sent]
"""Of a request, and how many there were before it."""


def call(arguments: object, name: str = "propose") -> dict[str, Any]:
    """A message that calls a tool."""
    made = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def text(said: str, thought: str | None = None) -> dict[str, Any]:
    """A message of text, and of what a server has parsed out of it as thinking."""
    thoughts = {} if thought is None else {"reasoning_content": thought}
    return {"role": "assistant", "content": said, **thoughts}


def chat(
    asked: dict[str, Any],
    message: dict[str, Any],
    reason: str = "stop",
    behind: dict[str, Any] | None = None,
) -> Sent:
    """A message as it was asked for: whole, or as a stream with something behind it."""
    if not asked.get("stream"):
        choice = {"index": 0, "finish_reason": reason, "message": message}
        whole = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USED}
        return Sent(json.dumps(whole))
    delta = dict(message)
    if calls := message.get("tool_calls"):
        delta["tool_calls"] = [{"index": n, **one} for n, one in enumerate(calls)]
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    parts: list[dict[str, Any]] = [{"choices": [choice]}]
    if behind is None:
        parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        parts.append({"choices": [], "usage": _USED})
    else:
        parts.append(behind)
    head = {**_HEAD, "object": "chat.completion.chunk"}
    lines = [f"data: {json.dumps({**head, **part})}\n\n" for part in parts]
    return Sent("".join(lines) + "data: [DONE]\n\n", kind="text/event-stream")


def error(status: int, said: str, code: str | None = None, **headers: str) -> Sent:
    """An endpoint's refusal."""
    body = {"error": {"message": said, "type": code, "code": code}}
    return Sent(json.dumps(body), status, headers=headers)


@dataclass
class Served:
    """An address, and what was asked there."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def chatting(rule: Rule) -> Iterator[Served]:
    """A server for as long as the context is open."""
    served = Served("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.requests.append(asked)
            sent = rule(asked, len(served.requests) - 1)
            data = sent.body.encode()
            self.send_response(sent.status)
            about = {"content-type": sent.kind, "content-length": str(len(data))}
            for name, value in (about | sent.headers).items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield served
        server.shutdown()
        thread.join()
