"""The CSV among what a benchmark printed, and what looks like a row that it lost. Pure."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from roofsmith.repository.expressions import as_number
from roofsmith.repository.rows import BadRowsError

_SHOWN: Final = 3
"""Lines that a message names."""
_CHARS: Final = 80
"""Of a line that a message quotes."""
_OR_A_FILE: Final = "(`results` names a file, where the benchmark writes one)"

Shape = Literal["number", "word", "text"]
"""What a column's fields have in common."""


def csv_within(printed: str, keys: Sequence[str], needed: Sequence[str] = ()) -> str:
    """The CSV among what a benchmark printed: from the line that names its columns, on.

    It ends at an empty line, or at a line with another number of fields.

    Args:
        printed: everything.
        keys: columns that tell rows apart.
        needed: all columns that are read, if that is known; of a table for every phase, the first
            one that has them counts.

    Raises:
        BadRowsError: no line names the keys; two tables have everything that is needed; a line
            after the table looks like one of its rows.
    """
    lines = printed.splitlines()
    split = [fields_of(line) for line in lines]
    headers = _naming(split, {*keys, *needed})
    if len(headers) > 1:
        raise BadRowsError(
            f"it printed {len(headers)} tables with the columns {', '.join((*keys, *needed))}, at"
            f" lines {', '.join(str(at + 1) for at in headers[:_SHOWN])}, and only one can count"
            f" {_OR_A_FILE}"
        )
    for at in headers or _naming(split, {*keys})[:1]:
        end = end_of_table(split, at)
        table = _Table(split[at], [split[at].index(key) for key in keys], split[at + 1 : end])
        if (lost := _lost(table, lines, split, end)) is not None:
            raise BadRowsError(
                f"line {lost + 1} of what it printed looks like a row of the table, which ended"
                f" with line {end}: {lines[lost][:_CHARS]!r}; nothing may stand between the rows,"
                f" and each has {len(split[at])} fields {_OR_A_FILE}"
            )
        return "\n".join(lines[at:end])
    raise BadRowsError(f"it printed no line with the columns {', '.join(keys)} {_OR_A_FILE}")


def fields_of(line: str) -> list[str]:
    """What stands between the commas of one line; commas in quotes are no separators."""
    try:
        return [field.strip() for row in csv.reader([line]) for field in row]
    except csv.Error:  # a field that is far too long
        return [line]


def end_of_table(split: Sequence[Sequence[str]], header: int) -> int:
    """Where a table ends: at the first line with another number of fields than its header."""
    width = len(split[header])
    after = range(header + 1, len(split))
    return next((at for at in after if len(split[at]) != width), len(split))


@dataclass(frozen=True)
class _Table:
    """What was taken of a table, to compare later lines with."""

    header: Sequence[str]
    keys: Sequence[int]
    """Columns that tell rows apart, by their place."""
    rows: Sequence[Sequence[str]]

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Of every column."""
        return tuple(_shape([row[at] for row in self.rows]) for at in range(len(self.header)))

    @cached_property
    def known(self) -> frozenset[tuple[str, ...]]:
        """Keys of its rows."""
        return frozenset(tuple(row[at] for at in self.keys) for row in self.rows)

    def has_row(self, fields: Sequence[str]) -> bool:
        """Whether a line looks like one of its rows, whole or not; a failed row may be words."""
        if len(fields) <= max(self.keys):
            return False
        is_whole = len(fields) == len(self.header)
        is_known = tuple(fields[at] for at in self.keys) in self.known
        return all(
            is_known or self._is_key(at, field, is_whole=is_whole)
            if at in self.keys
            else " " not in field or (is_whole and self.shapes[at] == "text")
            for at, field in enumerate(fields)
        )

    def _is_key(self, at: int, field: str, *, is_whole: bool) -> bool:
        if self.shapes[at] == "number":
            return as_number(field) is not None
        return is_whole and bool(field) and (self.shapes[at] == "text" or " " not in field)


def _lost(table: _Table, lines: Sequence[str], split: Sequence[list[str]], end: int) -> int | None:
    """The first line after a table that looks like its row; other tables' rows don't count."""
    skipped = end
    for at in range(end, len(lines)):
        fields = split[at]
        if at < skipped:
            continue
        if _is_other_header(table, fields, lines[at]):
            skipped = end_of_table(split, at)
        elif (len(fields) > 1 or at == end) and table.has_row(fields):
            return at
    return None


def _is_other_header(table: _Table, fields: Sequence[str], line: str) -> bool:
    """Whether a line names columns of another table, rather than being a sentence with a comma."""
    if len(fields) < 2 or len({*fields}) < len(fields):
        return False
    if not all(fields) or any(as_number(field) is not None for field in fields) or ", " in line:
        return False
    return not table.has_row(fields) or any(field in table.header for field in fields)


def _shape(values: Sequence[str]) -> Shape:
    if all(as_number(value) is not None for value in values):
        return "number"
    return "text" if any(" " in value for value in values) else "word"


def _naming(split: Sequence[Sequence[str]], columns: set[str]) -> list[int]:
    """Lines that are headers with these columns."""
    return [at for at, fields in enumerate(split) if columns <= {*fields}]
