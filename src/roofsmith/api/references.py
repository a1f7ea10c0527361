"""Reference projects: what is in them, a search, and a place in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofsmith.analysis.experiments import backend_of
from roofsmith.domain.references import ReferenceSearch
from roofsmith.domain.target import Target
from roofsmith.errors import UsageError
from roofsmith.store.reference_projects import Projects, Source
from roofsmith.store.reference_projects import show_reference as show_reference
from roofsmith.targets.file import load_target
from roofsmith.targets.place import FILE_NAME


def found_for(target: Target) -> ReferenceSearch | None:
    """What a campaign begins with: kernels of its operator, those in its language first.

    A gpu-wiki is searched with them, for what its prose says of operator and language.

    None where the target names neither.
    """
    folders = (*target.references, *filter(None, (target.gpu_wiki,)))
    if not folders:
        return None
    projects, operator = Projects(tuple(map(Path, folders))), target.family or target.name
    language = backend_of(target, target.baseline)
    words = operator if language == "command" else f"{operator} {language}"
    return projects.search(words, language)


def folders_of(folders: Sequence[Path], target: Path | None) -> tuple[Path, ...]:
    """The folders that are named, or a target's, by default those of the target here.

    Raises:
        UsageError: nobody names any.
    """
    if folders:
        return tuple(folder.absolute() for folder in folders)
    place = target or Path(FILE_NAME)
    named = load_target(place).references if target or place.exists() else ()
    if not named:
        raise UsageError(
            "no reference projects are named",
            hint="--in DIR, or `references: [DIR]` in a target and --target",
        )
    return tuple(map(Path, named))


def index_references(folders: Sequence[Path]) -> tuple[Projects, tuple[Source, ...]]:
    """Every file that a search reads, with its kernels, and what is left out."""
    projects = Projects(tuple(folders))
    return projects, tuple(source for source in projects.sources() if source.kernels)


def search_references(query: str, folders: Sequence[Path], language: str | None) -> ReferenceSearch:
    """Kernels that a query tells of, the best first.

    Raises:
        UsageError: there is no word in it.
    """
    if not any(character.isalpha() for character in query):
        raise UsageError(
            "no word is searched for", hint="roofsmith knowledge references search 'softmax'"
        )
    return Projects(tuple(folders)).search(query, language)
