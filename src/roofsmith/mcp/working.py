"""Runs what takes long beside the event loop: with progress, and until somebody cancels it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from roofsmith.domain.campaign import Campaign, Event

Result = TypeVar("Result")
Report = Callable[[float, str], Awaitable[None]]
"""Tells a client how far a call is: a number that only grows, and words."""

TELL_S = 0.5
"""Between two notifications of progress."""
_MACHINE = threading.Lock()


class CancelledWorkError(KeyboardInterrupt):
    """A client cancelled what runs, or is gone; handled wherever Ctrl-C is."""

    def __init__(self) -> None:
        super().__init__("cancelled by the client")


class Ears:
    """Hears what one call does, on its thread; from the event loop it is asked, and told to end."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._stage = ""
        self._detail = ""
        self._fraction: float | None = None

    @property
    def said(self) -> str:
        """Stage, detail and percent, as last heard."""
        percent = "" if self._fraction is None else f"{self._fraction:.0%}"
        return " ".join(part for part in (self._stage, self._detail, percent) if part)

    def cancel(self) -> None:
        """Have the call end at its next stage or progress."""
        self._cancelled.set()

    def heed(self) -> None:
        """End the call, if somebody said so.

        Raises:
            CancelledWorkError: somebody did.
        """
        if self._cancelled.is_set():
            raise CancelledWorkError

    def stage(self, name: str, detail: str = "") -> None:
        self._stage, self._detail, self._fraction = name, detail, None
        self.heed()

    def progress(self, fraction: float, detail: str = "") -> None:
        self._fraction = fraction
        self._detail = detail or self._detail
        self.heed()

    def hear(self, message: Mapping[str, Any]) -> None:
        """The same, of a process that holds the campaign."""
        match message["kind"]:
            case "stage":
                self.stage(message["name"], message["detail"])
            case "progress":
                self.progress(message["fraction"], message["detail"])
            case _:
                pass

    def event(self, event: Event, campaign: Campaign) -> None:
        """A record was written: nothing ends here, so that what follows from it is written too."""
        self._stage, self._fraction = "recorded", None
        self._detail = f"{event.kind}, after round {campaign.last_round}"


def new_thread(name: str) -> ThreadPoolExecutor:
    """One thread, on which calls run in turn: processes of ours end with the thread they began on.

    It lives until `shutdown`, unlike one of a pool's that is taken for a call.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)


@contextmanager
def machine(ears: Ears) -> Iterator[None]:
    """Have the machine alone among the calls of this server: two measurements disturb each other.

    Raises:
        CancelledWorkError: somebody cancelled while it waited.
    """
    while not _MACHINE.acquire(timeout=TELL_S):
        ears.stage("waiting", "for another call of this server to end")
    try:
        yield
    finally:
        _MACHINE.release()


async def awaited(future: Future[Result], ears: Ears, report: Report) -> Result:
    """The result of what runs on a thread; the client hears how far it is.

    Cancelled, it has the thread end soon, and doesn't wait for that.

    Raises:
        CancelledWorkError: the work ended since it was told to.
    """
    future.add_done_callback(_retrieved)
    running = asyncio.wrap_future(future)
    running.add_done_callback(_retrieved)
    told, count = "", 0
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=TELL_S)
            if ears.said != told and not running.done():
                told, count = ears.said, count + 1
                await report(float(count), told)
        return running.result()
    except asyncio.CancelledError:
        ears.cancel()
        raise


def _retrieved(future: Future[Result] | asyncio.Future[Result]) -> None:
    """Nobody may be left to ask what it raised: that is no reason for a complaint on stderr."""
    if not future.cancelled():
        future.exception()
