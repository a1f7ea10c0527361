"""The table among what a benchmark printed, and what looks like a row that it lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from roofsmith.repository.cells import end_of_table, is_naming, without_unit
from roofsmith.repository.dialects import Printed, decimal_commas, dialects, fields_of
from roofsmith.repository.expressions import as_number
from roofsmith.repository.rows import BadRowsError

_SHOWN: Final = 3
"""Lines that a message names."""
_CHARS: Final = 80
"""Of a line that a message quotes."""
_OR_A_FILE: Final = "(`results` names a file, where the benchmark writes one)"

Shape = Literal["number", "word", "text"]
"""What a column's fields have in common."""


class NoTableError(BadRowsError):
    """Nothing that was printed names the columns."""


def csv_within(printed: str, keys: Sequence[str], needed: Sequence[str] = ()) -> str:
    """The table among what a benchmark printed, as a CSV: from the line that names its columns, on.

    It ends at an empty line, or at a line with another number of fields.

    Args:
        printed: everything.
        keys: columns that tell rows apart; none where there is one row.
        needed: all columns that are read, if that is known; of a table for every phase, the first
            one that has them counts.

    Raises:
        NoTableError: no line names the keys.
        BadRowsError: two tables have everything that is needed; a line after the table looks like
            one of its rows.
    """
    ways = list(dialects(printed))
    found = _naming(ways, {*keys, *needed})
    if len(found) > 1:
        places = ", ".join(_place(way, at) for way, at in found[:_SHOWN])
        raise BadRowsError(
            f"it printed {len(found)} tables with the columns {', '.join((*keys, *needed))}, at"
            f" {places}, and only one can count {_OR_A_FILE}"
        )
    if not found:  # a unit may have changed, which a reader of the rows has to say
        found = (_naming(ways, {*keys}) or _naming(ways, {*needed}, without_unit))[:1]
    for way, at in found:
        end = end_of_table(way.split, at)
        rows = way.split[at + 1 : end]
        table = _Table(way.split[at], [way.split[at].index(key) for key in keys], rows)
        after = way.split[end] if end < len(way.split) else ()
        if not rows and (why := decimal_commas(table.header, after)) is not None:
            raise BadRowsError(why)
        if (lost := _lost(table, way, end)) is not None:
            raise BadRowsError(
                f"line {lost + 1} of what it printed looks like a row of the table, which ended"
                f" with line {end}: {way.lines[lost][:_CHARS]!r}; nothing may stand between the"
                f" rows, and each has {len(table.header)} fields {_OR_A_FILE}"
            )
        return way.csv(at, end)
    raise NoTableError(
        f"it printed no line with the columns {', '.join((*keys, *needed))} {_OR_A_FILE}"
    )


def csv_of_file(text: str, keys: Sequence[str], needed: Sequence[str] = ()) -> str:
    """The table in a file, which is a CSV as it is where its first line names the columns.

    Raises:
        BadRowsError: as `csv_within`; where nothing names the columns, the file is given back.
    """
    if {*keys, *needed} <= {*_first_fields(text)}:
        return text
    try:
        return csv_within(text, keys, needed)
    except NoTableError:
        return text


def is_csv(text: str) -> bool:
    """Whether a file may be one from its first line on."""
    header = _first_fields(text)
    return len(header) > 1 and is_naming(header)


def tables_within(printed: str) -> Iterator[str]:
    """Everything that may be a table, as CSVs, where nobody knows its columns.

    Raises:
        BadRowsError: none can be read, since numbers have decimal commas.
    """
    found, commas = False, None
    for way in dialects(printed):
        at = 0
        while at < len(way.split):
            if way.is_header(at):
                end = end_of_table(way.split, at)
                yield way.csv(at, end)
                found, at = True, end
                continue
            if way.mark == "," and at + 1 < len(way.split):
                commas = commas or decimal_commas(way.split[at], way.split[at + 1])
            at += 1
    if commas is not None and not found:
        raise BadRowsError(commas)


def _first_fields(text: str) -> list[str]:
    return fields_of(text.lstrip("\ufeff").split("\n", 1)[0])


@dataclass(frozen=True)
class _Table:
    header: Sequence[str]
    keys: Sequence[int]
    """Columns that tell rows apart, by their place."""
    rows: Sequence[Sequence[str]]

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(_shape([row[at] for row in self.rows]) for at in range(len(self.header)))

    @cached_property
    def known(self) -> frozenset[tuple[str, ...]]:
        return frozenset(tuple(row[at] for at in self.keys) for row in self.rows)

    def has_row(self, fields: Sequence[str]) -> bool:
        """Whether a line looks like one of its rows, whole or not; a failed row may be words."""
        is_whole = len(fields) == len(self.header)
        if len(fields) <= max(self.keys, default=-1) or not (self.keys or is_whole):
            return False
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


def _lost(table: _Table, way: Printed, end: int) -> int | None:
    """The first line after a table that looks like its row; other tables' rows don't count."""
    skipped = end
    for at in range(end, len(way.lines)):
        fields = way.split[at]
        if at < skipped:
            continue
        if _is_other_header(table, fields, way.lines[at]):
            skipped = end_of_table(way.split, at)
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


def _naming(
    ways: Sequence[Printed], columns: set[str], read: Callable[[str], str] = str
) -> list[tuple[Printed, int]]:
    """Lines that are headers with these columns, each in the first dialect in which it is one.

    Between blanks stands any sentence, so there the next line has to be a row.
    """
    found = list[tuple[Printed, int]]()
    seen = set[str]()
    for way in ways:
        wanted = {*map(read, columns)}
        named = [at for at, f in enumerate(way.split) if columns and wanted <= {*map(read, f)}]
        new = [at for at in named if way.is_record or way.lines[at] not in seen]
        fit = [at for at in new if way.mark != " " or way.is_header(at)]
        found += [(way, at) for at in fit]
        seen |= {way.lines[at] for at in fit if not way.is_record}
    return found


def _place(way: Printed, at: int) -> str:
    return f"records with {', '.join(way.split[at])}" if way.is_record else f"line {at + 1}"
