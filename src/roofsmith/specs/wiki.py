"""The hardware wiki: one page per product, every number cited; bundled pages and a user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from importlib import resources
from pathlib import Path

from roofsmith.domain.facts import Fact
from roofsmith.errors import AmbiguousNameError, UnknownNameError
from roofsmith.specs.gpu_wiki import GpuWiki
from roofsmith.specs.product_names import ProductName, products_in
from roofsmith.specs.wiki_datasheet import missing
from roofsmith.specs.wiki_metrics import entries_for
from roofsmith.specs.wiki_page import NOT_IN_GPU_WIKI, Page, WikiEntry
from roofsmith.specs.wiki_problems import PageProblem
from roofsmith.specs.wiki_reading import NotAPageError, read_page

MAX_PAGE_BYTES = 1 << 20
"""Nobody writes a larger page; what is larger is something else."""

BUNDLED = "wiki"
"""Folder of the bundled pages in citations."""

_NEAR = 6
"""Names that are offered in place of one that no page has."""


@dataclass(frozen=True)
class Wiki:
    """Every page that can be used, and what is wrong with the others."""

    pages: tuple[Page, ...]
    """By id."""
    problems: tuple[PageProblem, ...] = ()
    told: GpuWiki | None = None
    """A local gpu-wiki: where there is one, numbers come from it alone, and pages say which
    products there are."""

    @classmethod
    def load(cls, user_dir: Path | None = None, gpu_wiki: Path | None = None) -> Wiki:
        """The bundled pages and those in a folder; a user's page replaces the bundled one of its
        id. What is wrong with a page is in `problems`, and the page is left out.

        Args:
            user_dir: folder of pages.
            gpu_wiki: folder of Markdown that has the word on every number, be it there or not.
        """
        problems: list[PageProblem] = []
        kept: dict[str, Page] = {}
        for files, bundled in ((bundled_files(), True), (_files_in(user_dir, problems), False)):
            own: set[str] = set()
            for page in _read(files, problems, bundled=bundled):
                if page.id in own:
                    problems.append(_same_id(page, kept[page.id]))
                elif not _taken_aliases(page, kept, problems):
                    kept[page.id] = page
                    own.add(page.id)
        told = None if gpu_wiki is None else GpuWiki(gpu_wiki)
        return cls(tuple(kept[name] for name in sorted(kept)), tuple(problems), told)

    def stated(self, page: Page) -> Page:
        """A page with the numbers of those who have the word: its own, or the gpu-wiki's.

        What documents of the gpu-wiki disagree on is left out.
        """
        if self.told is None:
            return page
        found = self._told_of(page).items()
        agreed = {path: entries[0] for path, entries in found if len(entries) == 1}
        return replace(page, entries={**_identity(page), **agreed}, lacking=NOT_IN_GPU_WIKI)

    def lookup(self, driver_name: str) -> Page | None:
        """The product that drivers call exactly so; None if no page says so.

        Never by a part of the name: `NVIDIA H100 80GB HBM3 MIG 1g.10gb` is no H100.
        """
        return self._by_alias.get(driver_name)

    def page(self, name: str) -> Page:
        """The product that people call so: by id, product, short name, or a driver's name.

        Capitals, hyphens and the number of blanks make no difference; anything else does.

        Raises:
            UnknownNameError: no page has the name; the hint has similar ones.
            AmbiguousNameError: several products share it; the hint has them.
        """
        found = self.called(name)
        if len(found) == 1:
            return found[0]
        choices = ", ".join(f"{page.product} ({page.id})" for page in found)
        raise AmbiguousNameError(f"{name!r} is the name of {len(found)} products", hint=choices)

    def called(self, name: str) -> tuple[Page, ...]:
        """Every product that people call so, by id; `H100` is three.

        Raises:
            UnknownNameError: no page has the name; the hint has similar ones.
        """
        found = tuple(p for p in self.pages if _folded(name) in map(_folded, p.names))
        found = found or self._told_only(name)
        if not found:
            raise UnknownNameError(f"no page of the wiki is called {name!r}", hint=self._near(name))
        return found

    def in_vain(self, page: Page) -> tuple[PageProblem, ...]:
        """What is wrong with a file that was to replace a page, where it can't."""
        return tuple(
            problem
            for problem in self.problems
            if Path(problem.path).stem == page.id and problem.path != str(page.file)
        )

    def entry(self, page: Page, metric: str) -> WikiEntry | None:
        """What a page states under a path or another name of a metric; None if nothing.

        Raises:
            AmbiguousNameError: several facts of the page share the name, or documents of the
                gpu-wiki disagree.
        """
        stated = self.stated(page)
        found = entries_for(stated, metric) or entries_for(stated, metric.replace(" ", "_"))
        if len(found) > 1:
            paths = ", ".join(entry.metric for entry in found)
            raise AmbiguousNameError(
                f"{metric!r} has {len(found)} meanings on {page.id}", hint=paths
            )
        if not found:
            self._require_agreement(page, metric)
        return found[0] if found else None

    def _require_agreement(self, page: Page, metric: str) -> None:
        """Tell a metric that documents disagree on from one that none states."""
        doubtful = {path: told for path, told in self._told_of(page).items() if len(told) > 1}
        first = replace(page, entries={path: told[0] for path, told in doubtful.items()})
        for entry in entries_for(first, metric):
            said = "; ".join(other.line(metric) for other in doubtful[entry.metric])
            what = f"documents of the gpu-wiki disagree on {metric!r} of {page.product}"
            raise AmbiguousNameError(what, hint=said)

    def cite(self, page: Page, metric: str) -> Fact:
        """A fact of a page under the name that it was asked for; UNKNOWN if the page has none.

        Raises:
            AmbiguousNameError: several facts of the page share the name.
        """
        entry = self.entry(page, metric)
        unknown = missing(metric, "1", self.stated(page).lacking)
        return unknown if entry is None else entry.fact(metric)

    def written_at(self, place: str) -> tuple[tuple[WikiEntry, Page], ...]:
        """What stands at `wiki/<page>.yaml:<line>`, or is stated on a line of the gpu-wiki.

        Each with the page that has it, under its path.
        """
        if (entry := self._by_citation.get(place)) is not None:
            return tuple((entry, p) for p in self.pages if p.origin == entry.citation.path)
        told = () if self.told is None else self.told.at(place)
        return tuple(
            (entry, replace(page, entries={**_identity(page), entry.metric: entry}))
            for product, entry in told
            for page in self._pages_of(product) or _pages_of_no_vendor(product, entry)
        )

    def _told_of(self, page: Page) -> dict[str, tuple[WikiEntry, ...]]:
        if self.told is None:
            return {}
        bases, _ = _names_of(page)
        if page not in self.pages:
            own = products_in(page.product)
            return self.told.entries(bases, lambda name: name in own)
        return self.told.entries(bases, lambda name: self._pages_of(name) == (page,))

    def _pages_of(self, name: ProductName) -> tuple[Page, ...]:
        return tuple(
            page for page, bases, said in self._said
            if name.base in bases and name.variant <= said
        )  # fmt: skip

    @cached_property
    def _said(self) -> tuple[tuple[Page, frozenset[str], frozenset[str]], ...]:
        """Of each page what its product is called, and all that is true of it."""
        return tuple((page, *_names_of(page)) for page in self.pages)

    def _told_only(self, name: str) -> tuple[Page, ...]:
        """A product that the gpu-wiki knows, and no page does."""
        named = tuple(products_in(name))
        if self.told is None or len(named) != 1 or self._pages_of(named[0]):
            return ()
        found = self.told.entries((named[0].base,), lambda other: other == named[0])
        first = next((entries[0] for entries in found.values()), None)
        return () if first is None else _pages_of_no_vendor(named[0], first)

    @cached_property
    def _by_alias(self) -> dict[str, Page]:
        return {name: page for page in self.pages for name in page.driver_names}

    @cached_property
    def _by_citation(self) -> dict[str, WikiEntry]:
        return {str(e.citation): e for page in self.pages for e in page.entries.values()}

    def _near(self, name: str) -> str:
        names = {_folded(known): known for page in self.pages for known in page.names}
        words = set(_folded(name).split())
        longer = [folded for folded in sorted(names) if words and words <= set(folded.split())]
        close = longer or get_close_matches(_folded(name), names, n=_NEAR, cutoff=0.5)
        found = ", ".join(dict.fromkeys(names[folded] for folded in close[:_NEAR]))
        return found or "`roofsmith specs list` shows every product"


