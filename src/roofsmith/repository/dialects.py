"""How what a benchmark printed may be a table: fields between marks or blanks, or records. Pure.

Commas, semicolons, tabs, `|` (Markdown and boxes too) and blanks; JSON, a document or a line per
row; `N=64 us=1.5` per row; `name: value`, `name=value` and `METRIC name=value` lines; one number
alone. What stands in header and cells is made plain by `cells.py`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofsmith.repository.cells import NUMBER, TOKEN, UNIT, is_naming, plain_tables
from roofsmith.repository.expressions import DECIMAL_COMMAS, as_number
from roofsmith.repository.line_records import (
    MAX_LINE,
    perf_records,
    records_of,
    spaced_records,
    stacked_records,
    tree_records,
)

LONE: Final = "value"
"""What the column of one number without a name is called."""

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_ALL_IN: Final = re.compile(r"Times are in \w+ \((\w+)\)\.")
_THREADS: Final = re.compile(r"\d+ threads: -+$")
_MARKS: Final = (",", ";", "\t", "|")
_RULE: Final = frozenset(" \t|+:=_-")
_UPRIGHT: Final = "│┃║╎╏┆┇┊┋"
_BOXES: Final = dict.fromkeys(range(9472, 9600), "-") | {ord(mark): "|" for mark in _UPRIGHT}
_LONE: Final = re.compile(rf"{NUMBER}\s*(?:{UNIT})?")
_PAIR: Final = re.compile(rf"([A-Za-z_][\w./%-]*)=({NUMBER}\s?{UNIT}(?=[\s,;]|$)|[^\s,;=]+)")
_PAIRS: Final = re.compile(rf"(?:[\w\[\]-]+:?\s+)?{_PAIR.pattern}(?:[\s,;]+{_PAIR.pattern})+[,;]?")
_MAX_STRAY: Final = 1000
"""Lines that begin like JSON and are none, after which nobody looks for more."""


@dataclass(frozen=True, slots=True)
class Printed:
    mark: str
    """Between fields; a blank for any number of them."""
    lines: Sequence[str]
    split: Sequence[list[str]]
    is_record: bool = False
    """Whether it was made of records: header and rows, and nothing else."""
    is_csv: bool = False
    """Whether the lines are a CSV's, and say what the fields do."""

    def csv(self, begin: int, end: int) -> str:
        if self.is_csv:
            return "\n".join(self.lines[begin:end])
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(self.split[begin:end])
        return out.getvalue()[:-1]

    def is_header(self, at: int) -> bool:
        """Whether a line names the columns of the next ones, by itself: words, each once."""
        if at + 1 >= len(self.split) or len(self.split[at + 1]) != len(self.split[at]):
            return False
        fields, row = self.split[at], self.split[at + 1]
        has_words = self.is_record or (len(fields) > 1 and is_naming(fields))
        return has_words and any(as_number(field) is not None for field in row)


def dialects(text: str) -> Iterator[Printed]:
    """What was printed, in each of the ways in which it may be read, the strictest first."""
    lines = _with_unit_of_all(plain_lines(text))
    ruled = _unruled(lines)
    yield from _tables_of(stacked_records(lines))
    yield from _tables_of(tree_records(lines))
    for mark in _MARKS:
        among = ruled if mark == "|" else lines
        if any(mark in line for line in among) or mark == ",":
            yield _by_mark(among, mark)
    yield from _tables_of(_of_json(text))
    yield from _tables_of(_pairs_per_row(lines))
    yield from _tables_of(perf_records(lines))
    yield from _tables_of(records_of(lines))
    yield Printed(" ", *plain_tables(ruled, [re.split(r"\s{2,}", line.strip()) for line in ruled]))
    words = [[found[0].strip() for found in TOKEN.finditer(line[:MAX_LINE])] for line in ruled]
    yield Printed(" ", *plain_tables(ruled, words))
    short = [line.strip() for line in lines if len(line) <= MAX_LINE]
    numbers = [line for line in short if _LONE.fullmatch(line)]
    yield from _tables_of(spaced_records(lines))
    if len(numbers) == 1:
        yield from _tables_of([{LONE: numbers[0]}])


def _with_unit_of_all(lines: list[str]) -> list[str]:
    """Lines of `torch.utils.benchmark.Compare` as of other tables: what it says once, below them,
    stands in every cell, and the column without a name has one."""
    unit = next((found[1] for line in lines if (found := _ALL_IN.match(line))), "")
    if not unit or sum(map(bool, map(_THREADS.match, lines))) != 1:
        return lines
    kept = []
    for line in lines:
        first, *cells = line.split("|")
        if cells:
            told = [f"{one} {unit}" if as_number(one.strip()) is not None else one for one in cells]
            kept.append("|".join([first if first.strip() else "case", *told]))
        elif not _THREADS.match(line):
            kept.append(line)
    return kept


