"""The hardware wiki and this machine's ceilings as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofsmith.analysis.side_by_side import DatasheetCeiling, side_by_side
from roofsmith.domain.facts import Fact, FactSheet
from roofsmith.specs.wiki_page import Page, WikiEntry

if TYPE_CHECKING:
    from roofsmith.api.wiki import CitedFact, Product, WikiListing


def cited_document(found: CitedFact) -> dict[str, Any]:
    """The answer to a question for one fact, with its citation."""
    page = found.page
    where = {"page": page.id if page else None, "product": page.product if page else None}
    if found.entry is None:
        missing = {"value": None, "unit": None, "citation": None}
        answer = {"metric": found.metric, **where, **missing, "line": found.line}
        return {**answer, "hint": found.hint, "warnings": list(found.warnings)}
    return {
        **entry_document(found.entry),
        "path": found.entry.metric,
        "metric": found.metric,
        "line": found.line,
        **where,
        "warnings": list(found.warnings),
    }


def entry_document(entry: WikiEntry) -> dict[str, Any]:
    """A line of the wiki."""
    told = entry.told.model_dump(mode="json", exclude_none=True)
    return {"metric": entry.metric, **told, "citation": str(entry.citation)}


def listing_document(found: WikiListing) -> dict[str, Any]:
    """Pages of the wiki, kept ceilings, and what is wrong with the pages that are left out."""
    return {
        "pages": [
            {**_page(page), "facts": len(page.entries), "citation": page.origin}
            for page in found.pages
        ],
        "kept": [{"file": str(path), "device": device} for path, device in found.kept],
        "problems": [problem.model_dump(mode="json") for problem in found.problems],
        "own_pages": str(found.own_pages) if found.own_pages else None,
    }


def sheet_document(sheet: FactSheet) -> dict[str, Any]:
    """This machine's ceilings, and the product's datasheet beside them."""
    pairs = [_pair(pair) for pair in side_by_side(sheet)]
    return {**sheet.model_dump(mode="json"), "side_by_side": pairs}


def products_document(name: str, found: Sequence[Product]) -> dict[str, Any]:
    """The page of a name; all of them where several share it."""
    products = [_product(product) for product in found]
    return products[0] if len(products) == 1 else {"name": name, "products": products}


def _product(found: Product) -> dict[str, Any]:
    page = found.page
    return {
        **_page(page),
        "arch": page.arch,
        "side_by_side": [*map(_pair, found.ceilings)],
        "facts": [entry_document(entry) for entry in page.entries.values()],
        "measured": [
            fact.model_dump(mode="json")
            for fact in found.sheet.model_copy(update={"datasheet": None}).facts()
        ],
        "notes": list(page.notes),
        "unknown": list(page.unknown),
        "warnings": list(found.warnings),
    }


def _page(page: Page) -> dict[str, Any]:
    return {
        "id": page.id,
        "product": page.product,
        "vendor": page.vendor,
        "short": list(page.short),
        "driver_names": list(page.driver_names),
        "file": str(page.file),
    }


def _pair(pair: DatasheetCeiling) -> dict[str, Any]:
    return {
        "ceiling": pair.name,
        "datasheet": _dumped(pair.datasheet),
        "measured": _dumped(pair.measured),
        "ratio": pair.ratio,
    }


def _dumped(fact: Fact | None) -> dict[str, Any] | None:
    return fact.model_dump(mode="json") if fact is not None else None
