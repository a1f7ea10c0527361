"""What a benchmark's columns probably mean, from their names and two runs. Pure.

Guesses go into a target file for somebody to read; nothing is decided on them unseen. A target
without a direction is one of a time, by name or unit, or it is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from roofsmith.domain.command import TIME_UNITS, Direction, direction_of
from roofsmith.repository.column_names import (
    Meaning,
    bracketed,
    distance,
    is_check,
    is_count,
    is_error,
    is_of_the_run,
    is_result,
    is_rival,
    is_spread,
    meaning_of,
    rivalry,
    says_whose,
)
from roofsmith.repository.expressions import (
    ExpressionError,
    Row,
    as_number,
    condition,
    formula,
    names,
)

_GOOD: Final = frozenset(("pass", "passed", "ok", "true", "yes", "correct"))
_SMALL: Final = 1e-2
"""Below it in every row, an error is probably one of rounding."""
_PATH: Final = re.compile(
    r"(?:^|_)(?:kernel|dispatch|launch|tile|variant|path|config)(?:_?(?:name|id|kind|used))?$",
    re.IGNORECASE,
)
_SECONDS: Final = frozenset(("mean", "stddev", "median", "min", "max"))
"""Columns of hyperfine and pytest-benchmark, both in seconds."""


@dataclass(frozen=True, slots=True)
class MetricGuess:
    column: str
    direction: Direction
    unit: str
    """Empty where the name doesn't say."""
    others: tuple[str, ...] = ()
    """Columns that it might be as well, such as the time of another phase."""


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


def guess_metric(
    rows: Sequence[Row], wanted: Direction | None = None, own: Collection[str] = ()
) -> MetricGuess | None:
    """A time, else a rate: the user's own, never a rival's where there is another.

    Of several the last one, which is what newer code is compared by. An extreme or a time
    beside the point, such as one of the CPU, is taken only where there is nothing else, a
    dispersion never.

    Args:
        rows: of one run.
        wanted: which way it has to be better; None: either will do.
        own: words of what the repository and its kernels are called.
    """
    columns = [name for name in rows[0] if _all_positive(rows, name)]
    found = {
        name: meaning
        for name in columns
        if (meaning := _meaning(name, rows)) and wanted in (None, meaning.direction)
    }
    if not found:
        return None

    def rank(name: str) -> tuple[bool, int, bool, int]:
        far = distance(name)
        is_rate = found[name].direction == "higher"
        return is_spread(name), rivalry(name, own), is_rate, far

    name = min(reversed(found), key=rank)
    if is_spread(name):
        return None
    way = found[name].direction
    others = tuple(one for one in found if one != name and found[one].direction == way)
    return MetricGuess(name, way, found[name].unit, others)


def _meaning(name: str, rows: Sequence[Row]) -> Meaning | None:
    stem, _, word = name.rpartition(".")
    if (
        word in ("mean", "median")
        and {one.removeprefix(f"{stem}.") for one in rows[0] if one.startswith(stem)} >= _SECONDS
    ):
        return Meaning("lower", "s")
    found = meaning_of(bracketed(name))
    if found is not None and not found.unit and name in ("real_time", "cpu_time"):
        units = {row.get("time_unit", "") for row in rows}  # of Google Benchmark
        unit = units.pop() if len(units) == 1 else ""
        return Meaning(found.direction, unit if unit in TIME_UNITS else "")
    return found


@dataclass(frozen=True, slots=True)
class OwnRows:
    """A column that says whose result a row is: the user's, or a rival's."""

    column: str
    values: tuple[str, ...]
    """All that it holds, in order."""
    own: str | None
    """The user's; None where nobody can tell."""

    @property
    def condition(self) -> str:
        """That a row is the user's; of the last one where nobody can tell."""
        value = self.own or self.values[-1]
        plain = re.fullmatch(r"[A-Za-z_]\w*", value)
        return f"{bracketed(self.column)} == {value if plain else repr(value)}"


def guess_own_rows(rows: Sequence[Row], own: Collection[str]) -> OwnRows | None:
    """Where each implementation has rows of its own, for the same sizes; None where none has."""
    for name in rows[0]:
        values = tuple(dict.fromkeys(row[name] for row in rows))
        if len(values) < 2 or any(as_number(value) is not None for value in values):
            continue
        is_named = says_whose(name)
        rank = {value: rivalry(value, own) for value in values}
        rivals = [one for one in values if rank[one] == 2 and (is_named or is_rival(one))]
        if not (rivals or is_named) or len(rivals) == len(values) or not _is_crossed(rows, name):
            continue
        ours = [one for one in values if rank[one] == 0] or [
            one for one in values if one not in rivals and rivals
        ]
        return OwnRows(name, values, ours[0] if len(ours) == 1 else None)
    return None


def _is_crossed(rows: Sequence[Row], name: str) -> bool:
    """Whether the same sizes and names come again with every value of a column."""
    others = [one for one in rows[0] if one != name and not is_result(one)]
    others = [one for one in others if not is_of_the_run(one) and _is_key(one, rows)]
    sets: dict[str, set[tuple[str, ...]]] = {}
    for row in rows:
        sets.setdefault(row[name], set()).add(tuple(row[one] for one in others))
    largest = max(sets.values(), key=len)
    return all(found <= largest for found in sets.values()) and len(rows) > len(largest)


