"""Pages of the library, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from roofsmith.analysis.figures import plural
from roofsmith.api.views.blocks import Blocks, Table

if TYPE_CHECKING:
    from roofsmith.api.knowledge import Routed
    from roofsmith.knowledge.library import Hit, Library

_ASKED: Final = {"op": "the operator", "gpu": "the architecture", "lang": "the language"}


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


def routed(found: Routed) -> Blocks:
    """The pages that fit, each with its directions, then what no page is about."""
    for page in found.pages:
        yield f"{page.id}: {page.title}"
        for way in page.directions:
            yield f"  {', '.join(way.answers)}: {way.title}"
            yield f"    {way.change}"
            yield f"    moves: {way.moves}"
            yield f"    hurts: {way.hurts}"
            yield from [f"    measured: {way.measured}"] if way.measured else ()
            said = (page.sources.get(key.strip(), key) for key in way.source.split(","))
            yield f"    source: {'; '.join(said)}"
    for key, name in found.silent_on.items():
        yield f"no page is about {_ASKED[key]} {name}"
    if not found.pages:
        yield "no page fits; `roofsmith knowledge list` has them all"
    else:
        yield f"{plural(len(found.pages), 'page')}; `roofsmith knowledge show ID` prints one"
