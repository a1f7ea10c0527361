"""What a benchmark's CSV says: a workload per row, whether it is right, and its metrics. Pure."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from roofsmith.domain.command import BYTE_RATES, FLOP_RATES, TIME_UNITS, CommandSpec
from roofsmith.domain.workload import Workload
from roofsmith.repository.column_names import bracketed
from roofsmith.repository.dialects import decimal_commas
from roofsmith.repository.expressions import (
    ExpressionError,
    Row,
    RowExpression,
    as_number,
    condition,
    evaluate,
    formula,
    holds,
    names,
    number_in,
    tests,
)
from roofsmith.wording import some_of

_NAME: Final = re.compile(r"(?P<stem>.*?)[ _.]*[ _(\[](?P<unit>[A-Za-zµ%]+(?:/[A-Za-z]+)?)[)\]]?")
_BEGINS: Final = re.compile(r"(?P<unit>[munµ]?s)_(?P<stem>.*)")
_PREFIXES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PER_SECOND: Final = re.compile(r"([kKMGT]?)([a-z]+)/s")
_KINDS: Final = (TIME_UNITS, FLOP_RATES, BYTE_RATES)
_GOOGLE: Final = ("real_time", "cpu_time")
"""Of Google Benchmark, whose unit is a column of its own."""
_GOOGLES_UNIT: Final = "time_unit"


def other_unit(column: str, row: Mapping[str, str], taken: Collection[str]) -> str | None:
    """The one column of a row that is this one in another unit, whatever unit; None: none is."""
    stem, unit = _split(column)
    if not unit:
        return None
    found = [name for name in row if name not in taken and _is_like(name, stem)]
    return found[0] if len(found) == 1 else None


def converted(text: str, other: str, column: str) -> str | None:
    """A cell of one column as the other would have it; None where units are of two kinds."""
    scales = _scales(_split(other)[1], _split(column)[1])
    if scales is None:
        return None
    number = as_number(text)
    return text if number is None else f"{number * scales[0] / scales[1]:.12g}"


def in_declared_unit(row: dict[str, str], unit: str) -> None:
    """Bring what Google Benchmark says in a unit of its own into the one that was declared."""
    said = row.get(_GOOGLES_UNIT, unit)
    if said == unit or (scales := _scales(said, unit)) is None:
        return
    for name in _GOOGLE:
        if (number := as_number(row.get(name, ""))) is not None:
            row[name] = f"{number * scales[0] / scales[1]:.12g}"


def _is_like(name: str, stem: str) -> bool:
    other, unit = _split(name)
    return bool(unit) and other == stem


def _split(column: str) -> tuple[str, str]:
    """A name without its unit, and that; no unit where its last word is none."""
    for form in (_NAME, _BEGINS):
        found = form.fullmatch(column.strip())
        if found is not None and _is_unit(found["unit"]):
            return found["stem"].lower(), found["unit"]
    return column, ""


def _is_unit(word: str) -> bool:
    return any(word in kind for kind in _KINDS) or _PER_SECOND.fullmatch(word) is not None


def _scales(one: str, other: str) -> tuple[float, float] | None:
    """Of two units of one kind, in its basic unit."""
    for kind in _KINDS:
        if one in kind and other in kind:
            return kind[one], kind[other]
    rates = _PER_SECOND.fullmatch(one), _PER_SECOND.fullmatch(other)
    if rates[0] is None or rates[1] is None or rates[0][2] != rates[1][2]:
        return None
    return _PREFIXES[rates[0][1]], _PREFIXES[rates[1][1]]


MAX_SIZE: Final = 2**63 - 1
_WORDS: Final = re.compile(r"\w+(?: +\w+)+")
_SUMMARIES: Final = frozenset(
    ("average", "avg", "mean", "median", "total", "sum", "min", "max", "all", "overall")
)
_GEOMEANS: Final = frozenset(("geomean", "gmean", "geometric mean"))
ONE_ROW: Final = {"row": "only"}
"""How the workload is named where nothing has to tell rows apart."""
_SHOWN: Final = 3
"""Rows that a message names."""


class BadRowsError(ValueError):
    """A CSV that can't be used; the message is for people."""


