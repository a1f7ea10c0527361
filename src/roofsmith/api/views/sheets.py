"""Limits as tables for people, every figure with the line that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.domain.facts import BandwidthCeiling, Citation, Fact, FactSheet, shown
from roofsmith.specs.wiki_page import WikiEntry

if TYPE_CHECKING:
    from roofsmith.api.wiki import Product

_NOT_COMPARED = ("measured.", "other.")
"""What no vendor says of the product."""
_LONGEST_NAME = 60
"""Of a fact in a table; what is longer is a sentence, and gets a line."""


def measured(sheet: FactSheet) -> Blocks:
    """What was measured on this machine, and what it says of itself; nothing where there is none.

    Lines are those of one file, which is named once; where figures stand in several, each has its
    own.
    """
    ceilings = [*(c.fact for c in sheet.bandwidth), *(c.fact for c in sheet.compute)]
    cited = [fact.citation for fact in ceilings if fact.citation is not None]
    paths = {citation.path for citation in cited}
    file = next(iter(paths)) if len(paths) == 1 else None
    if file is not None:
        yield from [f"file: {file}", f"      {_made(cited)}; `:6` is its line 6", ""]
    if sheet.bandwidth:
        yield from _bandwidths(sheet.bandwidth, file)
    if sheet.compute:
        yield Table(
            ("peak", "measured"), [(_peak_name(c.fact), _cell(c.fact, file)) for c in sheet.compute]
        )
        yield ""
    short = [f for f in sheet.other if f.value is not None and len(f.metric) <= _LONGEST_NAME]
    if short:
        yield Table(
            ("machine", "value", "source"),
            [(fact.metric, _value(fact), _source(fact, file)) for fact in short],
        )
        yield ""
    yield from (str(fact) for fact in sheet.other if fact not in short)


def compared(name: str, found: Sequence[Product]) -> Blocks:
    """Products of one name: their ceilings, then every fact that one of the pages states."""
    ids = [product.page.id for product in found]
    yield from [f"{name!r} is the name of {len(found)} products", ""]
    ceilings = {p.page.id: {c.name: c.datasheet for c in p.ceilings} for p in found}
    yield Table(
        ("datasheet", *ids),
        [
            (peak, *(_rate(ceilings[page].get(peak)) for page in ids))
            for peak in _in_order(ceilings.values())
        ],
    )
    yield from ["", "`:6` is line 6 of the page:"]
    yield Table(("", *ids), [("page", *(p.page.origin for p in found)), *_facts(found)])
    one = next(iter(ids))
    yield from ["", f"`roofsmith specs show {one}` has all of one, `specs cite` takes one only"]


def _facts(found: Sequence[Product]) -> Iterator[tuple[str, ...]]:
    pages = [product.page.entries for product in found]
    for metric in _in_order(pages):
        if not metric.startswith(_NOT_COMPARED):
            yield metric, *(_stated(page.get(metric)) for page in pages)


def _in_order(columns: Iterable[Iterable[str]]) -> list[str]:
    """Every name of any column, each once, after the one that it follows in the first such."""
    names: list[str] = []
    for column in columns:
        place = 0
        for name in column:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names


def _stated(entry: WikiEntry | None) -> str:
    if entry is None:
        return fmt.UNKNOWN
    value = entry.told.value
    said = f"{len(value)} values" if isinstance(value, tuple) else entry.said
    return f"{said} :{entry.citation.line}"


def _bandwidths(ceilings: Sequence[BandwidthCeiling], file: str | None) -> Blocks:
    patterns = list(dict.fromkeys(ceiling.pattern for ceiling in ceilings))
    rows: dict[tuple[int, int], dict[str, Fact]] = {}
    for ceiling in ceilings:
        where = ceiling.threads, ceiling.working_set_bytes
        rows.setdefault(where, {})[ceiling.pattern] = ceiling.fact
    yield Table(
        ("working set", "threads", *patterns),
        [
            (fmt.size(size), str(threads), *(_cell(row.get(p), file) for p in patterns))
            for (threads, size), row in rows.items()
        ],
    )
    yield ""


def _made(cited: Sequence[Citation]) -> str:
    commands = dict.fromkeys(c.command for c in cited if c.command)
    dates = sorted({c.date for c in cited if c.date})
    when = dates[:1] if len(dates) < 2 else [f"{dates[0]} to {dates[-1]}"]
    return ", ".join((*commands, *when)) or "measured"


def _peak_name(fact: Fact) -> str:
    return fact.metric.replace(" peak", "", 1)


def _cell(fact: Fact | None, file: str | None) -> str:
    if fact is None or fact.value is None or fact.citation is None:
        return fmt.UNKNOWN
    return f"{_value(fact)} {_source(fact, file)}"


def _source(fact: Fact, file: str | None) -> str:
    citation = fact.citation
    assert citation is not None, "what has a value has a citation"
    if citation.path == file and citation.line is not None:
        return f":{citation.line}"
    return f"<- {citation}"


def _value(fact: Fact) -> str:
    if fact.value is None:
        return fmt.UNKNOWN
    match fact.unit:
        case "byte":
            return fmt.size(fact.value)
        case "s":
            return fmt.time(fact.value)
        case _ if "/" in fact.unit:
            return fmt.quantity(fact.value, fact.unit)
        case _:
            return shown(fact.value, fact.unit)


def _rate(fact: Fact | None) -> str:
    return fmt.UNKNOWN if fact is None else fmt.quantity(fact.value, fact.unit)
