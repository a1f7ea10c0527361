"""The hardware wiki, and what was measured on its products here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.side_by_side import DatasheetCeiling, side_by_side
from roofsmith.config import Settings
from roofsmith.domain.facts import Fact, FactSheet
from roofsmith.errors import UnknownNameError, UsageError
from roofsmith.specs.sheet import MeasurementFile, kept_sheet, parse
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of, missing
from roofsmith.specs.wiki_metrics import near
from roofsmith.specs.wiki_page import NOT_FOUND, NOT_IN_GPU_WIKI, Page, WikiEntry
from roofsmith.specs.wiki_problems import PageProblem

NO_PRODUCT = "no such product"
"""Why a fact is UNKNOWN whose product has no page: the wiki was found."""


@dataclass(frozen=True, slots=True)
class WikiListing:
    """Everything that facts come from on this machine."""

    pages: tuple[Page, ...]
    problems: tuple[PageProblem, ...]
    kept: tuple[tuple[Path, str], ...]
    """Files of kept ceilings, and the device of each."""
    own_pages: Path | None
    """Folder of the user's pages, whether it is there or not."""


@dataclass(frozen=True, slots=True)
class Product:
    """A page, and what was measured on the product."""

    page: Page
    sheet: FactSheet
    measured_in: tuple[Path, ...]
    """Files of kept ceilings; empty where it was never measured."""
    warnings: tuple[str, ...] = ()
    """Pages of the user's own that were left out."""

    @property
    def ceilings(self) -> tuple[DatasheetCeiling, ...]:
        """The datasheet's beside the measured ones."""
        return side_by_side(self.sheet)


@dataclass(frozen=True, slots=True)
class CitedFact:
    """The answer to a question for one fact."""

    metric: str
    """As it was asked for."""
    page: Page | None
    """None: there is no such product."""
    entry: WikiEntry | None
    """None: the wiki doesn't say."""
    hint: str | None = None
    """Similar names, where there is no such fact or product."""
    warnings: tuple[str, ...] = ()
    """Pages of the user's own that were left out."""
    lacking: str = NOT_FOUND
    """Why it is UNKNOWN, where nobody says it of the product."""

    @property
    def line(self) -> str:
        """`<metric>: <value> <unit> <- <page>:<line>`, or that the wiki doesn't say."""
        if self.page is None:
            reason = NO_PRODUCT if self.lacking == NOT_FOUND else self.lacking
            return str(Fact(metric=self.metric, value=None, unit="1", reason=reason))
        if self.entry is None:
            return str(missing(self.metric, "1", self.lacking))
        return self.entry.line(self.metric)

    @property
    def source(self) -> str:
        """Where the wiki has it from; empty where it doesn't say."""
        if self.entry is None:
            return ""
        told = self.entry.told
        where = "; ".join(part for part in (told.source.title, told.source.locator) if part)
        return f"{self.entry.metric}, {told.quality}: {where}"


def list_specs(settings: Settings) -> WikiListing:
    """Pages, what is wrong with others, and kept ceilings.

    Raises:
        UsageError: the folder of the user's own pages was named, and isn't there.
    """
    wiki = Wiki.load(settings.own_pages(), settings.gpu_wiki)
    kept = tuple((path, file.device) for path, file in _kept(settings))
    return WikiListing(wiki.pages, wiki.problems, kept, settings.wiki_dir)


def show_products(name: str, settings: Settings) -> tuple[Product, ...]:
    """The page of every product of this name, with what was measured on such a device here.

    Raises:
        UnknownNameError: no page has the name.
        UsageError: as `list_specs`.
    """
    wiki, kept = Wiki.load(settings.own_pages(), settings.gpu_wiki), _kept(settings)
    return tuple(_product(page, kept, wiki) for page in wiki.called(name))


def _product(page: Page, kept: list[tuple[Path, MeasurementFile]], wiki: Wiki) -> Product:
    stated = wiki.stated(page)
    sheet = FactSheet(device_id="", datasheet=datasheet_of(stated))
    files = [(path, file) for path, file in kept if file.device in page.driver_names]
    for path, file in files:
        measured = kept_sheet(file, path)
        sheet = sheet.model_copy(
            update={
                "bandwidth": (*sheet.bandwidth, *measured.bandwidth),
                "compute": (*sheet.compute, *measured.compute),
                "other": (*sheet.other, *measured.other),
            }
        )
    return Product(stated, sheet, tuple(path for path, _ in files), _left_out(wiki, page))


def _left_out(wiki: Wiki, page: Page) -> tuple[str, ...]:
    """That a page is asked which isn't the user's own, though there is one."""
    if found := wiki.in_vain(page):
        return tuple(f"this is {page.file}, since your own page is left out: {p}" for p in found)
    if wiki.problems:
        count = len({problem.path for problem in wiki.problems})
        what = "a page of your own can't" if count == 1 else f"{count} pages of your own can't"
        return (f"{what} be used; `roofsmith specs list` says why",)
    return ()


def cite(product: str, metric: str, settings: Settings) -> CitedFact:
    """One fact of a product.

    Raises:
        AmbiguousNameError: several products, or several facts of the product, share the name.
        UsageError: one of the names is empty; and as `list_specs`.
    """
    if not product.strip() or not metric.strip():
        raise UsageError(
            f"no {'metric' if product.strip() else 'product'} is named",
            hint="roofsmith specs cite 'H100 SXM' bandwidth; `roofsmith specs list` has products",
        )
    wiki = Wiki.load(settings.own_pages(), settings.gpu_wiki)
    try:
        page = wiki.page(product)
    except UnknownNameError as error:
        left_out = len({problem.path for problem in wiki.problems})
        why = f"; {left_out} of your own can't be used" if left_out else ""
        lacking = NOT_FOUND if wiki.told is None else NOT_IN_GPU_WIKI
        return CitedFact(metric, None, None, f"{error}{why}", lacking=lacking)
    entry, warnings = wiki.entry(page, metric), _left_out(wiki, page)
    if entry is not None:
        return CitedFact(metric, page, entry, warnings=warnings)
    stated = wiki.stated(page)
    close = ", ".join(near(stated, metric))
    hint = (
        f"{page.id} has {close}" if close else f"`roofsmith specs show {page.id}` lists its facts"
    )
    if wiki.told is not None:
        lists = f"`roofsmith specs show {page.id} --gpu-wiki DIR` lists what it states"
        hint = wiki.told.problem or (hint if close else lists)
    return CitedFact(metric, page, None, hint, warnings, stated.lacking)


def _kept(settings: Settings) -> list[tuple[Path, MeasurementFile]]:
    found = []
    for path in settings.kept_ceilings():
        try:
            file = parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        if file is not None:
            found.append((path, file))
    return found