def is_called(entry: WikiEntry, page: Page, label: str) -> bool:
    """Whether people call a fact of a page so, maybe after its product."""
    name = _folded(label).removesuffix(" peak")
    names = {name, *(name.removeprefix(f"{_folded(product)} ") for product in page.names)}
    written = (spelled for known in names for spelled in (known, known.replace(" ", "_")))
    return any(entry in entries_for(page, spelled) for spelled in written)


def _identity(page: Page) -> dict[str, WikiEntry]:
    return {path: entry for path, entry in page.entries.items() if path.startswith("identity.")}


def _names_of(page: Page) -> tuple[frozenset[str], frozenset[str]]:
    own = [found for text in page.names for found in products_in(text)]
    size = page.number("memory.size_bytes") or 0.0
    sizes = {f"{size / unit:.0f}gb" for unit in (1e9, 1 << 30)}
    return frozenset(found.base for found in own), frozenset(sizes).union(
        *(found.variant for found in own)
    )


def _pages_of_no_vendor(name: ProductName, first: WikiEntry) -> tuple[Page, ...]:
    """A page of a product that none of ours is of; its vendor is the one whose names look so."""
    called = " ".join((name.base, *sorted(name.variant)))
    identity = {"product": called, "vendor": "AMD" if name.is_amd else "NVIDIA"}
    entries = {}
    for key, value in identity.items():
        told = first.told.model_copy(update={"value": value, "unit": "string"})
        entries[f"identity.{key}"] = WikiEntry(f"identity.{key}", told, first.citation)
    file = Path(first.citation.path)
    return (Page(called, file, first.citation.path, (called,), (), entries),)


