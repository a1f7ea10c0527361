"""A model's server on this machine, whose model runs one command and is done."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMAND = """
cd "$ROOFSMITH_ANSWER" && python3 - <<'P'
import json, os
brief = json.load(open(os.environ["ROOFSMITH_BRIEF"]))
(path, text), = brief["kernel"]["files"].items()
open("../sources/" + path, "w").write(f"/* {brief['round']} */\\n" + text)
answer = {"statement": "a comment more", "rationale": "a test asks for it",
          "evidence": list(brief["evidence"])[:1], "answers": brief["bottleneck"]["kind"]}
json.dump(answer, open("proposal.json", "w"))
P
"""
MINI_IS_DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""How mini-swe-agent, which has one tool alone, is told that all is done."""
TOKENS = {"input_tokens": 100, "output_tokens": 10}
"""Of every reply."""


@contextmanager
def anthropic_server() -> Iterator[str]:
    """Speaks Anthropic's Messages API, streaming or not; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Messages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Messages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        block = _block(asked)
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        reply = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked.get("model"),
            "content": [block], "stop_reason": stop, "stop_sequence": None, "usage": TOKENS,
        }  # fmt: skip
        if asked.get("stream"):
            self._send("text/event-stream", _events(reply, block, stop))
        else:
            self._send("application/json", json.dumps(reply))

    def do_HEAD(self) -> None:
        self._send("text/plain", "")

    do_GET = do_HEAD  # noqa: N815

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _block(asked: dict[str, Any]) -> dict[str, Any]:
    """The command where there is a tool for it that wasn't used yet, or else a word."""
    tools = [tool["name"] for tool in asked.get("tools", ())]
    tool = next((name for name in tools if name.lower() == "bash"), None)
    is_answered = "tool_result" in json.dumps(asked.get("messages", []))
    if tool is None or (is_answered and len(tools) > 1):
        return {"type": "text", "text": "done"}
    command = MINI_IS_DONE if is_answered else COMMAND
    told = {"command": command, "description": "answers"}
    return {"type": "tool_use", "id": f"toolu_{int(is_answered)}", "name": tool, "input": told}


def _events(reply: dict[str, Any], block: dict[str, Any], stop: str) -> str:
    if stop == "tool_use":
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    empty = {**reply, "content": [], "stop_reason": None}
    ended = {"stop_reason": stop, "stop_sequence": None}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": empty}),
        ("content_block_start", {"index": 0, "content_block": start}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    ]
    return "".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **body})}\n\n" for name, body in events
    )
