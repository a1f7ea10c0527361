"""Pages of the library, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofsmith.analysis.figures import plural
from roofsmith.api.views.blocks import Blocks, Prose, Table

if TYPE_CHECKING:
    from roofsmith.knowledge.library import Hit, Library
    from roofsmith.knowledge.page import LibraryPage


def listing(found: Library) -> Blocks:
    """Every page, then what is wrong with any."""
    yield Table(
        ("page", "directions", "title"),
        [(page.id, str(len(page.directions)), page.title) for page in found.pages],
        shorten=2,
    )
    yield from ["", *map(str, found.findings)] if found.findings else ()


def hits(found: Sequence[Hit]) -> Blocks:
    """Where words were found."""
    if found:
        rows = [(hit.page, str(hit.line), hit.text) for hit in found]
        yield Table(("page", "line", "text"), rows, 2)
    else:
        yield "no page has all these words"


def routed(found: Sequence[LibraryPage]) -> Blocks:
    """The pages that fit, each with its directions."""
    for page in found:
        yield f"{page.id}: {page.title}"
        for way in page.directions:
            yield Prose(f"{', '.join(way.answers)}: {way.title}", 2)
            measured = f"measured: {way.measured}" if way.measured else ""
            said = (page.sources.get(key.strip(), key) for key in way.source.split(","))
            lines = (
                way.change, f"moves: {way.moves}", f"hurts: {way.hurts}", measured,
                f"source: {'; '.join(said)}",
            )  # fmt: skip
            yield from (Prose(line, 4) for line in lines if line)
    if not found:
        yield "no page fits; `roofsmith knowledge list` has them all"
    else:
        yield f"{plural(len(found), 'page')}; `roofsmith knowledge show ID` prints one"
