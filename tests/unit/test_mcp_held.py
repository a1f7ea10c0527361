"""Campaigns that a server holds between calls: one call at a time, open until nobody uses them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from roofsmith import api
from roofsmith.errors import CampaignBusyError, MachineError, UsageError
from roofsmith.mcp.held import HeldCampaign, Shelf
from roofsmith.mcp.working import CancelledWorkError, Ears, awaited, machine

LONG_S = 60.0


class Opened:
    """Stands for `api.open_session`: counts, and knows the threads it was on."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.threads: set[int] = set()

    @contextmanager
    def __call__(self, directory: Path, settings: object, observer: object) -> Iterator[Any]:
        self.opened += 1
        self.threads.add(threading.get_ident())
        try:
            yield self
        finally:
            self.closed += 1
            self.threads.add(threading.get_ident())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    found = Opened()
    monkeypatch.setattr(api, "open_session", found)
    return found


@pytest.fixture
def shelf(opened: Opened) -> Iterator[Shelf]:
    found = Shelf(idle_s=0.0)
    yield found
    found.end()


def waiting(held: HeldCampaign, inside: threading.Event) -> Callable[[Any], None]:
    """Work that goes on until it is cancelled."""

    def work(_: object) -> None:
        inside.set()
        for _number in range(int(LONG_S / 0.01)):
            held.ears.progress(0.5)
            threading.Event().wait(0.01)

    return work


def test_turns_share_one_session_on_one_thread(shelf: Shelf, opened: Opened) -> None:
    held = shelf.named(Path("run"))
    assert shelf.named(Path("run")) is held
    for number in range(3):
        assert held.turn(lambda _, n=number: n).result(LONG_S) == number  # type: ignore[misc]
        assert held.is_open
    assert (opened.opened, opened.closed) == (1, 0)
    shelf.release_idle()
    assert held.turn(lambda _: 4).result(LONG_S) == 4, "it isn't busy, only opened anew"
    assert (opened.opened, opened.closed) == (2, 1)
    held.start(lambda _: None).result(LONG_S)
    assert (opened.opened, opened.closed) == (2, 2)
    assert not held.is_open
    assert len(opened.threads) == 1


def test_a_second_call_is_told_that_it_is_busy(shelf: Shelf) -> None:
    held, inside = shelf.named(Path("run")), threading.Event()
    first = held.turn(waiting(held, inside))
    assert inside.wait(LONG_S)
    for again in (held.turn, held.start):
        with pytest.raises(CampaignBusyError):
            again(lambda _: None)
    assert held.idle_s == 0.0
    shelf.release_idle()
    assert held.is_open, "it is in use"
    held.ears.cancel()
    with pytest.raises(CancelledWorkError):
        first.result(LONG_S)
    assert held.turn(lambda _: 1).result(LONG_S) == 1, "what was cancelled is over"


@pytest.mark.parametrize(
    ("error", "stays"), [(UsageError("no"), True), (MachineError("no"), False), (OSError(), False)]
)
def test_only_after_a_wrong_request_a_session_is_still_good(
    error: Exception, stays: bool, shelf: Shelf, opened: Opened
) -> None:
    held = shelf.named(Path("run"))

    def fail(_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        held.turn(fail).result(LONG_S)
    assert held.is_open == stays
    assert opened.closed == (0 if stays else 1)


def test_the_end_cancels_and_closes(opened: Opened) -> None:
    shelf, inside = Shelf(idle_s=LONG_S), threading.Event()
    held = shelf.named(Path("run"))
    running = held.turn(waiting(held, inside))
    assert inside.wait(LONG_S)
    shelf.end()
    assert isinstance(running.exception(), CancelledWorkError)
    assert (opened.opened, opened.closed) == (1, 1)


def test_two_measurements_wait_for_each_other() -> None:
    first, second = Ears(), Ears()
    with machine(first):
        second.cancel()
        with pytest.raises(CancelledWorkError), machine(second):
            pytest.fail("both at once")
    second.begin()
    with machine(second):
        pass


def test_a_cancelled_call_ends_its_work_and_hears_no_more() -> None:
    ears, future, told = Ears(), Future[int](), list[str]()

    async def report(count: float, said: str) -> None:
        told.append(said)

    async def talk() -> None:
        ears.stage("time", "N=1")
        ears.progress(0.25)
        call = asyncio.ensure_future(awaited(future, ears, report))
        while not told:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(talk())
    assert told == ["time N=1 25%"]
    with pytest.raises(CancelledWorkError):
        ears.heed()
