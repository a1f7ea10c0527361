"""The audit of a campaign directory: its files, and what their citations lead to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from roofsmith.analysis.audit import (
    Audit,
    Problem,
    Resolve,
    Sources,
    audit,
)
from roofsmith.analysis.audit_campaign import kept_facts, quotations
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.facts import Citation, Fact
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.specs.sheet import COMMAND, cited_measurement, parse
from roofsmith.specs.wiki import Wiki
from roofsmith.store.campaign_dir import LEDGER, LINEAGE, REPOSITORY, WORKTREE
from roofsmith.store.ledger import JsonlLedger

_SUFFIXES = frozenset((".md", ".txt", ".html", ".htm", ".json", ".yaml", ".yml"))
_NOT_AUDITED = frozenset((LINEAGE, REPOSITORY, WORKTREE, "profiles"))
"""Records and checkouts of the campaign, and what profilers wrote."""
_NOT_IN_ROUNDS = frozenset(("kernel_snapshot", "artifacts"))
_MEASUREMENT = re.compile(r"(?P<path>.*ceilings-\w+\.json):(?P<line>\d+)")


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
    """Look at every text file of a campaign but its candidates' sources and its tools' output.

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
    campaign, problems = recorded(directory)
    if not texts and campaign is None and not problems:
        raise UsageError(
            f"{directory} holds nothing to audit: no ledger, no reports, no notes",
            hint="name the directory that `roofsmith optimize` printed",
        )
    found = audit(texts, sources_for(campaign, settings))
    return Audited(
        directory,
        replace(found, problems=(*problems, *found.problems)),
        tuple(_notes(campaign)),
    )


def sources_for(campaign: Campaign | None, settings: Settings) -> Sources:
    """Where citations lead: to the ledger's own copies, the wiki, and files of measurements."""
    return Sources(
        resolve=resolver(settings),
        kept=kept_facts(campaign.started) if campaign is not None else (),
        quoted=quotations(campaign) if campaign is not None else (),
        known=campaign.started.facts.facts() if campaign is not None else (),
    )


def resolver(settings: Settings) -> Resolve:
    """Looks `path:line` up on a page of the wiki or in a file of measurements."""

    @cache
    def wiki() -> Wiki:
        return Wiki.load(settings.own_pages())

    def resolve(citation: str) -> Fact | None:
        if _MEASUREMENT.fullmatch(citation):
            return _measured(citation)
        return wiki().resolve(citation)

    return resolve


def _measured(citation: str) -> Fact | None:
    """The measurement on a line of a file that `roofsmith specs measure` keeps."""
    match = _MEASUREMENT.fullmatch(citation)
    if match is None:
        return None
    try:
        file = parse(Path(match["path"]).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    line = int(match["line"])
    where = Citation(path=match["path"], line=line, command=COMMAND)
    return cited_measurement(file, where) if file is not None else None


def _texts(directory: Path) -> Iterator[tuple[str, str]]:
    """Every file of statements, by its path in the campaign."""
    for root, folders, names in os.walk(directory):
        where = Path(root).relative_to(directory)
        folders[:] = sorted(f for f in folders if _is_audited(where / f))
        for name in sorted(names):
            relative = where / name
            if relative.suffix.lower() not in _SUFFIXES or not _is_audited(relative):
                continue
            if (directory / relative).is_file():
                yield relative.as_posix(), _read(directory / relative)


def _is_audited(relative: Path) -> bool:
    parts = relative.parts
    hidden = parts[-1].startswith(".")
    tools_own = parts[0] == "rounds" and len(parts) > 2 and parts[2] in _NOT_IN_ROUNDS
    return not (hidden or tools_own or parts[0] in _NOT_AUDITED)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error


def recorded(directory: Path) -> tuple[Campaign | None, list[Problem]]:
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


def _notes(campaign: Campaign | None) -> Iterator[str]:
    if campaign is None:
        yield "no ledger: citations of measurements are looked up in the files they name"
        return
    copies = kept_facts(campaign.started)
    gone = {
        fact.citation.path
        for fact in copies
        if fact.citation is not None
        and fact.citation.line is not None
        and _moved(fact, fact.citation)
    }
    for path in sorted(gone):
        yield f"{path} is gone or was measured again since: the ledger's own copy counts"


def _moved(fact: Fact, citation: Citation) -> bool:
    now = _measured(f"{citation.path}:{citation.line}")
    return _MEASUREMENT.fullmatch(f"{citation.path}:{citation.line}") is not None and (
        now is None or now.value != fact.value
    )
