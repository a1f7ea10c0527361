"""A table's header and cells as people print them, made plain: a name and a number each. Pure.

`12.3 us`, `1.2ms/iter`, `12.3 ± 0.4 us`, `102.3 (1.0)`, `9,478.67`; names in two lines or twice,
pandas' index, polars' types. The unit goes into the column's name; where rows differ in it, the
column is in the unit without a prefix.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from roofsmith.domain.command import TIME_UNITS
from roofsmith.repository.column_names import TIME_WORDS, is_result, prefixes_of
from roofsmith.repository.expressions import as_number

NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PER: Final = r"(?:/[A-Za-z]+|\s+per\s+[a-z]+)?"
UNIT: Final = (
    rf"(?:(?:[mnuµμ]?s|[mun]?secs?|seconds?){_PER}|%|[A-Za-z]+/s(?:ec(?:ond)?)?|[kKMGTP]?FLOPS)"
)
_THOUSANDS: Final = r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_SPREAD: Final = rf"\s*(?:±|\+/-|\+-)\s*{NUMBER}"
_BESIDE: Final = rf"\s*\((?:[<>]?{NUMBER}\s*[x%]?|(?:±|\+/-)[^()]*)\)"
CELL: Final = rf"({_THOUSANDS}|{NUMBER})\s*({UNIT})?(?:{_SPREAD}\s*({UNIT})?)?(?:{_BESIDE})?"
"""A number, its unit, and what stands beside it: a spread, or a ratio to the best."""
_CELL: Final = re.compile(CELL)
TOKEN: Final = re.compile(rf"{CELL}(?!\S)|\S+(?: [(\[][^()\[\]]*[)\]])*")
"""A field between single blanks: `12.3 us` is one, and so is `Triton (GB/s)`."""
_QUANTITY: Final = re.compile(rf"{NUMBER}\s*{UNIT}(?:\s|$)")
"""At the beginning of what is a result in words, and no name."""
_COMMENTS: Final = ("#", "//", "%")
_UNITS: Final = frozenset(("unit", "units"))
_VALUES: Final = frozenset(
    (
        "value",
        "score",
        "result",
        "measurement",
        "mean",
        "median",
        "average",
        "avg",
        "min",
        "max",
        "time",
        "error",
        "stddev",
        "std",
    )
)
"""Columns that a column of units is about."""
_MAX_CHARS: Final = 80
_TYPE: Final = re.compile(r"[iuf]\d+|str|bool|cat|enum")
_COMMON_UNIT: Final = re.compile(rf"(.*\S)\s*\((?:time|times) in ({UNIT})\)")
INDEX: Final = "index"
"""What a column without a name is called, which numbers the rows."""


def is_naming(fields: Sequence[str]) -> bool:
    """Whether fields may be the names of columns: words, each once; an index may have none."""
    return _is_words(fields) and len({*fields}) == len(fields)


def end_of_table(split: Sequence[Sequence[str]], header: int) -> int:
    """Where a table ends: at the first line with another number of fields than its header."""
    width = len(split[header])
    after = range(header + 1, len(split))
    return next((at for at in after if len(split[at]) != width), len(split))


def plain_tables(
    lines: Sequence[str], split: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Lines and their fields, with one line per header, one name per column, and plain numbers."""
    kept, fields = list[str](), list[list[str]]()
    todo, levels, width = iter(range(len(split))), 0, 0
    for at in todo:
        header, skipped = _whole_header(lines, split, at)
        if 0 < width - len(header) < levels and lines[at][:1].isspace():
            header = [*fields[-1][: width - len(header)], *header]  # of an index that goes on
        kept.append(lines[at])
        fields.append(header)
        for _ in range(skipped):
            levels, width = len(split[next(todo)]), len(header)
    at = 0
    while at < len(fields):
        end = end_of_table(fields, at)
        if end > at + 1 and _is_words(fields[at]) and any(map(_read, fields[at + 1])):
            _make_plain(fields, at, end)
            at = end
        else:
            at += 1
    return kept, fields


def _whole_header(
    lines: Sequence[str], split: Sequence[Sequence[str]], at: int
) -> tuple[list[str], int]:
    """The names that a header's lines give, and how many lines after this one are part of it."""
    header, skipped = list(split[at]), 0
    if (marked := _behind_mark(lines, split, at)) is not None:
        header, skipped = marked
        return _each_once(header, split[at - 1] if at else ()), skipped
    if not _is_words(header) or at + 1 == len(split):
        return header, 0
    second = split[at + 1]
    if len(second) == len(header) - 2 and _is_spread_apart(header):  # of JMH, `1.2 ± 0.1 ms/op`
        return header[:-2], 0
    if len(second) == len(header) and (named := _with_units(header, second)):
        header, skipped = named, 1
    elif lines[at][:1].isspace():  # pandas' names of columns, beside those of an index
        if _is_words(second) and _is_row(split, at + 2, len(header) + len(second)):
            header, skipped = [*second, *header], 1
        elif (len(header) > 1 or is_result(header[0])) and _is_row(split, at + 1, len(header) + 1):
            header = [INDEX, *header]
    return _each_once(header, split[at - 1] if at else ()), skipped


def _is_spread_apart(header: Sequence[str]) -> bool:
    """Whether the last names are those of a number, its spread and its unit."""
    value, spread, unit = (name.lower() for name in ["", "", "", *header][-3:])
    return value in _VALUES and spread in ("error", "err", "std", "stddev") and unit in _UNITS


