"""The audit of a campaign directory: its files, and what their citations lead to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
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
from roofsmith.analysis.audit_subject import Products
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.facts import Citation, Fact
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.specs.sheet import COMMAND, cited_measurement, parse
from roofsmith.specs.wiki import Wiki
from roofsmith.store.campaign_dir import LEDGER, LINEAGE, REPOSITORY, WORKTREE
from roofsmith.store.ledger import JsonlLedger

_SUFFIXES = frozenset((
    ".md", ".rst", ".txt", ".log", ".html", ".htm", ".json", ".ipynb", ".yaml", ".yml", ".csv",
))  # fmt: skip
"""Of files that are read whatever is in them; one without an ending is read if it is text."""
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

    @cache
    def wiki() -> Wiki:
        return Wiki.load(settings.own_pages())

    @cache
    def products() -> Products:
        return products_of(wiki(), campaign)

    return Sources(
        resolve=resolver(wiki),
        kept=kept_facts(campaign.started) if campaign is not None else (),
        quoted=quotations(campaign) if campaign is not None else (),
        known=campaign.started.facts.facts() if campaign is not None else (),
        products=products,
    )


def products_of(wiki: Wiki, campaign: Campaign | None = None) -> Products:
    """Who is who: every name on every page, and the machine of a campaign."""
    pages: dict[str, set[str]] = {}
    for page in wiki.pages:
        for name in page.names:
            pages.setdefault(name, set()).add(page.origin)
    if campaign is None:
        return Products(pages)
    sheet = campaign.started.facts.datasheet
    own = kept_facts(campaign.started)
    return Products(
        pages,
        here={page.origin for page in wiki.pages if sheet is not None and page.id == sheet.page},
        machine=campaign.started.environment.device.name,
        measured={fact.citation.path for fact in own if fact.citation is not None},
    )


def resolver(wiki: Callable[[], Wiki]) -> Resolve:
    """Looks `path:line` up on a page of the wiki or in a file of measurements."""

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
