"""What a view is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells beneath headers."""

    headers: Sequence[str]
    rows: Iterable[Sequence[str]]
    shorten: int | None = None
    """The column that is cut where there is too little room."""


Blocks = Iterator[str | Table]
"""Lines and tables, from top to bottom."""
