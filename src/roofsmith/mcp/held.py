"""Campaigns that a server holds open between calls, each on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from roofsmith import api
from roofsmith.api import Session
from roofsmith.errors import CampaignBusyError, UsageError
from roofsmith.mcp.working import Ears, machine, new_thread

Result = TypeVar("Result")


class HeldCampaign:
    """One campaign's thread, and its session while somebody works on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ears = Ears()
        self._thread = new_thread(f"campaign {directory.name}")
        self._busy = threading.Lock()
        self._open = ExitStack()
        self._session: Session | None = None
        self._used_at = time.monotonic()

    @property
    def is_busy(self) -> bool:
        """Whether a call works on it."""
        return self._busy.locked()

    @property
    def is_open(self) -> bool:
        """Whether its session is held, and no other process may work on it."""
        return self._session is not None

    @property
    def idle_s(self) -> float:
        """Since the last call ended."""
        return 0.0 if self.is_busy else time.monotonic() - self._used_at

    def start(self, work: Callable[[Ears], Result]) -> Future[Result]:
        """Run something on its thread that opens the campaign itself; a held session is closed.

        Raises:
            CampaignBusyError: another call works on it.
        """

        def run() -> Result:
            self._close()
            return work(self.ears)

        return self._submitted(run)

    def turn(self, work: Callable[[Session], Result]) -> Future[Result]:
        """Run something on its thread with its session, which stays open.

        Raises:
            CampaignBusyError: another call works on it.
        """

        def run() -> Result:
            sound = False
            try:
                with machine(self.ears):
                    result = work(self._opened())
                sound = True
                return result
            except UsageError:
                sound = True
                raise
            finally:
                if not sound:
                    self._close()

        return self._submitted(run)

    def release(self) -> Future[None]:
        """Close its session after what runs, so that another process may work on it.

        Nobody is told that it is busy meanwhile: the next call comes after that, and opens it anew.
        """
        return self._thread.submit(self._close)

    def end(self) -> None:
        """Cancel what runs, close the session, and wait for both."""
        self.ears.cancel()
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _submitted(self, work: Callable[[], Result]) -> Future[Result]:
        if not self._busy.acquire(blocking=False):
            raise CampaignBusyError(
                f"another call of this server is working on {self.directory}: {self.ears.said}",
                hint="wait until it has ended (campaign_status says so), then ask for the brief"
                " again: it may be of another round",
            )
        self.ears.begin()

        def run() -> Result:
            try:
                return work()
            finally:
                self._used_at = time.monotonic()
                self._busy.release()

        return self._thread.submit(run)

    def _opened(self) -> Session:
        if self._session is None:
            opening = api.open_session(self.directory, api.settings(waits=False), self.ears)
            self._session = self._open.enter_context(opening)
        return self._session

    def _close(self) -> None:
        self._session = None
        self._open.close()


class Shelf:
    """Every campaign that clients of this server named."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._held: dict[Path, HeldCampaign] = {}

    def named(self, directory: Path) -> HeldCampaign:
        """The campaign in a directory; nothing is opened."""
        place = directory.expanduser().resolve()
        if place not in self._held:
            self._held[place] = HeldCampaign(place)
        return self._held[place]

    def known(self, directory: Path) -> HeldCampaign | None:
        """The same, if it was named before."""
        return self._held.get(directory.expanduser().resolve())

    def release_idle(self) -> None:
        """Close the sessions that nobody used for a while."""
        for held in self._held.values():
            if held.is_open and held.idle_s > self._idle_s:
                held.release()

    def end(self) -> None:
        """Close everything; what runs is cancelled."""
        for held in self._held.values():
            held.ears.cancel()
        for held in self._held.values():
            held.end()