@dataclass(frozen=True, slots=True)
class Reading:
    workload: Workload
    fault: str | None
    """Why it fails: the gate, or a metric that is no positive number. None: it passes."""
    cost: float
    """What is compared, lower is better: seconds where the metric gives a time, else the metric
    itself, or its inverse where higher is better. Infinite where the row fails: its score is 0."""
    metrics: Mapping[str, float]
    """By name: what is decided on, and all that is shown; empty where the gate isn't met."""
    row: Row
    """As it stands in the file."""

    @property
    def label(self) -> str:
        return self.workload.label


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the CSVs of one target's benchmark."""

    spec: CommandSpec
    gate: RowExpression | None
    metrics: Mapping[str, RowExpression]
    deciding: str
    """Which of the metrics decides."""
    only: RowExpression | None = None
    """Which rows count; None: all."""

    @classmethod
    def of(cls, spec: CommandSpec) -> Reader:
        """Read the target's expressions.

        Raises:
            ExpressionError: one of them can't be read; says which.
        """
        metrics = {name: _parsed(f"metrics.{name}", text) for name, text in spec.metrics.items()}
        deciding = spec.metric
        if deciding not in metrics:
            metrics[deciding] = _parsed("metric", spec.metric)
        for name, tree in metrics.items():
            _require_order(name, tree, metrics)
        if not _reads_a_column(deciding, metrics):
            raise ExpressionError(
                f"metric: {spec.metric!r} names no column, so it would be the same in every run"
            )
        gate = None if spec.gate is None else _condition("gate", spec.gate)
        only = None if spec.only is None else _condition("only", spec.only)
        return cls(spec, gate, metrics, deciding, only)

    @property
    def columns(self) -> tuple[str, ...]:
        """That the metrics are made of, each once."""
        found = (
            read.name
            for name, tree in self.metrics.items()
            for read in names(tree)
            if read.name == name or read.name not in self.metrics
        )
        return tuple(dict.fromkeys(found))

    @property
    def _conditions(self) -> dict[str, RowExpression]:
        found = {"only": self.only, "gate": self.gate}
        return {key: one for key, one in found.items() if one is not None}

    def read(self, text: str) -> tuple[Reading, ...]:
        """Every row of a CSV.

        Raises:
            BadRowsError: it isn't one, lacks a column or a number, or has rows that its keys don't
                tell apart.
        """
        said = {one.name for condition in self._conditions.values() for one in names(condition)}
        rows = _rows(text, {*self.spec.keys, *self.columns, *said})
        self._require_columns(rows[0])
        if self.only is not None:
            rows = self._counting(self.only, rows)
        for row in rows:
            in_declared_unit(row, self.spec.unit)
        if not self.spec.keys and len(rows) > 1:
            raise BadRowsError(
                f"it has {len(rows)} rows, and `rows` names no column that tells them apart, of"
                f" {', '.join(rows[0])}"
            )
        sizes = [key for key in self.spec.keys if all(_is_size(key, row[key]) for row in rows)]
        readings = tuple(self._reading(line, row, sizes) for line, row in enumerate(rows, start=2))
        if twice := _twice([reading.label for reading in readings]):
            columns = ", ".join(name for name in rows[0] if name not in self.spec.keys)
            raise BadRowsError(
                f"two rows are {twice}: {', '.join(self.spec.keys)} don't tell the rows apart;"
                f" name more columns under `rows`, of {columns}"
            )
        return readings

    def _counting(
        self, only: RowExpression, rows: Sequence[dict[str, str]]
    ) -> list[dict[str, str]]:
        try:
            found = [row for row in rows if holds(only, row)]
        except ExpressionError as error:
            raise BadRowsError(f"only: {error}") from error
        if not found:
            raise BadRowsError(f"none of its {len(rows)} rows meets `only: {self.spec.only}`")
        return found

    def _reading(self, line: int, row: Row, sizes: Sequence[str]) -> Reading:
        try:
            passed = self.gate is None or holds(self.gate, row)
            metrics = {name: self._metric(name, row) for name in self.metrics if passed}
            workload = _workload(row, self.spec, sizes)
            cost = _cost(metrics[self.deciding], self.spec, workload) if passed else math.inf
        except ExpressionError as error:
            raise BadRowsError(f"line {line}: {error}") from error
        if not passed:
            return Reading(workload, self._gate_fault(row), math.inf, metrics, row)
        fault = None if cost < math.inf else f"{self.deciding} is {metrics[self.deciding]:g}"
        if fault is None and (negative := self._negative(self.deciding, row)):
            fault, cost = f"{negative} is {row[negative]}", math.inf
        return Reading(workload, fault, cost, metrics, row)

    def _negative(self, metric: str, row: Row) -> str | None:
        """A column below zero that a metric is made of: beside others it may not show."""
        for found in names(self.metrics[metric]):
            inner = found.name
            if inner in self.metrics and inner != metric:
                if (below := self._negative(inner, row)) is not None:
                    return below
            elif number_in(row, inner) < 0:
                return inner
        return None

    def _gate_fault(self, row: Row) -> str:
        assert self.gate is not None, "without a gate every row passes"
        found = dict.fromkeys(name.name for name in names(self.gate) if name.name in row)
        shown = ", ".join(f"{name} is {row[name] or 'empty'}" for name in found)
        return f"{shown} (the gate: {self.spec.gate})"

    def _metric(self, name: str, row: Row) -> float:
        """A metric's value; other metrics come before columns, its own name is the column."""

        def value(inner: str) -> float:
            if inner in self.metrics and inner != name:
                return self._metric(inner, row)
            return number_in(row, inner)

        return evaluate(self.metrics[name], value)

    def _require_columns(self, row: Row) -> None:
        for key in self.spec.keys:
            _require(key, row, "rows and classes")
        if self.spec.path is not None:
            _require(self.spec.path, row, "path")
        for name, tree in self.metrics.items():
            for found in names(tree):
                if found.name == name or found.name not in self.metrics:
                    _require(found.name, row, f"the metric {name!r}")
        for key, condition_ in self._conditions.items():
            for test in tests(condition_):
                # A name that is no column may be a text; where all of them are, one is a mistake.
                in_test = list(names(test))
                if in_test and not any(found.name in row for found in in_test):
                    _require(in_test[0].name, row, "the gate" if key == "gate" else "`only`")


