"""What the terminal shows while something runs: a stage with its bar, and a line per record.

Everything goes to stderr. On a terminal the stage line is live; elsewhere there are plain lines
without control codes. What is said comes from anywhere: control characters are spelled out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from roofsmith.api.views.records import Line
    from roofsmith.domain.campaign import Campaign, Event

_SLOW_STAGES = frozenset({"ceilings", "waiting"})
"""Stages that a plain log announces at once, because nothing else may appear for long."""

_SILENCE_S = 3.0
"""After which a plain log says what stage it is that takes so long, once of each."""

_WAIT = "gate"
"""A stage that a plain log tells of as often as there is something new in the way."""

_ALMOST = 0.999
_LOG_WIDTH = 180
"""Columns of a line in a log: nothing has to fit a screen there."""


@contextmanager
def screen(stream: TextIO | None = None) -> Iterator[LiveScreen | PlainScreen]:
    """The observer that fits the stream, stderr by default: live on a terminal, else plain."""
    stream = stream or sys.stderr
    if not stream.isatty():
        with closing(PlainScreen(stream)) as plain:
            yield plain
        return
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    if console.is_dumb_terminal:
        with closing(PlainScreen(stream)) as plain:
            yield plain
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<12}", style="bold"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn(
            "{task.fields[detail]}", style="dim", markup=False,
            table_column=Column(ratio=1, no_wrap=True),  # a long one leaves the others their room
        ),
    )  # fmt: skip
    # No refreshing thread: it would take processor time from the kernels that are being timed.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, expand=True
    ) as progress:
        yield LiveScreen(progress)


class LiveScreen:
    """One live line for the stage that runs, permanent lines above it."""

    is_live = True

    def __init__(self, progress: Progress) -> None:
        self.width = progress.console.width
        self._progress = progress
        self._task: TaskID | None = None
        self._stage = ""

    def stage(self, name: str, detail: str = "") -> None:
        """Replace the live line."""
        detail = _visible(detail)
        if name == self._stage and self._task is not None:
            self._progress.update(self._task, detail=detail, refresh=True)
            return
        self._clear()
        self._stage = name
        self._task = self._progress.add_task(name, total=None, detail=detail)
        self._progress.refresh()

    def progress(self, fraction: float, detail: str = "") -> None:
        """Move the bar of the stage that runs."""
        if self._task is not None:
            # Rich stops a full bar's clock, but the stage may go on.
            self._progress.update(self._task, total=1.0, completed=min(fraction, _ALMOST))
            if detail:
                self._progress.update(self._task, detail=_visible(detail))
            self._progress.refresh()

    def event(self, event: Event, campaign: Campaign) -> None:
        """Print what was recorded, for good."""
        from roofsmith.api.views.records import lines_for

        self.lines(lines_for(event, campaign, self.width))

    def lines(self, lines: Iterable[Line]) -> None:
        """Print them for good."""
        self._clear()
        for line in lines:
            self._print(line)

    def _print(self, line: Line) -> None:
        from rich.text import Text

        text = Text()
        for part, style in line:
            text.append(_visible(part), style or "")
        self._progress.console.print(text)

    def _clear(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


class PlainScreen:
    """A line per record, for logs and pipes."""

    is_live, width = False, _LOG_WIDTH

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._announced: set[str] = set()
        self._silence: Timer | None = None

    def stage(self, name: str, detail: str = "") -> None:
        """Announce a stage that takes long, once: at once, or when it has."""
        self.close()
        text = f"{name}: {detail}" if detail else name
        slow = name in _SLOW_STAGES and name not in self._announced
        if slow or (name == _WAIT and detail):
            self._announced.add(name)
            self._write(text)
        elif name not in _SLOW_STAGES and text not in self._announced:
            self._silence = Timer(_SILENCE_S, self._say, (text,))
            self._silence.daemon = True
            self._silence.start()

    def close(self) -> None:
        """Announce nothing any more of the stage that runs."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _say(self, text: str) -> None:
        self._announced.add(text)
        self._write(f"at work on {text}")

    def progress(self, fraction: float, detail: str = "") -> None:
        """Nothing: a log has no bar."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Write what was recorded."""
        from roofsmith.api.views.records import lines_for

        self.lines(lines_for(event, campaign, self.width))

    def lines(self, lines: Iterable[Line]) -> None:
        """Write them."""
        for line in lines:
            self._write("".join(part for part, _ in line))

    def _write(self, text: str) -> None:
        print(_visible(text), file=self._stream, flush=True)


def _visible(text: str) -> str:
    from roofsmith.api.views.blocks import visible

    return visible(text)
