"""What a benchmark's columns probably mean, from their names and two runs. Pure.

Guesses go into a target file for somebody to read; nothing is decided on them unseen. A target
without a direction is one of a time, by name or unit, or it is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roofsmith.domain.command import (
    BYTE_RATES,
    FLOP_RATES,
    TIME_UNITS,
    Direction,
    direction_of,
)
from roofsmith.repository.expressions import Row, as_number, condition, formula, names
from roofsmith.repository.printed_table import end_of_table, fields_of

_TIME: Final = re.compile(
    r"(?:^|[^a-z])(us|ms|ns|s|sec|seconds|µs|time|latency|duration)(?:$|[^a-z])", re.IGNORECASE
)
_RATE: Final = re.compile(
    r"(?:^|[^a-z])([kmgtp]?flops|[a-z]+/(?:[mun]?s|sec|second)|per[_ -](?:[mun]?s|sec|second)"
    r"|throughput|bandwidth)(?:$|[^a-z])",
    re.IGNORECASE,
)
_COLUMN: Final = re.compile(r"[A-Za-z_][\w.]*|\w+(?: +\w+)+|\[[^\[\]]+\]|`[^`]+`")
_ERROR: Final = re.compile(r"(?:^|_)(err|error|errors|mismatch|mismatches|wrong)(?:$|_)", re.I)
_CHECK: Final = re.compile(r"(?:^|_|\b)(check|status|pass|passed|correct|ok)(?:$|_|\b)", re.I)
_GOOD: Final = frozenset(("pass", "passed", "ok", "true", "yes", "correct"))
_UNITS: Final = {"sec": "s", "seconds": "s"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a metric's name says of it."""

    direction: Direction
    unit: str
    """Empty where the name doesn't say."""


@dataclass(frozen=True, slots=True)
class MetricGuess:
    """What is probably to be improved."""

    column: str
    direction: Direction
    unit: str
    """Empty where the name doesn't say."""
    others: tuple[str, ...] = ()
    """Columns that it might be as well, such as the time of another phase."""


def first_table(printed: str) -> str | None:
    """The first lines with commas, equally many on at least two; None if there are none."""
    lines = printed.splitlines()
    split = [fields_of(line) for line in lines]
    for at, fields in enumerate(split):
        if len(fields) > 1 and (end := end_of_table(split, at)) > at + 1:
            return "\n".join(lines[at:end])
    return None


def rows_of(text: str) -> list[Row]:
    """A CSV's rows by column; short and long ones are left out."""
    parsed = [row for row in csv.reader(io.StringIO(text.lstrip("\ufeff"), newline="")) if row]
    if not parsed:
        return []
    header = [name.strip() for name in parsed[0]]
    return [
        dict(zip(header, (field.strip() for field in row), strict=True))
        for row in parsed[1:]
        if len(row) == len(header)
    ]


def meaning_of(metric: str) -> Meaning | None:
    """A time or a rate, by the name of a column; None for other names, and for expressions."""
    if _COLUMN.fullmatch(metric) is None:
        return None
    rate, time = _RATE.search(metric), _TIME.search(_RATE.sub(" ", metric))
    if (rate is None) == (time is None):  # none, or both
        return None
    if rate is not None:
        return Meaning("higher", _unit(rate[1]))
    return None if time is None else Meaning("lower", _unit(time[1]))


def undirected(metric: str, unit: str) -> str | None:
    """Why a metric needs its direction said; None for a time, of which less is better.

    Args:
        metric: a column, a further metric's name, or an expression.
        unit: may be empty.
    """
    meaning = meaning_of(metric)
    said = {repr(metric): meaning.direction if meaning else None, repr(unit): direction_of(unit)}
    rates = [word for word, way in said.items() if way == "higher"]
    if rates:
        return f"{rates[0]} looks like a rate, of which more is better"
    if "lower" in said.values():
        return None
    unit_too = f", nor does its unit {unit!r}" if unit else ""
    return f"the metric {metric!r} doesn't say which way it is better{unit_too}"


def guess_metric(rows: Sequence[Row], wanted: Direction | None = None) -> MetricGuess | None:
    """A time, else a rate; of several, the last one, which is what newer code is compared by.

    Args:
        rows: of one run.
        wanted: which way it has to be better; None: either will do.
    """
    columns = [name for name in rows[0] if _all_positive(rows, name)]
    meanings = {name: meaning for name in columns if (meaning := meaning_of(bracketed(name)))}
    ways: tuple[Direction, ...] = ("lower", "higher") if wanted is None else (wanted,)
    for way in ways:
        found = [name for name, meaning in meanings.items() if meaning.direction == way]
        if found:
            *others, name = found
            return MetricGuess(name, way, meanings[name].unit, tuple(others))
    return None


def guess_gate(rows: Sequence[Row]) -> str | None:
    """`err == 0`, or `Check == PASS`, where a column is so in every row."""
    for name in rows[0]:
        if _ERROR.search(name) and all(as_number(row[name]) == 0 for row in rows):
            return f"{bracketed(name)} == 0"
    for name in rows[0]:
        values = {row[name] for row in rows}
        if _CHECK.search(name) and len(values) == 1 and values <= _good_among(values):
            return f"{bracketed(name)} == {values.pop()}"
    return None


def result_columns(rows: Sequence[Row], metric: str, gate: str | None) -> tuple[str, ...]:
    """Columns that gate and metric are made of, less the sizes that a formula counts work by.

    In `6*M*N*K/(fwd_ms + bwd_ms)` the two times are results, and M, N and K tell rows apart.

    Raises:
        ExpressionError: one of them can't be read.
    """
    results = {found.name for found in names(condition(gate))} if gate else set[str]()
    if _COLUMN.fullmatch(metric):
        results.add(metric.strip("[]`"))
    else:
        results |= {n.name for n in names(formula(metric)) if not _all_whole(rows, n.name)}
    return tuple(name for name in rows[0] if name in results)


def guess_keys(
    first: Sequence[Row], second: Sequence[Row], taken: Sequence[str]
) -> tuple[str, ...]:
    """Columns that say the same in two runs, and that aren't results by their name.

    Args:
        first: rows of one run.
        second: of another run.
        taken: columns that gate and metric are made of.
    """
    if not first or len(first) != len(second):
        return ()
    steady = [
        name
        for name in first[0]
        if name not in taken
        and not any(pattern.search(name) for pattern in (_TIME, _RATE, _ERROR, _CHECK))
        and all(a.get(name) == b.get(name) for a, b in zip(first, second, strict=True))
    ]
    return tuple(name for name in steady if all(row[name] for row in first))


def tells_apart(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Whether no two rows say the same in these columns."""
    found = {tuple(row.get(name) for name in columns) for row in rows}
    return bool(columns) and len(found) == len(rows)


def bracketed(column: str) -> str:
    """A column as an expression names it."""
    return column if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", column) else f"[{column}]"


def _all_positive(rows: Sequence[Row], name: str) -> bool:
    return all((as_number(row[name]) or 0.0) > 0 for row in rows)


def _all_whole(rows: Sequence[Row], name: str) -> bool:
    numbers = [as_number(row.get(name, "")) or 0.0 for row in rows]
    return all(number > 0 and number.is_integer() for number in numbers)


def _good_among(values: set[str]) -> set[str]:
    return {value for value in values if value.lower() in _GOOD}


def _unit(word: str) -> str:
    lower = word.lower()
    if lower in _UNITS:
        return _UNITS[lower]
    known = {unit.lower(): unit for unit in (*FLOP_RATES, *BYTE_RATES)}
    return known.get(lower, lower if lower in TIME_UNITS else "")