def guess_gate(rows: Sequence[Row]) -> str | None:
    """`err == 0`, or `Check == PASS`, where a column is so in every row."""
    for name in rows[0]:
        if is_error(name) and all(as_number(row[name]) == 0 for row in rows):
            return f"{bracketed(name)} == 0"
    for name in rows[0]:
        values = {row[name] for row in rows}
        if is_check(name) and len(values) == 1 and values <= _good_among(values):
            return f"{bracketed(name)} == {values.pop()}"
    return None


def nearly_gate(rows: Sequence[Row]) -> tuple[str, float] | None:
    """A column called like an error that is small in every row, but not 0; and its largest."""
    for name in rows[0]:
        found = [number for row in rows if (number := as_number(row[name])) is not None]
        largest = max(map(abs, found), default=0.0)
        if is_error(name) and len(found) == len(rows) and 0 < largest <= _SMALL:
            return name, largest
    return None


def result_columns(rows: Sequence[Row], metric: str, gate: str | None) -> tuple[str, ...]:
    """Columns that gate and metric are made of, less the sizes that a formula counts work by.

    In `6*M*N*K/(fwd_ms + bwd_ms)` the two times are results, and M, N and K tell rows apart.

    Raises:
        ExpressionError: one of them can't be read.
    """
    results = {found.name for found in names(condition(gate))} if gate else set[str]()
    try:
        found = [name.name for name in names(formula(metric))]
    except ExpressionError:  # a column with blanks in its name
        found = [metric]
    single = len(found) == 1 and bracketed(found[0]).strip("[]`") == metric.strip("[]`")
    results |= {name for name in found if single or not _all_whole(rows, name)}
    return tuple(name for name in rows[0] if name in results)


def guess_keys(
    first: Sequence[Row], second: Sequence[Row], taken: Sequence[str]
) -> tuple[str, ...]:
    """Columns by which the rows of two runs pair, whatever their order; none for a single row.

    Names and whole numbers first. Other columns, and at last counts of repetitions, are taken only
    as far as those don't tell the rows apart.

    Args:
        first: rows of one run.
        second: of another run.
        taken: columns that gate and metric are made of.
    """
    keys = tuple[str, ...]()
    if not first or len(first) != len(second):
        return keys
    for tier in _tiers(first, taken):
        if keys and tells_apart(first, keys):
            break
        for name in tier:
            if _told(first, (*keys, name)) == _told(second, (*keys, name)):
                keys = (*keys, name)
    return keys


def guess_path(first: Sequence[Row], second: Sequence[Row]) -> str | None:
    """The column that says which kernel, launch or tile a row went to: words, of which several rows
    share one, the same in both runs; None where none or several say so, or rows are told apart by
    it alone."""
    if len(first) != len(second) or not first:
        return None
    found = [
        name
        for name in first[0]
        if _PATH.search(name)
        and sorted(row[name] for row in first) == sorted(row.get(name, "") for row in second)
        and 1 < len({row[name] for row in first}) < len(first)
        and all(as_number(row[name]) is None and row[name] for row in first)
    ]
    others = [name for name in first[0] if name not in found and not is_result(name)]
    return found[0] if len(found) == 1 and tells_apart(first, others) else None


def _tiers(rows: Sequence[Row], taken: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Columns that may be keys: sound ones, doubtful ones, counts."""
    names = [n for n in rows[0] if n not in taken and not is_result(n) and all(r[n] for r in rows)]
    counts = [name for name in names if is_count(name)]
    sound = [n for n in names if n not in counts and not is_of_the_run(n) and _is_key(n, rows)]
    yield tuple(sound)
    if len(rows) > 1:
        yield tuple(name for name in names if name not in sound and name not in counts)
        yield tuple(counts)


def _is_key(name: str, rows: Sequence[Row]) -> bool:
    """Whether it holds whole numbers, or words that aren't all the same."""
    values = {row[name] for row in rows}
    numbers = [as_number(value) for value in values]
    if all(number is not None for number in numbers):
        return all(number is not None and number.is_integer() for number in numbers)
    return len(values) > 1


def _told(rows: Sequence[Row], columns: Sequence[str]) -> Counter[tuple[str | None, ...]]:
    return Counter(tuple(row.get(name) for name in columns) for row in rows)


def tells_apart(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Whether no two rows say the same in these columns."""
    found = {tuple(row.get(name) for name in columns) for row in rows}
    return bool(columns) and len(found) == len(rows)


def _all_positive(rows: Sequence[Row], name: str) -> bool:
    return all((as_number(row[name]) or 0.0) > 0 for row in rows)


def _all_whole(rows: Sequence[Row], name: str) -> bool:
    numbers = [as_number(row.get(name, "")) or 0.0 for row in rows]
    return all(number > 0 and number.is_integer() for number in numbers)


def _good_among(values: set[str]) -> set[str]:
    return {value for value in values if value.lower() in _GOOD}
