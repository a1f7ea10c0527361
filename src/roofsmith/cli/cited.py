"""Facts of the hardware wiki and of this machine, as lines with citations or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from roofsmith.analysis.side_by_side import Pair, side_by_side
from roofsmith.app import Cited, Listing, Product
from roofsmith.app.documents import cited_document, entry_document
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.cli.sheets import compared, measured
from roofsmith.domain.facts import Fact, FactSheet
from roofsmith.report import format as fmt


def listing(found: Listing, *, as_json: bool) -> None:
    """Pages, kept ceilings, and what is wrong with the pages that are left out."""
    if as_json:
        print_json(
            {
                "pages": [
                    {
                        "id": page.id,
                        "product": page.product,
                        "vendor": page.vendor,
                        "short": list(page.short),
                        "driver_names": list(page.driver_names),
                        "facts": len(page.entries),
                        "file": str(page.file),
                        "citation": page.origin,
                    }
                    for page in found.pages
                ],
                "kept": [{"file": str(path), "device": device} for path, device in found.kept],
                "problems": [problem.model_dump(mode="json") for problem in found.problems],
                "own_pages": str(found.own_pages) if found.own_pages else None,
            }
        )
        return
    print_table(
        ("page", "facts", "drivers call it"),
        [
            (page.id, str(len(page.entries)), ", ".join(page.driver_names) or fmt.UNKNOWN)
            for page in found.pages
        ],
    )
    own = found.own_pages
    there = "" if own is None or own.exists() else ", which isn't there yet"
    print_lines(["", f"pages of your own go to {own or '$ROOFSMITH_WIKI'}{there}"])
    print_lines(["", "measured ceilings, a file per device, compiler and driver:"])
    print_lines(
        [f"{path}  {device}" for path, device in found.kept]
        or ["none yet; `roofsmith specs measure` makes one"]
    )
    if found.problems:
        print_lines(["", "pages that are left out:", *map(str, found.problems)])


def machine(sheet: FactSheet, *, as_json: bool) -> None:
    """This machine's ceilings, each with its citation, and the product's datasheet beside them."""
    pairs = side_by_side(sheet)
    if as_json:
        print_json({**sheet.model_dump(mode="json"), "side_by_side": [*map(_pair, pairs)]})
        return
    if sheet.datasheet is not None:
        print_lines([f"{sheet.datasheet.product} (page {sheet.datasheet.page})", ""])
        _print_pairs(pairs)
    measured(sheet)
    print_lines(map(str, sheet.datasheet.facts() if sheet.datasheet else ()))


def products(name: str, found: Sequence[Product], *, as_json: bool) -> None:
    """The page of a name; of several that share it, the facts side by side."""
    if len(found) == 1:
        product(found[0], as_json=as_json)
    elif as_json:
        print_json({"name": name, "products": [*map(_product, found)]})
    else:
        compared(name, found)
        _warn(dict.fromkeys(warning for one in found for warning in one.warnings))


def product(found: Product, *, as_json: bool) -> None:
    """A page: its ceilings beside what was measured, then every fact with its citation."""
    page, known = found.page, found.sheet
    if as_json:
        print_json(_product(found))
        return
    _warn(found.warnings)
    print_lines(
        [
            f"{page.product} ({page.vendor}, {page.arch or fmt.UNKNOWN})",
            f"page: {page.file}",
            f"drivers call it: {', '.join(page.driver_names) or fmt.UNKNOWN}",
            "",
        ]
    )
    _print_pairs(found.ceilings)
    if not found.measured_in:
        print_lines(["never measured here; on such a GPU: roofsmith specs measure --gpu", ""])
    print_lines(entry.line(entry.metric) for entry in page.entries.values())
    print_lines(str(fact) for fact in known.model_copy(update={"datasheet": None}).facts())
    print_lines(f"{fmt.UNKNOWN}: {what}" for what in page.unknown)
    print_lines(f"note: {note}" for note in page.notes)


def cited(found: Cited, *, as_json: bool) -> None:
    """One line `<metric>: <value> <unit> <- <page>:<line>`; where it was read goes to stderr."""
    if as_json:
        print_json(cited_document(found))
        return
    print_lines([found.line])
    _warn(found.warnings)
    if found.entry is None:
        print(f"roofsmith: {found.hint}", file=sys.stderr)
        return
    told = found.entry.told
    source = "; ".join(part for part in (told.source.title, told.source.locator) if part)
    print(f"{found.entry.metric}, {told.quality}: {source}", file=sys.stderr)


def _product(found: Product) -> dict[str, Any]:
    page = found.page
    return {
        "id": page.id,
        "product": page.product,
        "vendor": page.vendor,
        "arch": page.arch,
        "short": list(page.short),
        "driver_names": list(page.driver_names),
        "file": str(page.file),
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


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "ceiling": pair.name,
        "datasheet": _dumped(pair.datasheet),
        "measured": _dumped(pair.measured),
        "ratio": pair.ratio,
    }


def _dumped(fact: Fact | None) -> dict[str, Any] | None:
    return fact.model_dump(mode="json") if fact is not None else None


def _print_pairs(pairs: tuple[Pair, ...]) -> None:
    print_table(
        ("ceiling", "datasheet", "measured", "of datasheet"),
        [
            (pair.name, _rate(pair.datasheet), _rate(pair.measured), _percent(pair.ratio))
            for pair in pairs
        ],
    )
    print_lines([""])


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"roofsmith: {warning}", file=sys.stderr)


def _rate(fact: Fact | None) -> str:
    return fmt.UNKNOWN if fact is None else fmt.quantity(fact.value, fact.unit)


def _percent(ratio: float | None) -> str:
    return fmt.UNKNOWN if ratio is None else fmt.percent(ratio)
