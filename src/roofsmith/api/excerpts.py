"""As much of what others wrote as a page has room for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from markupsafe import escape

from roofsmith.analysis.figures import visible
from roofsmith.domain.dashboard import Figure, Text
from roofsmith.report.summary import Ratio

T = TypeVar("T")

# Chosen: with them no page comes to 200 kB, whatever a ledger holds.
ROWS = 50
"""Rounds, campaigns or experiments on a page."""
SHORT, LONG = 240, 10_000
"""Characters of a sentence in a table, and of a file or patch on a page."""


def paged(all_: Sequence[T], page: int) -> tuple[Sequence[T], int, int]:
    """One page of all, its number, and how many there are."""
    pages = max(1, -(-len(all_) // ROWS))
    page = min(max(1, page), pages)
    return all_[(page - 1) * ROWS : page * ROWS], page, pages


def cut(text: object, most: int = SHORT) -> str:
    """A foreign text in a line of a table."""
    found = excerpt("", str(text), most)
    return f"{found.text} \N{HORIZONTAL ELLIPSIS}" if found.left_out else found.text


def excerpt(name: str, text: str, most: int = LONG) -> Text:
    """As much of a foreign text as takes `most` bytes of a page, with nothing invisible in it."""
    count = min(len(text), most)
    shown = visible(text[:count])
    while (size := len(escape(shown).encode())) > most:
        count = count * most // size
        shown = visible(text[:count])
    return Text(name=cut(name) if name else "", text=shown, left_out=len(text) - count)


def short(value: float) -> float:
    """A number of many, as precise as a picture shows it."""
    return float(f"{value:.5g}")


def figure(value: float | None, reason: str, ci: tuple[float, float] | None = None) -> Figure:
    """A number, or why there is none."""
    return Figure(reason=reason) if value is None else Figure(value=value, interval=ci)


def ratio(found: Ratio | None, reason: str) -> Figure:
    """The same of a ratio."""
    return Figure(reason=reason) if found is None else Figure(value=found.value, interval=found.ci)
