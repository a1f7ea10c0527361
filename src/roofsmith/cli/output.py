"""Results on stdout: one JSON object, or tables for people."""

from __future__ import annotations

import errno
import io
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from roofsmith.errors import StorageError
from roofsmith.wording import printable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType

    from roofsmith.api.views.blocks import Blocks, Prose, Table

Found = TypeVar("Found")

_UNLIMITED = 10_000
"""Columns of a pipe."""
_GAP = 2
_LEAST_ROOM = 30
"""Columns below which a cut sentence says too little: it gets a line of its own."""


@contextmanager
def sound_output() -> Iterator[None]:
    """Have a stdout that takes whatever is printed, or ends in a message where it is full.

    Somebody may have closed it, and a terminal's encoding may lack a letter.
    """
    if sys.stdout is None:
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print("roofsmith: stdout is full: no space left where it goes", file=sys.stderr)
        # Python would try once more at its end, and say so.
        sys.stdout = io.StringIO()
        raise SystemExit(2) from None


def print_json(document: Any) -> None:
    """One object, indented, with a newline at its end."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_error(kind: str, message: str, hint: str | None = None, log: str | None = None) -> None:
    """What went wrong, for programs; `kind` is the name of the error's class, or `Interrupted`."""
    print_json({"error": {"kind": kind, "message": message, "hint": hint, "log": log}})


def write_file(path: Path, text: str) -> None:
    """Write what somebody asked to have in a file.

    Raises:
        StorageError: it can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"can't write {path}: {error.strerror or error}",
            hint="name a file in a folder that is there, and that you may write to",
        ) from error


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
    """Plain text, line by line; what would steer a terminal is spelled out."""
    for line in lines:
        print(printable(line))


def printed(
    found: Found,
    document: Callable[[Found], Any],
    view: Callable[[Found], Blocks],
    *,
    as_json: bool,
) -> None:
    """A result as JSON, or as people are shown it."""
    if as_json:
        print_json(document(found))
        return
    print_blocks(view(found))


def print_blocks(blocks: Iterable[str | Prose | Table]) -> None:
    """What a view is made of, as people are shown it."""
    from roofsmith.api.views.blocks import Prose

    for block in blocks:
        if isinstance(block, str):
            print_lines([block])
        elif isinstance(block, Prose):
            print_lines(_wrapped(block))
        else:
            print_table(block.headers, block.rows, shorten=block.shorten)


def _wrapped(prose: Prose) -> Iterator[str]:
    """Its lines, as wide as the terminal; elsewhere one, which programs read with more ease."""
    margin = " " * prose.indent
    for line in prose.text.splitlines():
        yield from textwrap.wrap(
            line, console().width if sys.stdout.isatty() else _UNLIMITED, initial_indent=margin,
            subsequent_indent=f"{margin}  ", break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip


def dumped(found: BaseModel) -> dict[str, Any]:
    """All that a model holds, as JSON."""
    return found.model_dump(mode="json")


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, shorten: int | None = None
) -> None:
    """A table without frames.

    On a terminal that is too narrow, column `shorten` is cut with an ellipsis, or stands beneath
    its row where little would be left of it; cells wrap if there is none. Elsewhere nothing is cut.
    """
    from rich.table import Table
    from rich.text import Text

    shown = table_console()
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    cells = [[*map(printable, row)] for row in rows]
    if shorten is not None:
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        rest = sum(widths) - widths[shorten] + _GAP * len(widths)
        room = shown.width - rest
        if room < min(widths[shorten], _LEAST_ROOM):
            print_lines(_beneath([list(headers), *cells], shorten, shown.width))
            return
        for row in cells:
            row[shorten] = _cut(row[shorten], room)
    for header in headers:
        table.add_column(Text(header), overflow="fold", no_wrap=shorten is not None)
    for row in cells:
        table.add_row(*map(Text, row))
    print_unpadded(shown, table)


def _beneath(rows: list[list[str]], column: int, width: int) -> Iterator[str]:
    """Rows without one of their columns, which follows on a line of its own."""
    sentences = [row.pop(column) for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    gap = _GAP if sum(widths) + _GAP * (len(widths) - 1) <= width else 1
    for row, sentence in zip(rows, sentences, strict=True):
        padded = (f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True))
        yield (" " * gap).join(padded).rstrip()
        if row is not rows[0]:
            yield f"  {_cut(sentence, width - 2)}"


def print_unpadded(shown: Console, *parts: RenderableType) -> None:
    """Tables are padded to their width, which nobody wants in a file."""
    with shown.capture() as captured:
        for part in parts:
            shown.print(part)
    for line in captured.get().splitlines():  # whose colours are ours
        print(line.rstrip())


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
