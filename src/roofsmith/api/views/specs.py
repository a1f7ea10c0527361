"""Facts of the hardware wiki and of this machine, as lines with citations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.side_by_side import DatasheetCeiling, side_by_side
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.api.views.sheets import compared, measured
from roofsmith.domain.facts import Fact, FactSheet

if TYPE_CHECKING:
    from roofsmith.api.audit import CitationAudit
    from roofsmith.api.wiki import Product, WikiListing


def listing(found: WikiListing) -> Blocks:
    """Pages, kept ceilings, and what is wrong with the pages that are left out."""
    yield Table(
        ("page", "facts", "drivers call it"),
        [
            (page.id, str(len(page.entries)), ", ".join(page.driver_names) or fmt.UNKNOWN)
            for page in found.pages
        ],
    )
    own = found.own_pages
    there = "" if own is None or own.exists() else ", which isn't there yet"
    yield from ["", f"pages of your own go to {own or '$ROOFSMITH_WIKI'}{there}"]
    yield from ["", "measured ceilings, a file per device, compiler and driver:"]
    kept = [f"{path}  {device}" for path, device in found.kept]
    yield from kept or ["none yet; `roofsmith specs measure` makes one"]
    if found.problems:
        yield from ["", "pages that are left out:", *map(str, found.problems)]


def machine(sheet: FactSheet) -> Blocks:
    """This machine's ceilings, each with its citation, and the product's datasheet beside them."""
    if sheet.datasheet is not None:
        yield from [f"{sheet.datasheet.product} (page {sheet.datasheet.page})", ""]
        yield from _pairs(side_by_side(sheet))
    yield from measured(sheet)
    yield from map(str, sheet.datasheet.facts() if sheet.datasheet else ())


def products(name: str, found: Sequence[Product]) -> Blocks:
    """The page of a name; of several that share it, the facts side by side."""
    return _product(found[0]) if len(found) == 1 else compared(name, found)


def _product(found: Product) -> Blocks:
    """A page: its ceilings beside what was measured, then every fact with its citation."""
    page, known = found.page, found.sheet
    yield from [
        f"{page.product} ({page.vendor}, {page.arch or fmt.UNKNOWN})",
        f"page: {page.file}",
        f"drivers call it: {', '.join(page.driver_names) or fmt.UNKNOWN}",
        "",
    ]
    yield from _pairs(found.ceilings)
    if not found.measured_in:
        yield from ["never measured here; on such a GPU: roofsmith specs measure --gpu", ""]
    yield from (entry.line(entry.metric) for entry in page.entries.values())
    yield from (str(fact) for fact in known.model_copy(update={"datasheet": None}).facts())
    yield from (f"{fmt.UNKNOWN}: {what}" for what in page.unknown)
    yield from (f"note: {note}" for note in page.notes)


def _pairs(pairs: tuple[DatasheetCeiling, ...]) -> Blocks:
    yield Table(
        ("ceiling", "datasheet", "measured", "of datasheet"),
        [
            (pair.name, _rate(pair.datasheet), _rate(pair.measured), _percent(pair.ratio))
            for pair in pairs
        ],
    )
    yield ""


def _rate(fact: Fact | None) -> str:
    return fmt.UNKNOWN if fact is None else fmt.quantity(fact.value, fact.unit)


def _percent(ratio: float | None) -> str:
    return fmt.UNKNOWN if ratio is None else fmt.percent(ratio)


def audited(found: CitationAudit) -> Blocks:
    """A line per problem, then how much was looked at."""
    result = fmt.plural(len(found.problems), "problem") if found.problems else "all of them hold"
    yield from (fmt.one_line(str(problem)) for problem in found.problems)
    files = fmt.plural(found.files, "file")
    yield f"{fmt.plural(found.citations, 'citation')} in {files}: {result}"
    yield from (f"note: {note}" for note in found.notes)
