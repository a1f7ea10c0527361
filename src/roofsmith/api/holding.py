"""The process that holds a campaign open for the commands that come: `-m roofsmith.api.holding`.

Opening is what takes long (`session.py`). The main thread has the session and works for one command
after another; a thread each listens to who is connected. The ledger holds all that counts, so that
this process may be killed at any time. It ends after ten idle minutes, when it is told to, when the
campaign is gone, and after any failure but a wrong request: then the session may not be sound.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import roofsmith
from roofsmith.api.requests import OpenedWith, Request, command_of, reminders
from roofsmith.api.session import Session, open_session
from roofsmith.api.views.records import lines_for
from roofsmith.campaign_socket import FOLDER, environment_digest, send
from roofsmith.domain.campaign import Campaign, Event
from roofsmith.errors import RoofsmithError, UsageError
from roofsmith.task_limits import naming_limits

IDLE_S = 600.0
"""After which nobody is expected any more: a person or a model has thought by then. Chosen."""
_LOOK_S = 5.0
"""Between two looks whether the campaign is still there."""
_HEARD_S = 0.5
"""After which a client that doesn't listen is not waited for. Chosen."""
_CREDENTIALS = struct.Struct("3i")
"""What SO_PEERCRED gives (socket(7)): process, user, group."""


class Guest:
    """A client that is connected."""

    def __init__(self, connection: socket.socket, request: Request) -> None:
        self._connection = connection
        self._heard = threading.Event()
        self._heard.set()
        self.request = request
        self.is_gone = False
        self.interrupt: str | None = None

    def tell(self, kind: str, **more: Any) -> None:
        """Send a message; who is gone misses nothing."""
        with suppress(OSError):
            send(self._connection, {"kind": kind, **more})

    def show(self, kind: str, **more: Any) -> None:
        """Have something shown, and wait for that: beside what is timed, nothing is drawn.

        Who stopped listening misses it.
        """
        if not self.is_gone and self._heard.wait(_HEARD_S):
            self._heard.clear()
            self.tell(kind, **more)
            self._heard.wait(_HEARD_S)

    def heed(self, line: bytes) -> None:
        """Take a message."""
        with suppress(ValueError):
            message = json.loads(line)
            if message.get("kind") == "interrupt":
                self.interrupt = str(message.get("how"))
            self._heard.set()


class Relay:
    """Has the client that is worked for hear what happens."""

    def __init__(self) -> None:
        self.guest: Guest | None = None
        self.said = ""

    def stage(self, name: str, detail: str = "") -> None:
        self.said = f"{name}: {detail}" if detail else name
        if self.guest is not None:
            self.guest.show("stage", name=name, detail=detail)

    def progress(self, fraction: float, detail: str = "") -> None:
        if self.guest is not None and self.guest.request.is_live:
            self.guest.show("progress", fraction=fraction, detail=detail)

    def event(self, event: Event, campaign: Campaign) -> None:
        if self.guest is not None:
            self.guest.show("lines", lines=lines_for(event, campaign, self.guest.request.width))