def bundled_files() -> tuple[Path, ...]:
    folder = resources.files("roofsmith.specs") / "pages"
    with resources.as_file(folder) as path:
        return tuple(sorted(path.glob("*.yaml")))


def _files_in(folder: Path | None, problems: list[PageProblem]) -> tuple[Path, ...]:
    if folder is None:
        return ()
    try:
        return tuple(sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml")))
    except FileNotFoundError:
        return ()
    except OSError as error:
        problems.append(_unreadable(folder, error.strerror or str(error)))
        return ()


def _read(files: Iterable[Path], problems: list[PageProblem], *, bundled: bool) -> Iterator[Page]:
    for file in files:
        origin = f"{BUNDLED}/{file.name}" if bundled else str(file.absolute())
        try:
            yield read_page(_text(file), file, origin)
        except NotAPageError as error:
            problems.extend(error.problems)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
            problems.append(_unreadable(file, reason or str(error)))


def _text(file: Path) -> str:
    if file.exists() and not file.is_file():  # a pipe would keep us waiting
        raise OSError(0, "it is no file")
    with file.open("rb") as stream:
        data = stream.read(MAX_PAGE_BYTES + 1)
    if len(data) > MAX_PAGE_BYTES:
        raise OSError(0, f"it is larger than {MAX_PAGE_BYTES} byte")
    return data.decode("utf-8")


def _unreadable(path: Path, reason: str) -> PageProblem:
    fix = "make it a readable text file, or take it away"
    return PageProblem(code="unreadable", path=str(path), line=None, detail=reason, fix=fix)


def _same_id(page: Page, other: Page) -> PageProblem:
    return PageProblem(
        code="duplicate_id", path=str(page.file), line=None,
        detail=f"{other.file} is the page {page.id} already", fix="keep one of the two",
    )  # fmt: skip


def _taken_aliases(page: Page, others: dict[str, Page], problems: list[PageProblem]) -> bool:
    """Whether another page has a driver's name of this one already; notes every such."""
    taken = False
    for other in others.values():
        if other.id == page.id:
            continue
        for alias in page.aliases:
            if alias.told.value in other.driver_names:
                taken = True
                theirs = next(a for a in other.aliases if a.told.value == alias.told.value)
                detail = f"{alias.told.value!r} is an alias of {theirs.citation} already"
                fix = f"leave it out here, or call the page {other.id} to replace the other"
                problems.append(
                    PageProblem(
                        code="duplicate_alias", path=str(page.file), line=alias.citation.line,
                        detail=detail, fix=fix,
                    )
                )  # fmt: skip
    return taken


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()
