"""The library: which pages there are, and which fit a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args

from roofsmith.config import Settings
from roofsmith.domain.profile import BottleneckKind
from roofsmith.errors import AmbiguousNameError, UnknownNameError, UsageError
from roofsmith.knowledge.library import Hit, Library, Routed
from roofsmith.knowledge.page import LibraryPage
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_page import Page


@dataclass(frozen=True, slots=True)
class Route:
    """The pages that fit, and what was asked for."""

    op: str | None
    gpu: str | None
    """As the library calls it: `sm_90` for an H100."""
    lang: str | None
    bottleneck: BottleneckKind | None
    found: tuple[Routed, ...]


def library(settings: Settings) -> Library:
    """The bundled pages and the user's own; what is wrong with any is in its findings."""
    return Library.load(settings.knowledge_dir)


def search_library(settings: Settings, words: str) -> tuple[Hit, ...]:
    """Pages that have all the words."""
    return library(settings).search(words)


def route_library(
    settings: Settings,
    op: str | None = None,
    gpu: str | None = None,
    lang: str | None = None,
    bottleneck: str | None = None,
) -> Route:
    """The pages for a kernel, the most specific first.

    Args:
        settings: folders of this user.
        op: operator, such as softmax.
        gpu: a product of the wiki, such as H100, or an architecture, such as sm_90.
        lang: language, such as triton.
        bottleneck: as profiles are classified.

    Raises:
        UsageError: there is no such bottleneck.
    """
    kinds = get_args(BottleneckKind)
    if bottleneck is not None and bottleneck not in kinds:
        hint = f"one of {', '.join(kinds)}"
        raise UsageError(f"{bottleneck!r} is no bottleneck", hint=hint)
    kind = cast("BottleneckKind | None", bottleneck)
    arch = None if gpu is None else _arch(gpu, settings)
    return Route(op, arch, lang, kind, library(settings).route(op, arch, lang, kind))


def _arch(name: str, settings: Settings) -> str:
    """The architecture of a product; a name that the wiki doesn't know is one itself."""
    try:
        page = Wiki.load(settings.own_pages()).called(name)[0]
    except (UnknownNameError, AmbiguousNameError):
        return name
    return _compiled_for(page) or name


def _compiled_for(page: Page) -> str | None:
    """What compilers call a product: `sm_90` of compute capability 9.0, or its gfx target."""
    if (gfx := page.entries.get("identity.gfx_target")) is not None:
        return str(gfx.told.value)
    capability = page.entries.get("identity.compute_capability")
    return None if capability is None else f"sm_{str(capability.told.value).replace('.', '')}"


def page_document(page: LibraryPage) -> dict[str, Any]:
    """A page as JSON, without its text."""
    return {
        "id": page.id, "title": page.title, "file": str(page.file), "own": page.is_own,
        "op": list(page.op), "gpu": list(page.gpu), "lang": list(page.lang),
        "directions": [one.model_dump(mode="json") for one in page.directions],
        "sources": dict(page.sources),
    }  # fmt: skip


def library_document(found: Library) -> dict[str, Any]:
    """Every page, and what is wrong with any."""
    return {
        "pages": [page_document(page) for page in found.pages],
        "findings": [one.model_dump(mode="json") for one in found.findings],
    }


def hits_document(found: tuple[Hit, ...]) -> dict[str, Any]:
    """Where words were found."""
    rows = ({"id": h.page.id, "title": h.page.title, "line": h.line, "text": h.text} for h in found)
    return {"hits": list(rows)}


def route_document(found: Route) -> dict[str, Any]:
    """What was asked for, and the pages with the directions that fit."""
    asked = {"op": found.op, "gpu": found.gpu, "lang": found.lang, "bottleneck": found.bottleneck}
    pages = [
        {
            **page_document(routed.page),
            "directions": [one.model_dump(mode="json") for one in routed.directions],
        }
        for routed in found.found
    ]
    return {**asked, "pages": pages}
