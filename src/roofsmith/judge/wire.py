"""Messages between the parent and its workers: length-prefixed JSON over a socket, nothing else.

JSON can't execute anything. Arrays never travel here; they lie in shared memory whose descriptor is
sent along with a message.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from typing import Any

MAX_MESSAGE_BYTES = 4 * 1024**2
"""A worker that claims more is broken or hostile."""

_HEADER = struct.Struct("<I")


class WireError(Exception):
    """The other side hung up, or sent what isn't a message."""


class GarbledError(WireError):
    """What the other side sent isn't a message."""


class WireTimeoutError(WireError):
    """No answer within the deadline."""


def send(channel: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with file descriptors if there are any.

    Raises:
        WireError: the other side is gone.
    """
    body = json.dumps(message, separators=(",", ":")).encode()
    data = _HEADER.pack(len(body)) + body
    try:
        if fds:
            sent = socket.send_fds(channel, [data], list(fds))
            data = data[sent:]
        channel.sendall(data)
    except OSError as error:
        raise WireError(f"could not send: {error}") from error


def receive(
    channel: socket.socket, deadline_s: float | None = None
) -> tuple[dict[str, Any], list[int]]:
    """Wait for one message.

    Args:
        channel: a connected stream socket.
        deadline_s: seconds to wait for all of it; None waits for ever.

    Returns:
        The message, and descriptors that came with it (at most one).

    Raises:
        WireTimeoutError: the deadline passed.
        GarbledError: the other side sent garbage.
        WireError: it hung up.
    """
    until = None if deadline_s is None else time.monotonic() + deadline_s
    header, fds = _read(channel, _HEADER.size, until, first=True)
    (size,) = _HEADER.unpack(header)
    if size > MAX_MESSAGE_BYTES:
        raise GarbledError(f"a message of {size} bytes is larger than any that is sent here")
    body, _ = _read(channel, size, until, first=False)
    try:
        message = json.loads(body)
    except ValueError as error:
        raise GarbledError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise GarbledError("nested deeper than anything that is sent here") from error
    if not isinstance(message, dict):
        raise GarbledError("a message must be an object")
    return message, fds


def has_more(channel: socket.socket, wait_s: float = 0.0) -> bool:
    """Whether something came from the other side that nobody has read; not that it hung up."""
    if not select.select([channel], [], [], wait_s)[0]:
        return False
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _read(
    channel: socket.socket, size: int, until: float | None, *, first: bool
) -> tuple[bytes, list[int]]:
    data = b""
    fds: list[int] = []
    while len(data) < size:
        if until is not None:
            _wait(channel, until)
        try:
            if first and not data:
                chunk, fds, _, _ = socket.recv_fds(channel, size, 1)
            else:
                chunk = channel.recv(size - len(data))
        except OSError as error:
            raise WireError(f"could not receive: {error}") from error
        if not chunk:
            raise WireError("the other side hung up")
        data += chunk
    return data, fds


def _wait(channel: socket.socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0 or not select.select([channel], [], [], left)[0]:
        raise WireTimeoutError("no answer before the deadline")