def _behind_mark(
    lines: Sequence[str], split: Sequence[Sequence[str]], at: int
) -> tuple[list[str], int] | None:
    """The names behind a comment's mark, as NumPy writes them, and how many such lines follow."""
    first, *others = split[at] or [""]
    mark = next((one for one in _COMMENTS if first.startswith(one)), None)
    if mark is None:
        return None
    bare = first.removeprefix(mark).strip()
    header = [bare, *others] if bare else others
    rows = range(at + 1, min(at + 4, len(split)))
    row = next((n for n in rows if not lines[n].lstrip().startswith(mark)), None)
    if (
        row is None
        or len(header) < 2
        or not _is_words(header)
        or not _is_row(split, row, len(header))
    ):
        return None
    return header, row - at - 1


def _is_row(split: Sequence[Sequence[str]], at: int, width: int) -> bool:
    """Whether a line has so many fields, and numbers among them beside an index."""
    return at < len(split) and len(split[at]) == width and any(map(_read, split[at][1:]))


def _with_units(header: Sequence[str], second: Sequence[str]) -> list[str] | None:
    """A header whose second line says units or types; None: it is none."""
    said = [field.strip("()[]") for field in second]
    if all(_TYPE.fullmatch(field) for field in said):
        return list(header)
    if any(said) and all(not field or re.fullmatch(UNIT, field) for field in said):
        return [_named(name, unit) for name, unit in zip(header, said, strict=True)]
    return None


def _each_once(header: Sequence[str], above: Sequence[str]) -> list[str]:
    """Names that come twice have the name above them before theirs, or else a number behind it."""
    groups = [field for field in above if re.search(r"\w", field)]
    times, seen, found = Counter(header), Counter[str](), list[str]()
    for name in header:
        seen[name] += 1
        if times[name] == 1:
            found.append(name if name or len(found) else INDEX)
        elif len(groups) > 1 and len(groups) in (times[name], times[name] + 1) and name:
            found.append(f"{groups[seen[name] - 1 - times[name]]} {name}")
        else:
            found.append(f"{name} #{seen[name]}")
    return found


def _is_words(fields: Sequence[str]) -> bool:
    if any(_QUANTITY.match(field) for field in fields):
        return False
    named = all(_read(field) is None for field in fields) and all(fields[1:])
    return named and any(fields) and not all("=" in name for name in fields)


def _make_plain(fields: list[list[str]], at: int, end: int) -> None:
    header, rows = fields[at], fields[at + 1 : end]
    if common := _COMMON_UNIT.fullmatch(header[0]):  # of pytest-benchmark
        header[0] = common[1]
        header[1:] = [
            _named(name, common[2]) if is_result(name) and "/" not in name else name
            for name in header[1:]
        ]
    _give_units(header, rows)
    for column, name in enumerate(header):
        cells = [_read(row[column]) for row in rows]
        texts = [row[column] for row in rows]
        if all(as_number(text) is not None for text in texts) or _may_be_decimal_commas(texts):
            continue
        read = [cell for cell in cells if cell is not None]
        if len(read) < len(cells) or (found := _in_one_unit(name, read)) is None:
            continue
        header[column], numbers = found
        for row, number in zip(rows, numbers, strict=True):
            row[column] = number


def _give_units(header: list[str], rows: list[list[str]]) -> None:
    """Cells with the units that a column of their own gives them, row by row."""
    of_units = next((n for n, name in enumerate(header) if name.lower() in _UNITS), None)
    if of_units is None or not all(re.fullmatch(UNIT, row[of_units]) for row in rows):
        return
    for column, name in enumerate(header):
        if name.lower() in _VALUES and all(as_number(row[column]) is not None for row in rows):
            for row in rows:
                row[column] = f"{row[column]} {row[of_units]}"


def _in_one_unit(name: str, cells: Sequence[tuple[str, str]]) -> tuple[str, list[str]] | None:
    """A column's name and numbers; None where its units aren't of one kind."""
    units = {unit for _, unit in cells}
    if len(units) == 1:
        return _named(name, units.pop()), [number for number, _ in cells]
    bases = [{base: scale for scale, base in _bases(unit)} for _, unit in cells]
    common = [base for base in bases[0] if all(base in one for one in bases)]
    if not common:
        return None
    base = common[0]
    scaled = [float(n) * one[base] for (n, _), one in zip(cells, bases, strict=True)]
    return _named(name, base), [f"{number:.12g}" for number in scaled]


def _bases(unit: str) -> Iterator[tuple[float, str]]:
    word = re.split(r"/|\s+per\s+", unit)[0]
    if word in TIME_WORDS:
        yield TIME_UNITS[TIME_WORDS[word]], "s"
    elif unit and unit != "%":
        yield 1.0, unit
        yield from prefixes_of(unit)


def _named(name: str, unit: str) -> str:
    """`Time (us)`, unless the name has the unit."""
    has_unit = not unit or unit in re.split(r"[^A-Za-zµμ/%]+", name)
    return name if has_unit else f"{name} ({unit})"


def without_unit(name: str) -> str:
    """A column's name as it was before its cells' unit went into it."""
    return re.sub(rf" \({UNIT}\)$", "", name)


def _read(text: str) -> tuple[str, str] | None:
    """The number in a cell, and its unit or nothing; None where it says anything else."""
    found = _CELL.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if found is None:
        return None
    return found[1].replace(",", ""), found[2] or found[3] or ""


def _may_be_decimal_commas(texts: Sequence[str]) -> bool:
    """Whether `1,234` might be 1.234: nowhere are there two commas, a point, or none at all."""
    numbers = [text.split()[0] for text in texts if text.strip()]
    return all(number.count(",") == 1 and "." not in number for number in numbers)
