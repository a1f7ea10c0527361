"""Results on stdout: one JSON object, or tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_UNLIMITED = 10_000
"""Columns of a pipe."""


def print_json(document: Any) -> None:
    """One object, indented, with a newline at its end."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def console() -> Console:
    """Stdout: colours on a terminal unless NO_COLOR is set, plain text elsewhere."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())


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

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        cut = index == shorten
        table.add_column(Text(header), overflow="ellipsis" if cut else "fold", no_wrap=cut)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    shown = console()
    if not sys.stdout.isatty():
        shown.width = _UNLIMITED
    shown.print(table)