def plain_lines(text: str) -> list[str]:
    """Lines as a terminal shows them: without colours, and without what was overwritten.

    What might be a row is kept, though something overwrote it.
    """
    lines = []
    for line in _ESCAPE.sub("", text.lstrip("\ufeff")).replace("\r\n", "\n").split("\n"):
        *before, last = line.split("\r")
        lines += [part for part in before if any(mark in part for mark in _MARKS)]
        lines += last.splitlines() or [""]
    return lines if lines[-1] else lines[:-1]


def fields_of(line: str, mark: str = ",") -> list[str]:
    """What stands between the marks of one line; those in quotes are no separators."""
    try:
        return [field.strip() for row in csv.reader([line], delimiter=mark) for field in row]
    except csv.Error:  # a field that is far too long
        return [line]


def decimal_commas(header: Sequence[str], row: Sequence[str]) -> str | None:
    """What is wrong where a row has more fields than its header, since numbers hold commas."""
    is_wider = 1 < len(header) < len(row) <= 2 * len(header)
    if is_wider and is_naming(header) and all(re.fullmatch(r"-?\d+", field) for field in row):
        fields = f"{len(row)} fields, and the header {len(header)}"
        return f"{','.join(row)!r} has {fields}: {DECIMAL_COMMAS}"
    return None


def matched(pattern: str, text: str) -> str:
    """A CSV with a row for each line that a pattern is found in; its named groups are columns.

    Without any, the column is `value`, of the first group, or of all that matches. Empty where no
    line matches.
    """
    found = [hit for line in plain_lines(text) if (hit := re.search(pattern, line[:MAX_LINE]))]
    records = [hit.groupdict("") or {LONE: hit[1] if hit.re.groups else hit[0]} for hit in found]
    return next((table.csv(0, len(table.lines)) for table in _tables_of(records)), "")


def _by_mark(lines: Sequence[str], mark: str) -> Printed:
    if mark == "|":
        split = [[field.strip() for field in _inner(line).split("|")] for line in lines]
        return Printed(mark, *plain_tables(lines, split))
    split = [fields_of(line, mark) for line in lines]
    kept, plain = plain_tables(lines, split)
    return Printed(mark, kept, plain, is_csv=mark == "," and plain == split)


def _unruled(lines: Sequence[str]) -> list[str]:
    """Without what is drawn between rows; around them, boxes are as Markdown has them."""
    return [line for line in (line.translate(_BOXES) for line in lines) if not _is_rule(line)]


def _is_rule(line: str) -> bool:
    """Whether it is drawn between the rows, and says nothing."""
    return _RULE.issuperset(line) and any(mark * 2 in line for mark in "-=_")


def _inner(line: str) -> str:
    return line.strip().removeprefix("|").removesuffix("|")


def _tables_of(records: Sequence[Mapping[str, str]]) -> Iterator[Printed]:
    """Records with the same names are rows of a table."""
    tables = dict[frozenset[str], list[Mapping[str, str]]]()
    for record in records:
        tables.setdefault(frozenset(record), []).append(record)
    for rows in tables.values():
        names = list(rows[0])
        split = [names, *([row[name] for name in names] for row in rows)]
        if names:
            lines, plain = plain_tables([",".join(fields) for fields in split], split)
            yield Printed(",", lines, plain, is_record=True)


def _of_json(text: str) -> list[dict[str, str]]:
    """Objects, each a record; of a document that holds lists of objects, those."""
    found = list[dict[str, str]]()
    for document in _documents(text):
        inside = document.values() if isinstance(document, dict) else (document,)
        lists = [rows for rows in inside if isinstance(rows, list)]
        records = [row for rows in lists for row in rows if isinstance(row, dict)]
        if not records and isinstance(document, dict):
            records = [document]
        found += [dict(_flat(record)) for record in records]
    return found


def _documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
    end = stray = 0
    for begin in re.finditer(r"^[ \t]*(?=[{\[])", text, re.MULTILINE):
        if begin.end() < end or stray > _MAX_STRAY:
            continue
        try:
            document, end = decoder.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            stray += 1
        else:
            yield document


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """`{"stats": {"mean": 1}}` has the column `stats.mean`; lists have none."""
    for name, value in record.items():
        match value:
            case dict() if prefix.count(".") < 3:
                yield from _flat(value, f"{prefix}{name}.")
            case bool():
                yield prefix + name, str(value).lower()
            case str():
                yield prefix + name, value.strip()
            case None:
                yield prefix + name, ""


def _pairs_per_row(lines: Sequence[str]) -> list[dict[str, str]]:
    short = (line.strip() for line in lines if len(line) <= MAX_LINE and "=" in line)
    return [dict(_PAIR.findall(line)) for line in short if _PAIRS.fullmatch(line)]
