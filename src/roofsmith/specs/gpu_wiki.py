"""A local gpu-wiki: a folder of Markdown whose README.md is the index, beside `docs/`, `ref-docs/`.

Its text is data: it is searched for numbers, and nothing in it is followed but links to Markdown in
the same folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from roofsmith.domain.facts import GPU_WIKI, Citation
from roofsmith.specs.markdown_facts import Stated, stated_in
from roofsmith.specs.product_names import ProductName
from roofsmith.specs.wiki_page import Statement, WikiEntry, WikiSource
from roofsmith.wording import printable

INDEX: Final = "README.md"
FOLDERS: Final = ("docs", "ref-docs")
MAX_BYTES: Final = 1 << 20
"""Of a document; a larger one is a dump of something."""
MOST_BYTES: Final = 16 << 20
"""Of all documents that are read, some seconds; a larger folder is no wiki of GPUs."""
AGREE: Final = 0.01
"""Numbers that differ by less are one, rounded twice."""
_LINK: Final = re.compile(r"\]\(\s*<?([^)\s>#]+)")


@dataclass(frozen=True)
class GpuWiki:
    """What the documents of a folder state."""

    folder: Path
    _read: dict[str, tuple[Stated, ...]] = field(default_factory=dict, compare=False)

    @cached_property
    def documents(self) -> dict[str, str]:
        """Text by path in the folder; what isn't readable, too large or elsewhere is left out."""
        root = self.folder.resolve()
        index = root / INDEX
        found = {INDEX: text} if (text := _text(index)) is not None else {}
        room = MOST_BYTES
        linked = (root / link for link in _LINK.findall(found.get(INDEX, "")))
        for path in (*linked, *(root / name for name in FOLDERS)):
            for file in _markdown(path, root):
                if room <= 0:
                    return found
                name = file.relative_to(root).as_posix()
                if name not in found and (text := _text(file)) is not None:
                    found[name] = text
                    room -= len(text)
        return found

    @property
    def problem(self) -> str | None:
        """Why nothing can be stated."""
        lacks = f"{self.folder} has no {INDEX}, {'/ or '.join(FOLDERS)}/ with Markdown in them"
        return None if self.documents else lacks

    def entries(
        self, bases: Collection[str], is_it: Callable[[ProductName], bool]
    ) -> dict[str, tuple[WikiEntry, ...]]:
        """What is stated of a product, by metric: several where documents disagree.

        Args:
            bases: what it is called; documents without any of these aren't read through.
            is_it: whether a name, as documents write it, is the product's and nobody else's.
        """
        wanted = [_squeezed(base) for base in bases]
        told = [
            (path, stated)
            for path, text in self.documents.items()
            if any(base in _squeezed(f"{path} {text}") for base in wanted)
            for stated in self._stated(path)
        ]
        names = {name for name in {stated.product for _, stated in told} if is_it(name)}
        found: dict[str, tuple[WikiEntry, ...]] = {}
        for path, stated in told:
            if stated.product in names:
                entry, metric = self._entry(path, stated), stated.metric.path
                known = found.get(metric, ())
                if not any(_agree(entry, other) for other in known):
                    found[metric] = (*known, entry)
        return found

    def at(self, place: str) -> tuple[tuple[ProductName, WikiEntry], ...]:
        """Everything that is stated at `<gpu-wiki>/PATH:LINE`, and of which product."""
        path, _, line = place.removeprefix(f"{GPU_WIKI}/").rpartition(":")
        if not place.startswith(GPU_WIKI):
            return ()
        return tuple(
            (stated.product, self._entry(path, stated))
            for stated in self._stated(path)
            if str(stated.line) == line
        )

    def _stated(self, path: str) -> tuple[Stated, ...]:
        if path not in self._read and path in self.documents:
            self._read[path] = tuple(stated_in(path, self.documents[path]))
        return self._read.get(path, ())

    def _entry(self, path: str, stated: Stated) -> WikiEntry:
        metric = stated.metric
        source = WikiSource(title=f"{GPU_WIKI}/{path}", locator=printable(stated.under) or None)
        told = Statement(value=metric.value, unit=metric.unit, source=source, quality="secondary")
        return WikiEntry(metric.path, told, Citation(path=f"{GPU_WIKI}/{path}", line=stated.line))


def _squeezed(text: str) -> str:
    """Without what may stand between the parts of a name: `RTX A6000` is RTXA6000."""
    return re.sub(r"[ _-]", "", text.upper())


def _agree(one: WikiEntry, other: WikiEntry) -> bool:
    a, b = one.number or 0.0, other.number or 0.0
    return one.told.unit == other.told.unit and abs(a - b) <= AGREE * max(abs(a), abs(b))


def _markdown(path: Path, root: Path) -> Iterator[Path]:
    if path.is_dir() and path.resolve().is_relative_to(root):
        for folder, names, files in os.walk(path):
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(files):
                yield from _markdown(Path(folder) / name, root) if name.endswith(".md") else ()
    elif path.suffix == ".md" and path.is_file():
        real = path.resolve()
        if real.is_relative_to(root) and str(real).isprintable():  # it will stand in citations
            yield real


def _text(file: Path) -> str | None:
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
