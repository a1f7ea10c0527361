"""One answer per message: whoever sends more is told from a worker that hung up."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from roofsmith.judge import post_mortem
from roofsmith.judge.channel import Channel, SurplusError
from roofsmith.judge.wire import GarbledError, WireError, receive, send


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_messages_may_wait_for_their_answers(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    channel.say({"op": "start"})
    send(theirs, {"answer": 1})
    channel.say({"op": "load"})
    send(theirs, {"answer": 2})
    assert [channel.hear(1.0)["answer"] for _ in range(2)] == [1, 2]
    channel.say({"op": "run"})
    assert receive(theirs, 1.0)[0] == {"op": "start"}


def test_a_second_answer_is_seen_before_the_next_message(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, theirs = ends
    channel.say({"op": "run"})
    send(theirs, {"times_ns": [1]})
    send(theirs, {"times_ns": [1000]})
    assert channel.hear(1.0) == {"times_ns": [1]}
    assert channel.answers_again()
    with pytest.raises(SurplusError):
        channel.say({"op": "collect"})


def test_hanging_up_is_no_answer(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.close()
    assert not channel.answers_again()
    with pytest.raises(WireError) as caught:
        channel.say({"op": "run"})
    assert not isinstance(caught.value, SurplusError)


def test_what_is_no_message_is_garbled(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    channel.say({"op": "run"})
    theirs.sendall(b"\4\0\0\0fine")
    with pytest.raises(GarbledError):
        channel.hear(1.0)


def test_forgery_has_a_code() -> None:
    assert post_mortem.unasked("collect").reason == "verdict_forged"
    assert post_mortem.garbled("run", "not JSON").reason == "verdict_forged"
    assert post_mortem.misshapen({}, 3, is_doubled=True).reason == "verdict_forged"
    assert post_mortem.misshapen({}, 3, is_doubled=False).reason == "garbled_answer"
