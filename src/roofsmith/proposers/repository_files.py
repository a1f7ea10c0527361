"""Files of a repository as cards read kernels: each function that nothing in its file calls is one.

What a card changes goes back into the repository's file. Its build is frozen, so cards that need a
compiler's flag don't apply, nor those that start threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from roofsmith.domain.facts import DType
from roofsmith.domain.kernel import (
    Candidate,
    Language,
    Parameter,
    Signature,
    SourceFile,
    default_build,
)
from roofsmith.ports import Brief
from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.reading import INSERTED_PREFIX
from roofsmith.proposers.source import CFunction, Source
from roofsmith.proposers.syntax import calls

_LANGUAGES: Final[dict[str, Language]] = {".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp"}
_DTYPES: Final[dict[str, DType]] = {"float": "float32", "double": "float64"}
_MAX_FUNCTIONS: Final = 50
"""Of a file that are looked at: each costs a reading of it. Chosen."""


def contexts_of(brief: Brief) -> Iterator[CardContext]:
    """What cards look at: the incumbent, or each function of a repository's editable files."""
    whole = CardContext.of(brief)
    if brief.campaign.started.target.command is None:
        yield whole
        return
    for file in brief.incumbent.sources:
        language = _LANGUAGES.get(PurePosixPath(file.path).suffix.lower())
        if language is not None:
            others = tuple(other for other in brief.incumbent.sources if other != file)
            yield from _of_file(whole, language, file, others)


def in_repository(
    change: CardChange, context: CardContext, incumbent: Candidate
) -> CardChange | None:
    """A change of one file as one of the repository; None where it needs another build."""
    if incumbent.language != "command":
        return change
    if change.candidate.build != context.build:
        return None
    changed = change.candidate.kernel
    sources = tuple(changed if s.path == changed.path else s for s in incumbent.sources)
    candidate = incumbent.model_copy(update={"sources": sources})
    return replace(change, candidate=candidate, statement=f"{changed.path}: {change.statement}")


def _of_file(
    whole: CardContext, language: Language, file: SourceFile, others: tuple[SourceFile, ...]
) -> Iterator[CardContext]:
    source = Source(file.text, language)
    own = [f for f in source.functions if not f.name.startswith(INSERTED_PREFIX)]
    called = {name for function in own for name, _ in calls(function.body)}
    roots = [function for function in own if function.name not in called] or own
    for function in roots[:_MAX_FUNCTIONS]:
        candidate = Candidate(
            language=language, sources=(file, *others), build=default_build("command"),
            entry=function.name,
        )  # fmt: skip
        signature = _signature(function)
        yield replace(
            whole, candidate=candidate, signature=signature, threads=1, keeps_contract=False
        )


def _signature(function: CFunction) -> Signature:
    """As far as the file says: types that it has from elsewhere count as whole numbers."""
    found = tuple(
        Parameter(
            name=parameter.name,
            role="size" if not parameter.pointer else "input" if parameter.const else "output",
            dtype=_DTYPES.get(function.element_types.get(parameter.name, ""), "int32"),
        )
        for parameter in function.parameters
        if parameter.name
    )
    return Signature(entry=function.name, parameters=found)
