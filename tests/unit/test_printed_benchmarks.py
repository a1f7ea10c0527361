"""What benchmarks of people and tools print is read, and the user's own column taken."""

from __future__ import annotations

import re

import pytest
from printed_benchmarks import CLOSED, CLOSED_LINES, LINES, OPENED, Printed

from roofsmith.domain.command import CommandSpec
from roofsmith.repository.cells import is_naming
from roofsmith.repository.column_guess import guess_keys, guess_metric, rows_of
from roofsmith.repository.column_names import bracketed
from roofsmith.repository.dialects import matched
from roofsmith.repository.line_patterns import nearest_lines
from roofsmith.repository.printed_table import csv_within, tables_within
from roofsmith.repository.rows import Reader


def again(text: str) -> str:
    """What a second run prints: other measurements, the same sizes."""
    return re.sub(r"(\d\.\d)(\d*)(?=[1-9])", lambda found: found[1] + found[2] + "7", text)


@pytest.mark.parametrize("name", [*OPENED, *CLOSED])
def test_a_printed_table_is_read(name: str) -> None:
    printed: Printed = (OPENED | CLOSED)[name]
    found = [rows_of(table) for table in tables_within(printed.text)]
    guesses = [(rows, guess) for rows in found if (guess := guess_metric(rows, None, printed.own))]
    assert guesses, found
    rows, guess = guesses[0]
    assert (guess.column, guess.direction, guess.unit) == (
        printed.metric, printed.direction, printed.unit,
    )  # fmt: skip
    second = next(
        rows
        for rows in (rows_of(table) for table in tables_within(again(printed.text)))
        if guess.column in rows[0]
    )
    assert guess_keys(rows, second, (guess.column,)) == printed.keys
    spec = CommandSpec(
        repo="/r", editable=("a.c",), benchmark="b", metric=bracketed(guess.column),
        direction=guess.direction, rows=printed.keys,
    )  # fmt: skip
    reader = Reader.of(spec)
    readings = reader.read(csv_within(printed.text, spec.keys, reader.columns))
    assert [*readings[0].metrics.values()] == [pytest.approx(printed.first)]
    assert len(readings) == len(rows)


@pytest.mark.parametrize("name", [*LINES, *CLOSED_LINES])
def test_lines_that_are_no_table_get_a_pattern(name: str) -> None:
    text, direction, unit, number = (LINES | CLOSED_LINES)[name]
    quoted, pattern = nearest_lines(text)
    assert pattern is not None
    assert quoted[0] in text
    rows = rows_of(matched(pattern, text))
    guess = guess_metric(rows)
    assert guess is not None
    assert (guess.direction, guess.unit, len(rows)) == (direction, unit, number)
    keys = guess_keys(rows, rows, (guess.column,))
    assert len({tuple(row[key] for key in keys) for row in rows}) == number
    assert is_naming([*rows[0]])


def test_a_table_whose_unit_changed_is_the_table_still() -> None:
    """What becomes of the other unit is said of the column, and not that nothing was printed."""
    assert csv_within("time: 12.5 us\n", (), ("time (ms)",)) == "time (us)\n12.5"