def failing(readings: Sequence[Reading]) -> str | None:
    """The rows that fail, in a sentence; None if all pass."""
    wrong = [reading for reading in readings if reading.fault is not None]
    if not wrong:
        return None
    shown = _some([f"{reading.label}: {reading.fault}" for reading in wrong])
    return f"{len(wrong)} of {len(readings)} rows fail: {shown}"


def changed_rows(expected: Sequence[str], readings: Sequence[Reading]) -> str | None:
    """How the rows differ from the baseline's, in a sentence; None if they are the same."""
    found = dict.fromkeys(reading.label for reading in readings)
    known = frozenset(expected)
    missing = [label for label in expected if label not in found]
    new = [label for label in found if label not in known]
    if not missing and not new:
        return None
    parts = [f"{len(found)} rows instead of {len(expected)}"] * (len(found) != len(expected))
    parts += [f"{_some(missing)} missing"] * bool(missing) + [f"{_some(new)} new"] * bool(new)
    return "the benchmark's rows are not the baseline's: " + ", ".join(parts)


def changed_keys(expected: Sequence[Workload], readings: Sequence[Reading]) -> tuple[str, ...]:
    """Columns of `rows` that hold other values than the baseline's, whatever the order."""
    found = [reading.workload for reading in readings]
    keys = dict.fromkeys(key for one in (*expected, *found) for key in (*one.dims, *one.tags))
    return tuple(key for key in keys if _values(key, expected) != _values(key, found))


