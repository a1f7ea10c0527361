"""The library: which pages there are, and which fit a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from roofsmith.config import Settings
from roofsmith.domain.profile import BottleneckKind
from roofsmith.errors import UnknownNameError, UsageError
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
        UsageError: there is no such bottleneck.
    """
    kinds = get_args(BottleneckKind)
    if bottleneck is not None and bottleneck not in kinds:
        raise UsageError(f"{bottleneck!r} is no bottleneck", hint=f"one of {', '.join(kinds)}")
    kind = cast("BottleneckKind | None", bottleneck)
    arch = None if gpu is None else _arch(gpu, settings)
    return library(settings).route(op, arch, lang, kind)


def _arch(name: str, settings: Settings) -> str:
    """What compilers call a product; a name that the wiki doesn't know is an architecture's."""
    try:
        facts = Wiki.load(settings.own_pages()).called(name)[0].entries
    except UnknownNameError:
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
