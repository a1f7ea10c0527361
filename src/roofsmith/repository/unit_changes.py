"""Columns whose unit follows their size: `avg (ms)` is `avg (us)` in a faster run. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from roofsmith.domain.command import BYTE_RATES, FLOP_RATES, TIME_UNITS
from roofsmith.repository.expressions import as_number

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