def summary_within(rows: Sequence[Row], keys: Iterable[str]) -> str | None:
    """A row that sums up the others, in a sentence; None if there is none.

    It is called by a word where all others have numbers, is a geometric mean, or is one of those
    that Google Benchmark makes of repetitions.
    """
    for key in keys:
        words = [row for row in rows if as_number(row[key]) is None]
        known = _GEOMEANS | (_SUMMARIES if len(words) == 1 else set())
        sure = [row for row in words if row[key].lower().strip(" :") in known]
        if sure and len(rows) > 1:
            return (
                f"{','.join(sure[0].values())!r} sums up other rows, and is none: let the benchmark"
                " leave it out"
            )
        values = {row[key] for row in rows}
        for base in (value.removesuffix("_stddev") for value in values):
            if {f"{base}_stddev", f"{base}_mean", f"{base}_median"} <= values:
                return (
                    f"'{base}_stddev' and others sum up repetitions, and are no rows: let the"
                    " benchmark run without repetitions, which are made here anyway"
                )
    return None


def size_formula(text: str, workload: Workload) -> float:
    """A formula such as `2*M*N*K` for one workload.

    Raises:
        ExpressionError: it can't be read, or names something that isn't a size of the workload.
    """

    def value(name: str) -> float:
        if name in workload.dims:
            return float(workload.dims[name])
        tag = as_number(workload.tags.get(name, ""))
        if tag is not None:
            return tag
        raise ExpressionError(f"{name!r} is no size of {workload.label}")

    return evaluate(formula(text), value)


def mean_kernel_time(text: str, spec: CommandSpec) -> tuple[float, tuple[str, ...]]:
    """Time of the kernels that count in a profiler's CSV: seconds, and which kernels.

    Where the target says how many steps a run makes, it is the time of all launches of a step; else
    the mean over launches.

    Raises:
        BadRowsError: it isn't one, lacks a column, or no kernel counts.
    """
    profile = spec.profile
    assert profile is not None, "only asked where there is a profiler"
    total, launches, found = 0.0, 0.0, dict[str, None]()
    time, calls = _parsed("profile.time", profile.time), _parsed("profile.calls", profile.calls)
    rows = _rows(text, {profile.name, *(n.name for tree in (time, calls) for n in names(tree))})
    _require(profile.name, rows[0], "profile.name")
    for line, row in enumerate(rows, start=2):
        name = row[profile.name]
        if profile.kernel and not re.search(profile.kernel, name):
            continue
        try:
            weight = evaluate(calls, partial(number_in, row))
            total += weight * evaluate(time, partial(number_in, row))
        except ExpressionError as error:
            raise BadRowsError(f"line {line}: {error}") from error
        launches += weight
        found[name] = None
    if not launches or not total > 0 or not math.isfinite(total):
        which = f" whose name matches {profile.kernel!r}" if profile.kernel else ""
        raise BadRowsError(f"no kernel{which} with a time in the profiler's CSV")
    return total / (profile.steps or launches) * TIME_UNITS[profile.unit], tuple(found)


def _condition(key: str, text: str) -> RowExpression:
    try:
        return condition(text)
    except ExpressionError as error:
        raise ExpressionError(f"{key}: {error}") from error


def _parsed(key: str, text: str) -> RowExpression:
    """A formula; a column's name with blanks needs no brackets where it stands alone."""
    try:
        return formula(bracketed(text) if _WORDS.fullmatch(text) else text)
    except ExpressionError as error:
        raise ExpressionError(f"{key}: {error}") from error


def _require_order(name: str, tree: RowExpression, metrics: Mapping[str, RowExpression]) -> None:
    """Refuse metrics that need themselves."""
    todo = [found.name for found in names(tree) if found.name != name]
    seen: set[str] = set()
    while todo:
        inner = todo.pop()
        if inner == name:
            raise ExpressionError(f"metrics.{name}: it needs itself")
        if inner in metrics and inner not in seen:
            seen.add(inner)
            todo += [found.name for found in names(metrics[inner]) if found.name != inner]


