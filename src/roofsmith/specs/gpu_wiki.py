"""A local gpu-wiki: a folder of Markdown whose README.md is the index, beside `docs/`, `ref-docs/`.

Its text is data: it is searched for numbers, and nothing in it is followed but links to Markdown in
the same folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from roofsmith.domain.facts import GPU_WIKI, Citation
from roofsmith.specs.markdown_facts import Stated, stated_in
from roofsmith.specs.product_names import ProductName
from roofsmith.specs.wiki_page import Statement, WikiEntry, WikiSource

INDEX: Final = "README.md"
FOLDERS: Final = ("docs", "ref-docs")
MOST_FILES: Final = 5000
"""Documents that are read; a folder with more of them is no wiki of GPUs."""
MAX_BYTES: Final = 1 << 20
"""Of a document; a larger one is a dump of something."""
AGREE: Final = 0.01
"""Numbers that differ by less are one, rounded twice."""
_LINK: Final = re.compile(r"\]\(\s*<?([^)\s>#]+)")


@dataclass(frozen=True)
class GpuWiki:
    """What the documents of a folder state."""

    folder: Path

    @cached_property
    def documents(self) -> dict[str, str]:
        """Text by path in the folder; what isn't readable, too large or elsewhere is left out."""
        root = self.folder.resolve()
        index = root / INDEX
        found = {INDEX: text} if (text := _text(index)) is not None else {}
        linked = (root / link for link in _LINK.findall(found.get(INDEX, "")))
        for path in (*linked, *(root / name for name in FOLDERS)):
            for file in _markdown(path, root):
                if len(found) >= MOST_FILES:
                    return found
                name = file.relative_to(root).as_posix()
                if name not in found and (text := _text(file)) is not None:
                    found[name] = text
        return found

    def entries(self, is_it: Callable[[ProductName], bool]) -> dict[str, tuple[WikiEntry, ...]]:
        """What is stated of a product, by metric: several where documents disagree.

        Args:
            is_it: whether a name, as documents write it, is the product's and nobody else's.
        """
        found: dict[str, tuple[WikiEntry, ...]] = {}
        for path, stated in self._stated:
            if is_it(stated.product):
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
            (stated.product, self._entry(document, stated))
            for document, stated in self._stated
            if (document, str(stated.line)) == (path, line)
        )

    @cached_property
    def _stated(self) -> tuple[tuple[str, Stated], ...]:
        return tuple(
            (path, stated)
            for path, text in self.documents.items()
            for stated in stated_in(path, text)
        )

    def _entry(self, path: str, stated: Stated) -> WikiEntry:
        metric = stated.metric
        source = WikiSource(title=f"{GPU_WIKI}/{path}", locator=stated.under or None)
        told = Statement(value=metric.value, unit=metric.unit, source=source, quality="secondary")
        return WikiEntry(metric.path, told, Citation(path=f"{GPU_WIKI}/{path}", line=stated.line))


def _agree(one: WikiEntry, other: WikiEntry) -> bool:
    a, b = one.number or 0.0, other.number or 0.0
    return one.told.unit == other.told.unit and abs(a - b) <= AGREE * max(abs(a), abs(b))


def _markdown(path: Path, root: Path) -> Iterator[Path]:
    """Markdown files at or below a path, as far as they lie in the folder."""
    if path.is_dir() and path.resolve().is_relative_to(root):
        for folder, names, files in os.walk(path):
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(files):
                yield from _markdown(Path(folder) / name, root) if name.endswith(".md") else ()
    elif path.suffix == ".md" and path.is_file():
        real = path.resolve()
        if real.is_relative_to(root):
            yield real


def _text(file: Path) -> str | None:
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
