"""The audit of a campaign directory: its facts, and every citation in its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.analysis.own_facts import own_facts, paged_facts
from roofsmith.app.citations import Lookup
from roofsmith.citations.check import Audit, Problem, audit, check
from roofsmith.citations.form import parse
from roofsmith.citations.sources import Sources
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.facts import Fact
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.store.campaign_dir import LEDGER, LINEAGE, REPOSITORY, WORKTREE
from roofsmith.store.ledger import JsonlLedger

_SUFFIXES = frozenset((
    ".md", ".rst", ".txt", ".log", ".html", ".htm", ".json", ".ipynb", ".yaml", ".yml", ".csv",
))  # fmt: skip
"""Of files that are read whatever is in them; one without an ending is read if it is text."""
_NOT_AUDITED = frozenset((LINEAGE, REPOSITORY, WORKTREE, "profiles"))
"""Records and checkouts of the campaign, and what profilers wrote."""
_NOT_IN_ROUNDS = frozenset(("kernel_snapshot", "artifacts"))
_MEASURED = re.compile(r".*ceilings-\w+\.json")


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit, and what it rested on."""

    directory: Path
    audit: Audit
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What doesn't hold; empty for a campaign that passes."""
        return self.audit.problems


def audit_campaign(directory: Path, settings: Settings) -> Audited:
    """Check the ledger's facts, and every text file but candidates' sources and tools' output.

    Raises:
        UsageError: it is no directory, or holds nothing to audit.
        StorageError: a file can't be read.
    """
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is not a directory",
            hint="name the directory that `roofsmith optimize` printed",
        )
    texts = dict(_texts(directory))
    campaign, problems = _recorded(directory)
    if not texts and campaign is None and not problems:
        raise UsageError(
            f"{directory} holds nothing to audit: no ledger, no reports, no notes",
            hint="name the directory that `roofsmith optimize` printed",
        )
    lookup = Lookup(settings)
    sources = Sources(lookup, own_facts(campaign.started) if campaign is not None else ())
    if campaign is not None:
        problems += (p for _, p in _stale(paged_facts(campaign.started), Sources(lookup)))
    found = audit(texts, sources)
    return Audited(
        directory,
        replace(found, problems=(*problems, *found.problems)),
        tuple(_notes(campaign, Sources(lookup))),
    )


def _recorded(directory: Path) -> tuple[Campaign | None, list[Problem]]:
    """The campaign that the ledger holds; a ledger that was changed vouches for nothing."""
    path = directory / LEDGER
    if not path.is_file():
        return None, []
    try:
        return replay(JsonlLedger(path).events()), []
    except (LedgerError, ValueError) as error:
        why = error.message if isinstance(error, LedgerError) else str(error)
        fix = "its copies of facts don't count; `roofsmith verify` says what was changed"
        return None, [Problem(LEDGER, 1, "ledger", "records", why, fix)]


def _stale(facts: Iterable[Fact], sources: Sources) -> Iterator[tuple[Fact, Problem]]:
    """The facts that aren't what is written where they cite."""
    for fact in facts:
        cited = parse(str(fact))
        problem = check(cited, sources, LEDGER) if cited is not None else None
        if problem is not None:
            yield fact, problem


def _notes(campaign: Campaign | None, elsewhere: Sources) -> Iterator[str]:
    if campaign is None:
        yield "no ledger: citations of measurements are looked up in the files they name"
        return
    own = own_facts(campaign.started)
    measured = [f for f in own if f.citation and _MEASURED.fullmatch(f.citation.path)]
    moved = {f.citation.path for f, _ in _stale(measured, elsewhere) if f.citation}
    for path in sorted(moved):
        yield f"{path} is gone or was measured again since: the ledger's own copy counts"


def _texts(directory: Path) -> Iterator[tuple[str, str]]:
    """Every file of statements, by its path in the campaign."""
    for root, folders, names in os.walk(directory):
        where = Path(root).relative_to(directory)
        folders[:] = sorted(f for f in folders if _is_audited(where / f))
        for name in sorted(names):
            relative = where / name
            path = directory / relative
            if not _is_audited(relative) or not path.is_file():
                continue
            if relative.suffix.lower() in _SUFFIXES:
                yield relative.as_posix(), _read(path).decode("utf-8", errors="replace")
            elif not relative.suffix and (text := _text_of(_read(path))) is not None:
                yield relative.as_posix(), text


def _is_audited(relative: Path) -> bool:
    parts = relative.parts
    hidden = parts[-1].startswith(".")
    tools_own = parts[0] == "rounds" and len(parts) > 2 and parts[2] in _NOT_IN_ROUNDS
    return not (hidden or tools_own or parts[0] in _NOT_AUDITED)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error


def _text_of(data: bytes) -> str | None:
    """What UTF-8 says; None of what is no text, as programs are none."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
