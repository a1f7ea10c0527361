"""Results on stdout: one JSON object, or tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_UNLIMITED = 10_000
"""Columns of a pipe."""
_GAP = 2
_LEAST_ROOM = 16


def print_json(document: Any) -> None:
    """One object, indented, with a newline at its end."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def console() -> Console:
    """Stdout: colours on a terminal unless NO_COLOR is set, plain text elsewhere."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def table_console() -> Console:
    """The same, but a pipe is as wide as any table."""
    shown = console()
    if not sys.stdout.isatty():
        shown.width = _UNLIMITED
    return shown


def print_lines(lines: Iterable[str]) -> None:
    """Plain text, line by line."""
    for line in lines:
        print(line)


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, shorten: int | None = None
) -> None:
    """A table without frames.

    On a terminal that is too narrow, column `shorten` is cut with an ellipsis, or cells wrap if
    there is none; elsewhere nothing is cut.
    """
    from rich.table import Table
    from rich.text import Text

    shown = table_console()
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    cells = [list(row) for row in rows]
    if shorten is not None:
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        rest = sum(widths) - widths[shorten] + _GAP * len(widths)
        room = max(shown.width - rest, _LEAST_ROOM)
        for row in cells:
            row[shorten] = _cut(row[shorten], room)
    for header in headers:
        table.add_column(Text(header), overflow="fold", no_wrap=shorten is not None)
    for row in cells:
        table.add_row(*map(Text, row))
    print_unpadded(shown, table)


def print_unpadded(shown: Console, *parts: RenderableType) -> None:
    """Tables are padded to their width, which nobody wants in a file."""
    with shown.capture() as captured:
        for part in parts:
            shown.print(part)
    print_lines(line.rstrip() for line in captured.get().splitlines())


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
