"""The library: the bundled pages, and a folder of one's own that wins over them."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from roofsmith.domain.knowledge import PageFinding
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Value
from roofsmith.errors import UnknownNameError
from roofsmith.knowledge.page import LibraryPage, normal, read_page
from roofsmith.wording import printable

MAX_PAGE_BYTES: Final = 256 << 10
"""Nobody writes a longer page by hand."""
MOST_FINDINGS: Final = 20
"""Of a kind, on a page."""
MAX_PAGES: Final = 1000
"""Of a folder; whoever has more named the wrong one."""
_ORDER: Final = ("ops", "hardware", "backend", "strategies")
"""Folders, from the most to the least specific."""


class Hit(Value):
    """A page that has the words, and the line with most of them."""

    page: str
    """Its id."""
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Library:
    """Every page that can be read, and what is wrong with it or with others."""

    pages: tuple[LibraryPage, ...]
    """By folder, then by id."""
    findings: tuple[PageFinding, ...] = ()

    @classmethod
    def load(cls, own: Path | None = None) -> Library:
        """The bundled pages, and those of a folder, each in the place of the bundled one of its id.

        Args:
            own: the user's folder; its text is data, and what is wrong with it is in `findings`.
        """
        kept: dict[str, LibraryPage] = {}
        findings: list[PageFinding] = []
        for folder, own_ in ((bundled(), False), (own, True)):
            for file in _files(folder, findings) if folder is not None else ():
                text = _text(file, findings)
                if text is not None and folder is not None:
                    id_ = file.relative_to(folder).with_suffix("").as_posix()
                    page, wrong = read_page(id_, file, text, own=own_)
                    findings += wrong[:MOST_FINDINGS]
                    kept |= {} if page is None else {id_: page}
        pages = sorted(kept.values(), key=lambda page: (_rank(page), page.id))
        for page in pages:
            findings += islice(_broken(page, kept.keys()), MOST_FINDINGS)
        return cls(tuple(pages), tuple(findings))

    def page(self, name: str) -> LibraryPage:
        """A page by its id, or by its last part where only one page is called so.

        Raises:
            UnknownNameError: there is none, or there are several; the hint has them.
        """
        wanted = name.strip().removesuffix(".md").lower()
        ids = {page.id.lower(): page for page in self.pages}
        last = [one for id_, one in ids.items() if id_.rpartition("/")[2] == wanted]
        found = ids.get(wanted) or (last[0] if len(last) == 1 else None)
        if found is None:
            close = [one.id for one in last] or get_close_matches(wanted, ids, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else "`roofsmith knowledge list`"
            raise UnknownNameError(f"the library has no page {name!r}", hint=hint)
        return found

    def search(self, words: str) -> tuple[Hit, ...]:
        """Pages with all the words, the most of them on one line first."""
        wanted = words.lower().split()
        hits = []
        for page in self.pages:
            text = page.text.lower()
            if wanted and all(word in text for word in wanted):
                rows = text.splitlines()
                best = max(range(len(rows)), key=lambda at: sum(w in rows[at] for w in wanted))
                score = sum(word in rows[best] for word in wanted)
                hits.append((score, _hit(page, best)))
        return tuple(hit for _, hit in sorted(hits, key=lambda pair: -pair[0]))

    def known(self, what: Literal["op", "gpu", "lang"]) -> frozenset[str]:
        """Operators, architectures or languages that pages name; architectures are patterns."""
        return frozenset(one for page in self.pages for one in getattr(page, what))

    def speaks_of(self, what: Literal["op", "gpu", "lang"], name: str) -> bool:
        """Whether a page is meant for one of them."""
        return _covers(self.known(what), name)

    def route(
        self,
        op: str | None = None,
        gpu: str | None = None,
        lang: str | None = None,
        bottleneck: BottleneckKind | None = None,
    ) -> tuple[LibraryPage, ...]:
        """Pages for a kernel, the most specific first, with no directions but those that fit.

        A page fits if it names what was asked for, and nothing else: one for all operators fits an
        operator, but it has to name the device or the language then. Without any of the three, all
        fit that answer the bottleneck.

        Args:
            gpu: architecture, such as sm_90, gfx942, x86-64-avx512.
            lang: language of the kernel, such as triton.
            bottleneck: directions that answer others are left out.
        """
        asked = {"op": op, "gpu": gpu, "lang": lang}
        side = _side(gpu, lang)
        found = []
        for page in self.pages:
            named = _named(page, asked)
            directions = tuple(
                one
                for one in page.directions
                if (bottleneck is None or bottleneck in one.answers)
                and (side is None or one.side in (side, None))
            )
            if named or (named == 0 and not any(asked.values()) and directions):
                found.append(page.model_copy(update={"directions": directions}))
        return tuple(found)


def _hit(page: LibraryPage, at: int) -> Hit:
    return Hit(page=page.id, line=at + 1, text=page.text.splitlines()[at].strip())


def bundled() -> Path:
    """Folder of the pages that come with the package."""
    return Path(str(resources.files("roofsmith.knowledge") / "pages"))


def _named(page: LibraryPage, asked: dict[str, str | None]) -> int | None:
    """How much of what was asked for a page names; None: it is meant for something else."""
    count = 0
    for key, value in asked.items():
        scope: tuple[str, ...] = getattr(page, key)
        if value and scope:
            if not _covers(scope, value):
                return None
            count += 1
    return count


def _covers(scope: Iterable[str], value: str) -> bool:
    name = normal(value)
    return any(fnmatchcase(name, one) or name.startswith(f"{one}_") for one in scope)


def _side(gpu: str | None, lang: str | None) -> str | None:
    """Where the kernel runs; None: nobody said."""
    if gpu is None and lang is None:
        return None
    is_host = (lang or "") in ("c", "cpp") or (gpu or "").startswith(("x86", "cpu", "aarch64"))
    return "host" if is_host else "gpu"


def _rank(page: LibraryPage) -> int:
    folder = page.id.partition("/")[0]
    return _ORDER.index(folder) if folder in _ORDER else len(_ORDER)


def _files(folder: Path, findings: list[PageFinding]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        where = str(error.filename or folder)
        findings.append(PageFinding(code="unreadable", path=where, detail=str(error.strerror)))

    count = 0
    for at, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(n for n in folders if n[0] != "." and n == printable(n))
        for name in sorted(names):
            if name != printable(name):
                detail = "its name can't be printed"
                place = printable(str(Path(at, name)))
                findings.append(PageFinding(code="unreadable", path=place, detail=detail))
            elif name.endswith(".md") and name != "README.md":
                count += 1
                if count > MAX_PAGES:
                    detail = f"more than {MAX_PAGES} pages: the rest is left out"
                    findings.append(PageFinding(code="too_large", path=str(folder), detail=detail))
                    return
                yield Path(at, name)


def _text(file: Path, findings: list[PageFinding]) -> str | None:
    try:
        told = file.stat()
        if not stat.S_ISREG(told.st_mode):
            raise ValueError("no regular file")
        if told.st_size <= MAX_PAGE_BYTES:
            return file.read_text(encoding="utf-8")
        detail = f"{told.st_size} bytes; a page has at most {MAX_PAGE_BYTES}"
        findings.append(PageFinding(code="too_large", path=str(file), detail=detail))
    except (OSError, ValueError) as error:  # a page that isn't UTF-8 too
        findings.append(PageFinding(code="unreadable", path=str(file), detail=str(error)))
    return None


def _broken(page: LibraryPage, known: Container[str]) -> Iterator[PageFinding]:
    for line, id_ in page.links:
        if id_ not in known:
            detail = f"it leads to {id_}, and no page is called so"
            yield PageFinding(code="broken_link", path=str(page.file), line=line, detail=detail)
