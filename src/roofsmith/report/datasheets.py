"""The product's datasheet beside what was measured, every number with its citation. Pure."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.side_by_side import DatasheetCeiling, side_by_side
from roofsmith.domain.facts import Fact, FactSheet, shown


def datasheet_rows(sheet: FactSheet) -> tuple[tuple[str, str, str, str], ...]:
    """Ceiling, datasheet, measured, and their ratio; none where the product isn't known."""
    if sheet.datasheet is None:
        return ()
    return tuple(_row(pair) for pair in side_by_side(sheet))


def _row(pair: DatasheetCeiling) -> tuple[str, str, str, str]:
    ratio = fmt.UNKNOWN if pair.ratio is None else fmt.percent(pair.ratio)
    return pair.name, _cell(pair.datasheet), _cell(pair.measured), ratio


def _cell(fact: Fact | None) -> str:
    """`3.35e+12 byte/s <- wiki/page.yaml:12`: as the list of facts has it."""
    if fact is None or fact.value is None or fact.citation is None:
        return fmt.UNKNOWN
    return f"{shown(fact.value, fact.unit)} <- {fact.citation.place}"
