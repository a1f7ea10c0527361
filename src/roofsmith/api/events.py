"""Has a command told when a campaign finds something, stalls, ends, or needs somebody."""

from __future__ import annotations

import json
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from roofsmith.api.dashboard import campaign_row, id_of
from roofsmith.api.excerpts import SHORT, cut
from roofsmith.domain.campaign import Campaign, Event, Round, Stopped
from roofsmith.domain.dashboard import Happening, Occasion
from roofsmith.domain.refusal import Refusal
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Observer
from roofsmith.shell import run_shell, tail

DEADLINE_S = 10.0
"""Of the command: the campaign waits for it, so that nothing runs beside a kernel that is timed;
but for `stalled`, which is told beside whatever hangs."""
STALL_S = 1_200.0
"""Without a word. Longer than what an agent may take for an answer, by default."""
LOG = "logs/events.jsonl"
"""In the campaign's directory: a line for each time, with how the command ended."""


@contextmanager
def announcing(
    observer: Observer, command: str | None, directory: Path, say: Callable[[str], None]
) -> Iterator[Observer]:
    """An observer that passes on what it hears, and has a command told what matters to people.

    Args:
        observer: hears all of it.
        command: for /bin/sh, with a `Happening` on its standard input; None: there is none.
        directory: the campaign's.
        say: hears of a command that failed: that is never the campaign's failure.
    """
    if command is None:
        yield observer
        return
    told = Announcer(observer, command, directory, say)
    threading.Thread(target=told.watch, daemon=True).start()
    try:
        yield told
    except RoofsmithError as error:
        told.tell("needs_you", str(error))
        raise
    finally:
        told.ended.set()


class Announcer:
    """Passes on what it hears; tells its command, one thing at a time."""

    def __init__(
        self, observer: Observer, command: str, directory: Path, say: Callable[[str], None]
    ) -> None:
        self._observer, self._command, self._directory = observer, command, directory.absolute()
        self._say, self._stage = say, ""
        self._campaign: Campaign | None = None
        self._heard_at = time.monotonic()
        self._turn, self.ended = threading.Lock(), threading.Event()

    def stage(self, name: str, detail: str = "") -> None:
        """Pass it on."""
        self._stage, self._heard_at = name, time.monotonic()
        self._observer.stage(name, detail)

    def progress(self, fraction: float, detail: str = "") -> None:
        """Pass it on."""
        self._heard_at = time.monotonic()
        self._observer.progress(fraction, detail)

    def event(self, event: Event, campaign: Campaign) -> None:
        """Pass it on, then tell of it."""
        self._campaign = campaign
        self._observer.event(event, campaign)
        if (found := _occasion(event)) is not None:
            self.tell(*found)
        self._heard_at = time.monotonic()

    def watch(self, stall_s: float = STALL_S) -> None:
        """Tell of every silence once, until the end."""
        told_at = -1.0
        while not self.ended.wait(min(30.0, stall_s / 4)):
            since = self._heard_at
            silent_s = time.monotonic() - since
            if silent_s > stall_s and told_at != since:
                told_at = since
                self.tell("stalled", f"nothing was heard of it for {silent_s:.0f} s: {self._stage}")

    def tell(self, occasion: Occasion, detail: str) -> None:
        """Run the command, and write down how it ended."""
        with self._turn:
            try:
                with tempfile.TemporaryDirectory(prefix="roofsmith-event-") as folder:
                    line = self._run(occasion, detail, Path(folder))
            except Exception as error:  # noqa: BLE001 - whatever it is, the campaign goes on
                self._say(f"--on-event: {occasion} wasn't told: {error}")
                return
            try:
                self._write(line)
            except OSError as error:
                self._say(f"--on-event: {occasion} was told, but not written down: {error}")

    def _run(self, occasion: Occasion, detail: str, folder: Path) -> dict[str, str | list[str]]:
        at, known, row = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}", self._campaign, None
        if known is not None:
            row = campaign_row(known, id_of(self._directory), self._directory, works=True)
        told = Happening(event=occasion, detail=cut(detail, 4 * SHORT), at=at, row=row)
        (folder / "event").write_text(f"{told.model_dump_json()}\n", encoding="utf-8")
        ran = run_shell(
            f"/bin/sh -c {shlex.quote(self._command)} < {shlex.quote(str(folder / 'event'))}",
            directory=Path.cwd(), environment={}, deadline_s=DEADLINE_S, log=folder / "log",
        )  # fmt: skip
        left = f", and left {ran.leftovers}" if ran.left and ran.stopped is None else ""
        ending = ran.ending + left
        if not ran.passed or ran.left:
            self._say(f"--on-event: {occasion}: the command {ending}")
        return {"at": at, "event": occasion, "command": ending, "printed": tail(ran.log)}

    def _write(self, line: dict[str, str | list[str]]) -> None:
        if self._directory.is_dir():
            (self._directory / LOG).parent.mkdir(exist_ok=True)
            with (self._directory / LOG).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _occasion(event: Event) -> tuple[Occasion, str] | None:
    """What a record is to people; None: they can wait for the end."""
    found: tuple[Occasion, str] | None = None
    match event:
        case Round() if event.decision.kind == "kept" and not event.decision.simpler:
            found = "new_best", f"{event.total_speedup:.3g}x: {event.hypothesis.statement}"
        case Refusal(reason="unavailable"):
            found = "needs_you", f"{event.proposer} can't be asked: {event.detail}"
        case Stopped(code="no_idle_gpu"):
            found = "needs_you", event.detail
        case Stopped():
            found = "ended", f"{event.code.replace('_', ' ')}: {event.detail}"
    return found