def _reads_a_column(name: str, metrics: Mapping[str, RowExpression]) -> bool:
    """Whether a metric is made of anything that a benchmark wrote."""
    return any(
        found.name == name or found.name not in metrics or _reads_a_column(found.name, metrics)
        for found in names(metrics[name])
    )


def _rows(text: str, needed: Collection[str]) -> list[dict[str, str]]:
    text = text.lstrip("\ufeff")
    if not text.strip():
        raise BadRowsError("it is empty")
    try:
        parsed = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise BadRowsError(f"it is no CSV: {error}") from error
    header = [name.strip() for name in parsed[0]]
    if double := _twice([name for name in header if name in needed]):
        raise BadRowsError(f"column {double!r} is there twice")
    if len(parsed) == 1:
        raise BadRowsError(f"it has no rows, only a header: {', '.join(header)}")
    rows = []
    for number, row in enumerate(parsed[1:], start=2):
        if len(row) != len(header):
            why = decimal_commas(header, row)
            said = f"; {why}" if why else ""
            raise BadRowsError(
                f"line {number} has {len(row)} fields; the header has {len(header)}{said}"
            )
        rows.append(dict(zip(header, (field.strip() for field in row), strict=True)))
    for name in needed:
        if name not in header and (other := other_unit(name, rows[0], needed)) is not None:
            _add_in_its_unit(name, other, rows)
    return rows


def _add_in_its_unit(name: str, other: str, rows: Sequence[dict[str, str]]) -> None:
    """A column that stands there in another unit: benchmarks scale it by the size of its values."""
    for row in rows:
        if (cell := converted(row[other], other, name)) is None:
            raise BadRowsError(
                f"column {name!r} is {other!r} now, in a unit that can't be converted; let the"
                " benchmark print one unit, whatever the size"
            )
        row[name] = cell


def _require(name: str, row: Row, key: str) -> None:
    if name in row:
        return
    close = difflib.get_close_matches(name, list(row), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise BadRowsError(
        f"there is no column {name!r}, which {key} needs ({hint}columns: {', '.join(row)})"
    )


def _cost(value: float, spec: CommandSpec, workload: Workload) -> float:
    if not value > 0 or not math.isfinite(value):
        return math.inf
    if spec.rate is not None:
        work, scale = spec.rate
        return size_formula(work, workload) / (value * scale)
    return 1 / value if spec.direction == "higher" else value * (spec.time_scale or 1.0)


def _workload(row: Row, spec: CommandSpec, sizes: Sequence[str]) -> Workload:
    """Columns that hold sizes in all rows are dimensions; what else tells rows apart is a tag."""
    tags = {key: row[key] for key in spec.keys if key not in sizes}
    for key, value in tags.items():
        if not value:
            raise ExpressionError(f"column {key!r} is empty, and tells rows apart")
    columns = (*spec.classes, *((spec.path,) if spec.path is not None else ()))
    classes = [f"{key}={row[key]}" for key in columns]
    dims = {key: int(row[key].removesuffix(".0")) for key in sizes}
    tags = tags if spec.keys else dict(ONE_ROW)
    return Workload(dims=dims, tags=tags, config_class=", ".join(classes) or None)


def _is_size(key: str, text: str) -> bool:
    text = text.removesuffix(".0")  # as pandas has sizes
    whole = text.isascii() and text.isdigit()
    short = len(text) <= len(str(MAX_SIZE))  # int() refuses more than 4300 digits
    return key.isidentifier() and whole and short and 0 < int(text) <= MAX_SIZE


def _values(key: str, workloads: Sequence[Workload]) -> Counter[str]:
    return Counter(str(one.dims.get(key, one.tags.get(key))) for one in workloads)


def _some(labels: Sequence[str]) -> str:
    return some_of(labels, _SHOWN, between="; ")


def _twice(values: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
