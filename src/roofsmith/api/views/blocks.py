"""What a view is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from roofsmith.analysis.figures import visible as visible


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells beneath headers."""

    headers: Sequence[str]
    rows: Iterable[Sequence[str]]
    shorten: int | None = None
    """The column that is cut where there is too little room."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences, which wrap where a terminal ends."""

    text: str
    indent: int = 0
    """Columns in front of every line; two more from the second one on."""


Blocks = Iterator[str | Prose | Table]
"""Lines, sentences and tables, from top to bottom."""