class HoldingProcess:
    """A campaign, its socket, and who waits for it."""

    def __init__(self, directory: Path, listening: socket.socket, idle_s: float = IDLE_S) -> None:
        self._directory = directory
        self._listening = listening
        self._idle_s = idle_s
        self._waiting: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._relay = Relay()
        self._began, self._used_at = datetime.now(UTC), time.monotonic()
        self._made_of = (roofsmith.__version__, environment_digest(), _package())
        self._open = ExitStack()
        self._session: Session | None = None
        self._with: OpenedWith | None = None

    def serve(self) -> None:
        """Work for who comes, until there is a reason to end."""
        signal.signal(signal.SIGINT, self._interrupted)
        signal.signal(signal.SIGTERM, self._terminated)
        path = self._directory / FOLDER / "socket"
        bound = path.stat().st_ino
        threading.Thread(target=self._greet, daemon=True).start()
        try:
            with suppress(KeyboardInterrupt), self._open:
                while (guest := self._next()) is not None and self._serve(guest):
                    self._used_at = time.monotonic()
        finally:  # whoever waits finds no socket, and starts another process
            with suppress(OSError):
                if path.stat().st_ino == bound:
                    path.unlink()

    def _next(self) -> Guest | None:
        """Who is next; None once it is time to end."""
        while time.monotonic() - self._used_at < self._idle_s and self._is_there():
            if self._session is not None and self._session.heed():
                return None
            with suppress(queue.Empty):
                return self._waiting.get(timeout=min(_LOOK_S, self._idle_s))
        return None

    def _is_there(self) -> bool:
        return (self._directory / "ledger.jsonl").exists()

    def _serve(self, guest: Guest) -> bool:
        """Answer one client; whether there may be another."""
        request = guest.request
        if guest.is_gone:
            return True
        here = (request.version, request.environment, _package())
        other = self._with is not None and self._with != request.opened
        if request.command == "close" or here != self._made_of or other:
            return False
        self._relay.guest = guest
        guest.tell("begun")
        answer, sound = self._answered(request)
        self._relay.guest = None
        if not sound:
            self._open.close()
        with suppress(RoofsmithError):
            for line in reminders(self._directory):
                guest.tell("reminder", line=line)
        guest.tell("answer", **answer)
        return sound

    def _answered(self, request: Request) -> tuple[dict[str, Any], bool]:
        """What a request comes to, and whether the session is sound after it."""
        try:
            with naming_limits():
                return command_of(request).answer(self._opened(request.opened)), True
        except RoofsmithError as error:
            kind, log = type(error).__name__, None if error.log is None else str(error.log)
            told = {"kind": kind, "message": error.message, "hint": error.hint, "log": log}
            return {"error": told}, isinstance(error, UsageError)
        except KeyboardInterrupt as interrupt:
            return {"interrupted": str(interrupt)}, False
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            traceback.print_exc()
            message = f"the process that holds the campaign failed: {error!r}"
            log = str(self._directory / "logs" / "held.log")
            told = {"kind": "RoofsmithError", "message": message, "hint": None, "log": log}
            return {"error": told}, False

    def _opened(self, wanted: OpenedWith) -> Session:
        if self._session is None:
            opening = open_session(self._directory, wanted.settings(), self._relay)
            self._session, self._with = self._open.enter_context(opening), wanted
        return self._session

    def _greet(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        """Listen to one client, as long as it is connected."""
        with connection, suppress(OSError), connection.makefile("rb") as lines:
            if not is_trusted(connection):
                return
            try:
                guest = Guest(connection, Request.model_validate_json(lines.readline()))
            except ValidationError:
                return  # of another version: it opens the campaign itself
            if _has_hung_up(connection):  # while this process was stopped, or too slow
                return
            if self._is_answered_at_once(guest):
                return
            if self._relay.guest is not None:
                guest.tell(
                    "stage", name="waiting", detail=f"for another command ({self._relay.said})"
                )
            self._waiting.put(guest)
            for line in lines:
                guest.heed(line)
                if guest.interrupt is not None and self._relay.guest is guest:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            guest.is_gone = True

    def _is_answered_at_once(self, guest: Guest) -> bool:
        request, working = guest.request, self._relay.guest is not None
        if request.command == "status":
            idle_s = 0.0 if working else time.monotonic() - self._used_at
            said, since = (
                self._relay.said if working else None,
                self._began.isoformat("T", "seconds"),
            )
            guest.tell("answer", since=since, idle_s=idle_s, running=said)
            return True
        if working and request.arguments.get("idle_only"):
            guest.tell("answer")
            return True
        return False

    def _interrupted(self, *_: object) -> None:
        """Heed the interrupt of who is worked for; one that comes too late is nobody's."""
        guest = self._relay.guest
        if guest is not None and guest.interrupt is not None:
            raise KeyboardInterrupt(guest.interrupt)

    def _terminated(self, *_: object) -> None:
        raise KeyboardInterrupt("ended by SIGTERM")


def _has_hung_up(connection: socket.socket) -> bool:
    """Whether the peer shut its end: what it asked for, it was told, didn't come to anything."""
    looking = select.poll()
    looking.register(connection, select.POLLRDHUP)
    return bool(looking.poll(0))


def is_trusted(connection: socket.socket) -> bool:
    """Whether the peer is this user, and not a candidate behind the judge's walls.

    A candidate for a GPU may open local sockets, as its driver does.
    """
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(found)
    return user == os.geteuid() and pid > 0 and _walls(pid) <= _walls(os.getpid())


def _walls(pid: int) -> int:
    """How many filters of system calls a process is behind (proc(5)); without a count, none."""
    status = Path(f"/proc/{pid}/status").read_text()
    counts = (
        line.split()[1] for line in status.splitlines() if line.startswith("Seccomp_filters:")
    )
    return int(next(counts, 0))


def _package() -> float:
    root = Path(roofsmith.__file__).parent
    return max(found.stat().st_mtime for found in root.rglob("*.py"))


def main() -> None:
    """Hold the campaign in the directory that is named, on the socket that was handed over."""
    directory, number = Path(sys.argv[1]), int(sys.argv[2])
    HoldingProcess(directory, socket.socket(fileno=number)).serve()


if __name__ == "__main__":
    main()
