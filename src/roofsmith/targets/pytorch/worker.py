"""The process that a user's PyTorch file is imported in.

Started as a process of its own, never imported. Walls stand before PyTorch or the file are here.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from roofsmith.judge.host.worker import answer_parent, begin
from roofsmith.judge.wire import receive, send


def serve(channel: socket.socket) -> None:
    """Hear what is asked, answer, and end: threads of the user's file don't matter then."""
    begin(channel)
    message, _ = receive(channel)
    send(channel, _answered(message))
    sys.stdout.flush()
    os._exit(0)


def _answered(message: dict[str, Any]) -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        return {"error": f"PyTorch can't be imported: {error}", "torch": False}
    from roofsmith.targets.pytorch.describing import read_program
    from roofsmith.targets.pytorch.program import PyTorchRequest
    from roofsmith.targets.pytorch.user_file import Refused

    torch.set_num_threads(1)
    try:
        return read_program(PyTorchRequest.model_validate(message)).model_dump(mode="json")
    except Refused as refused:
        return {"error": refused.message, "hint": refused.hint}
    except MemoryError:
        return {"error": f"{message['shown']}: not enough memory", "hint": "make its sizes smaller"}


def main() -> None:
    answer_parent(serve)


if __name__ == "__main__":
    main()
