from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.judge.wire import (
    MAX_MESSAGE_BYTES,
    GarbledError,
    WireError,
    WireTimeoutError,
    receive,
    send,
)

PATIENT_S = 60.0
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


messages = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


@given(st.lists(messages, min_size=1, max_size=4))
@settings(max_examples=50)
def test_messages_arrive_whole_and_in_order(sent: list[dict[str, object]]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in sent:
            send(ours, message)
        assert [receive(theirs, PATIENT_S)[0] for _ in sent] == sent


def test_long_messages_come_in_pieces(ends: Ends) -> None:
    message = {"text": "x" * (2 * 1024**2)}
    sender = threading.Thread(target=send, args=(ends[0], message))
    sender.start()
    assert receive(ends[1], PATIENT_S)[0] == message
    sender.join()


def test_a_descriptor_travels_along(ends: Ends) -> None:
    read, write = os.pipe()
    send(ends[0], {"op": "map"}, (write,))
    os.close(write)
    message, (copy,) = receive(ends[1], PATIENT_S)
    assert message == {"op": "map"}
    os.write(copy, b"through")
    assert os.read(read, 16) == b"through"
    os.close(copy)
    os.close(read)


def test_messages_without_descriptors_bring_none(ends: Ends) -> None:
    send(ends[0], {})
    assert receive(ends[1], PATIENT_S) == ({}, [])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (struct.pack("<I", MAX_MESSAGE_BYTES + 1), "larger than any"),
        (b"\xff\xff\xff\xff", "larger than any"),
        (framed(b"{not json"), "not JSON"),
        (framed(b"\xff\xfe\x00"), "not JSON"),
        (framed(b""), "not JSON"),
        (framed(b"[1, 2]"), "must be an object"),
        (framed(b"null"), "must be an object"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, complaint: str, ends: Ends) -> None:
    ends[0].sendall(data)
    with pytest.raises(WireError, match=complaint):
        receive(ends[1], PATIENT_S)


@given(st.binary(min_size=1, max_size=60))
def test_garbage_is_a_wire_error_or_a_message(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        try:
            message, _ = receive(theirs, PATIENT_S)
        except WireError:
            return
        assert json.loads(data[4:][: struct.unpack("<I", data[:4])[0]]) == message


@pytest.mark.parametrize("data", [b"", b"\x02", framed(b"{}")[:-1]])
def test_hanging_up_is_noticed_at_every_point(data: bytes, ends: Ends) -> None:
    ends[0].sendall(data)
    ends[0].close()
    with pytest.raises(WireError, match="hung up"):
        receive(ends[1], PATIENT_S)


@pytest.mark.parametrize("data", [b"", b"\x02", framed(b"{}")[:-1]])
def test_silence_ends_at_the_deadline(data: bytes, ends: Ends) -> None:
    ends[0].sendall(data)
    with pytest.raises(WireTimeoutError):
        receive(ends[1], 0.05)


def test_sending_to_nobody(ends: Ends) -> None:
    ends[1].close()
    with pytest.raises(WireError, match="could not send"):
        send(ends[0], {"op": "exit"})


@pytest.mark.parametrize("opening", [b"[", b'{"times_ns":'])
def test_what_is_nested_too_deep_is_no_message(ends: Ends, opening: bytes) -> None:
    body = b'{"times_ns":' + opening * 100_000
    sender = threading.Thread(target=ends[0].sendall, args=(framed(body),))
    sender.start()
    with pytest.raises(GarbledError, match="deeper"):
        receive(ends[1], PATIENT_S)
    sender.join()
