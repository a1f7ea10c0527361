"""Pages of the library, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsmith.analysis.figures import plural
from roofsmith.api.views.blocks import Blocks, Table

if TYPE_CHECKING:
    from roofsmith.api.knowledge import Route
    from roofsmith.knowledge.library import Hit, Library


def listing(found: Library) -> Blocks:
    """Every page, then what is wrong with any."""
    yield Table(
        ("page", "directions", "title"),
        [(page.id, str(len(page.directions)), page.title) for page in found.pages],
        shorten=2,
    )
    yield from ["", *map(str, found.findings)] if found.findings else ()


def hits(found: tuple[Hit, ...]) -> Blocks:
    """Where words were found."""
    yield Table(
        ("page", "line", "text"), [(hit.page.id, str(hit.line), hit.text) for hit in found], 2
    )
    if not found:
        yield "no page has all these words"


def routed(found: Route) -> Blocks:
    """The pages that fit, each with its directions."""
    for one in found.found:
        yield f"{one.page.id}: {one.page.title}"
        for way in one.directions:
            yield f"  {', '.join(way.answers)}: {way.title}"
            yield f"    {way.change}"
            yield f"    moves: {way.moves}"
            yield f"    hurts: {way.hurts}"
            yield from [f"    measured: {way.measured}"] if way.measured else ()
    if not found.found:
        yield "no page fits; `roofsmith knowledge list` has them all"
    else:
        yield f"{plural(len(found.found), 'page')}; `roofsmith knowledge show ID` prints one"
