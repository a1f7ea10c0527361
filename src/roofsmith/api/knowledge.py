"""The library: which pages there are, and which fit a kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, cast, get_args

from roofsmith.analysis.flops import FAMILIES
from roofsmith.config import Settings
from roofsmith.domain.profile import BottleneckKind
from roofsmith.errors import UnknownNameError
from roofsmith.knowledge.library import Hit, Library
from roofsmith.knowledge.page import LibraryPage
from roofsmith.specs.wiki import Wiki


def library(settings: Settings) -> Library:
    """The bundled pages and the user's own; what is wrong with any is in its findings."""
    return Library.load(settings.knowledge_dir)


def route(
    settings: Settings,
    op: str | None = None,
    gpu: str | None = None,
    lang: str | None = None,
    bottleneck: str | None = None,
) -> tuple[LibraryPage, ...]:
    """The pages for a kernel, the most specific first.

    Args:
        settings: folders of this user.
        op: operator, such as softmax.
        gpu: a product of the wiki, such as H100, or an architecture, such as sm_90.
        lang: language, such as triton.
        bottleneck: as profiles are classified.

    Raises:
        UnknownNameError: there is no such bottleneck, product or architecture, or the library
            speaks of no such operator or language; the hint has the nearest ones.
    """
    pages, kinds = library(settings), get_args(BottleneckKind)
    kind = bottleneck and bottleneck.removesuffix("-bound")
    if kind is not None and kind not in kinds:
        raise _unknown("bottleneck", kind, kinds)
    if op is not None and not pages.speaks_of("op", op) and op.lower() not in FAMILIES:
        raise _unknown("operator", op, {*FAMILIES, *pages.known("op")})
    if lang is not None and not pages.speaks_of("lang", lang):
        raise _unknown("language", lang, pages.known("lang"))
    arch = None if gpu is None else _arch(gpu, settings, pages)
    return pages.route(op, arch, lang, cast("BottleneckKind | None", kind))


def _unknown(what: str, name: str, known: Collection[str]) -> UnknownNameError:
    close = get_close_matches(name.lower(), sorted(known), cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"one of {', '.join(sorted(known))}"
    return UnknownNameError(f"the library knows no {what} {name!r}", hint=hint)


def _arch(name: str, settings: Settings, pages: Library) -> str:
    """What compilers call a product; a name that the wiki doesn't know is an architecture's."""
    try:
        facts = Wiki.load(settings.own_pages()).called(name)[0].entries
    except UnknownNameError:
        if not (name.startswith(("sm_", "gfx")) or pages.speaks_of("gpu", name)):
            raise
        return name
    if (target := facts.get("identity.gfx_target")) is not None:
        return str(target.told.value)
    capability = facts.get("identity.compute_capability")
    return name if capability is None else f"sm_{str(capability.told.value).replace('.', '')}"


def pages_document(found: Sequence[LibraryPage]) -> dict[str, Any]:
    """Pages without their text."""
    return {"pages": [page.model_dump(mode="json", exclude={"text"}) for page in found]}


def library_document(found: Library) -> dict[str, Any]:
    """Every page, and what is wrong with any."""
    wrong = [one.model_dump(mode="json") for one in found.findings]
    return {**pages_document(found.pages), "findings": wrong}


def hits_document(found: Sequence[Hit]) -> dict[str, Any]:
    """Where words were found."""
    return {"hits": [hit.model_dump(mode="json") for hit in found]}
