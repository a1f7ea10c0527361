"""The hardware wiki: one page per product, every number cited; bundled pages and a user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import resources
from pathlib import Path

from roofsmith.domain.facts import Fact
from roofsmith.errors import AmbiguousNameError, UnknownNameError
from roofsmith.specs.wiki_datasheet import missing
from roofsmith.specs.wiki_metrics import entries_for
from roofsmith.specs.wiki_page import Page, WikiEntry
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

    @classmethod
    def load(cls, user_dir: Path | None = None) -> Wiki:
        """The bundled pages and those in a folder; a user's page replaces the bundled one of its
        id. What is wrong with a page is in `problems`, and the page is left out.
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
        return cls(tuple(kept[name] for name in sorted(kept)), tuple(problems))

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
            AmbiguousNameError: several facts of the page share the name.
        """
        found = entries_for(page, metric)
        if len(found) > 1:
            paths = ", ".join(entry.metric for entry in found)
            raise AmbiguousNameError(
                f"{metric!r} has {len(found)} meanings on {page.id}", hint=paths
            )
        return found[0] if found else None

    def cite(self, page: Page, metric: str) -> Fact:
        """A fact of a page under the name that it was asked for; UNKNOWN if the page has none.

        Raises:
            AmbiguousNameError: several facts of the page share the name.
        """
        entry = self.entry(page, metric)
        return missing(metric, "1") if entry is None else entry.fact(metric)

    def resolve(self, citation: str) -> Fact | None:
        """The fact at `wiki/<page>.yaml:<line>`, under its path; None if there is none.

        Of a text or a list the value is None, and the reason says what stands there.
        """
        entry = self._by_citation.get(citation)
        return None if entry is None else entry.fact()

    def is_called(self, citation: str, label: str) -> bool:
        """Whether people call the fact at `wiki/<page>.yaml:<line>` so, maybe after its product."""
        entry = self._by_citation.get(citation)
        if entry is None:
            return False
        page = next(page for page in self.pages if page.origin == entry.citation.path)
        name = _folded(label).removesuffix(" peak")
        names = {name, *(name.removeprefix(f"{_folded(product)} ") for product in page.names)}
        written = (spelled for known in names for spelled in (known, known.replace(" ", "_")))
        return any(entry in entries_for(page, spelled) for spelled in written)

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


def bundled_files() -> tuple[Path, ...]:
    """Pages of the package."""
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
