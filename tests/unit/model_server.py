"""A local HTTP server that speaks the OpenAI and Anthropic wire formats, streamed or whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USED = (100, 20)
"""Tokens in and out that every answer is said to have taken."""


@dataclass(frozen=True)
class Reply:
    """What the server says to one request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: str = "no"
    """Text of the error, where the status is one."""
    call: str | None = None
    """Arguments of a call of the tool that the request offers."""
    text: str | None = None
    refusal: bool = False
    truncated: bool = False
    """Stopped at the limit of the output."""
    trickle_s: float = 0.0
    """Between any two of its characters."""
    dies: bool = False
    """The connection breaks in the middle."""
    counts: bool = True
    """Whether it says what it took."""
    used: tuple[int, int] = USED


def proposes(answer: dict[str, Any], **changes: Any) -> Reply:
    return Reply(call=json.dumps(answer), **changes)


@dataclass
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """Everything that the model reads, in order."""
        return "\n".join(_texts([self.body.get("system", ""), self.body["messages"]]))

    @property
    def round(self) -> int:
        return int(self.prompt.partition("# Round ")[2].split()[0])

    @property
    def turn(self) -> int:
        return sum(message["role"] == "assistant" for message in self.body["messages"])

    @property
    def longest(self) -> int | None:
        """Tokens that an answer may have."""
        found = self.body.get("max_completion_tokens", self.body.get("max_tokens"))
        return None if found is None else int(found)

    @property
    def has_tools(self) -> bool:
        return bool(self.body.get("tools"))


@dataclass
class ModelServer:
    """Answers by a rule, and keeps what was asked."""

    url: str
    rule: Callable[[Request], Reply]
    requests: list[Request] = field(default_factory=list)
    at: list[float] = field(default_factory=list)


@contextmanager
def serving(rule: Callable[[Request], Reply] | list[Reply]) -> Iterator[ModelServer]:
    """A server for as long as the context is open; a list is said in order, its last for ever."""
    served = ModelServer("", rule if callable(rule) else _in_order(rule))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {key.lower(): value for key, value in self.headers.items()}
            request = Request(self.path, headers, json.loads(raw))
            served.requests.append(request)
            served.at.append(time.monotonic())
            with suppress(ConnectionError):
                _send(self, request, served.rule(request))
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def _in_order(replies: list[Reply]) -> Callable[[Request], Reply]:
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key in ("content", "text"):
            yield from _texts(value.get(key))


def _send(handler: BaseHTTPRequestHandler, request: Request, reply: Reply) -> None:
    is_anthropic = request.path.endswith("/messages")
    if reply.status != 200:
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        error = {
            "type": kind.get(reply.status, "api_error"), "message": reply.error, "code": None,
        }  # fmt: skip
        body = {"type": "error", "error": error} if is_anthropic else {"error": error}
        _respond(handler, reply, "application/json", [json.dumps(body).encode()])
    elif request.body.get("stream"):
        events = _anthropic_events(request, reply) if is_anthropic else _openai_events(reply)
        _respond(handler, reply, "text/event-stream", events)
    else:
        whole = _anthropic_whole(request, reply) if is_anthropic else _openai_whole(reply)
        _respond(handler, reply, "application/json", [json.dumps(whole).encode()])


def _respond(handler: BaseHTTPRequestHandler, reply: Reply, kind: str, chunks: Any) -> None:
    handler.send_response(reply.status)
    for key, value in {"content-type": kind, "connection": "close", **reply.headers}.items():
        handler.send_header(key, value)
    if reply.dies:
        handler.send_header("content-length", "1000000")
    handler.end_headers()
    for chunk in chunks:
        handler.wfile.write(chunk)
        handler.wfile.flush()
        if reply.trickle_s:
            time.sleep(reply.trickle_s)


def _pieces(reply: Reply, text: str) -> list[str]:
    """The text as it is streamed; half of it where the connection dies."""
    size = 1 if reply.trickle_s else max(40, len(text) // 100)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    return pieces[: len(pieces) // 2] if reply.dies else pieces


def _openai_events(reply: Reply) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**_HEAD, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    if reply.call is not None:
        function = {"name": "propose", "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                                     "function": function}]})  # fmt: skip
        for piece in _pieces(reply, reply.call):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    for piece in _pieces(reply, reply.text or ""):
        yield chunk({"content": piece})
    if reply.refusal:
        yield chunk({"refusal": "I can't help with that."})
    if reply.dies:
        return
    finish = "tool_calls" if reply.call is not None else "stop"
    yield chunk({}, "length" if reply.truncated else finish)
    if reply.counts:
        yield _data({**_HEAD, "choices": [], "usage": _openai_usage(reply)})
    yield b"data: [DONE]\n\n"


_HEAD = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _openai_usage(reply: Reply) -> dict[str, int]:
    sent, said = reply.used
    return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}


def _openai_whole(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.call is not None:
        function = {"name": "propose", "arguments": reply.call}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    finish = "length" if reply.truncated else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {
        **_HEAD,
        "object": "chat.completion",
        "choices": [choice],
        "usage": _openai_usage(reply),
    }


def _anthropic_message(request: Request, reply: Reply) -> dict[str, Any]:
    return {
        "id": "m1", "type": "message", "role": "assistant", "model": request.body["model"],
        "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": reply.used[0], "output_tokens": 1},
    }  # fmt: skip


def _stop_reason(reply: Reply) -> str:
    if reply.refusal:
        return "refusal"
    if reply.truncated:
        return "max_tokens"
    return "tool_use" if reply.call is not None else "end_turn"


def _anthropic_events(request: Request, reply: Reply) -> Iterator[bytes]:
    def event(kind: str, **values: Any) -> bytes:
        return f"event: {kind}\n".encode() + _data({"type": kind, **values})

    yield event("message_start", message=_anthropic_message(request, reply))
    if reply.call is not None:
        block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "propose", "input": {}}
        yield event("content_block_start", index=0, content_block=block)
        for piece in _pieces(reply, reply.call):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event("content_block_delta", index=0, delta=delta)
    elif reply.text is not None:
        block = {"type": "text", "text": ""}
        yield event("content_block_start", index=0, content_block=block)
        for piece in _pieces(reply, reply.text):
            delta = {"type": "text_delta", "text": piece}
            yield event("content_block_delta", index=0, delta=delta)
    if reply.dies:
        return
    if reply.call is not None or reply.text is not None:
        yield event("content_block_stop", index=0)
    ended = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": reply.used[1]})
    yield event("message_stop")


def _anthropic_whole(request: Request, reply: Reply) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": reply.text or ""}
    if reply.call is not None:
        arguments = json.loads(reply.call)
        block = {"type": "tool_use", "id": "t1", "name": "propose", "input": arguments}
    usage = {"input_tokens": reply.used[0], "output_tokens": reply.used[1]}
    changes = {"content": [block], "stop_reason": _stop_reason(reply), "usage": usage}
    return {**_anthropic_message(request, reply), **changes}


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
