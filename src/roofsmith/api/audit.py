"""The audit of a campaign directory: its facts, and every citation in its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from roofsmith.analysis.own_facts import own_facts, paged_facts
from roofsmith.api.citations import campaigns_words, lookup_for
from roofsmith.citations.check import CitationAudit as CitationAudit
from roofsmith.citations.check import Problem, audit, check, check_hypothesis
from roofsmith.citations.form import citations_in, parse
from roofsmith.citations.sources import CitationSources
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.facts import Fact
from roofsmith.domain.refusal import Refusal
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.store.campaign_dir import LEDGER, LINEAGE, REPOSITORY, WORKTREE
from roofsmith.store.ledger import JsonlLedger

_NOT_AUDITED = frozenset((LEDGER, LINEAGE, REPOSITORY, WORKTREE, "profiles"))
"""Records and checkouts of the campaign, and what profilers wrote."""
_BARE = "a number of the hardware without a citation"
_STRUCK_NOW = "cite it in `facts`, or leave it out: new rounds have it struck"
_NOT_IN_ROUNDS = frozenset(("kernel_snapshot", "artifacts"))
_MEASURED = re.compile(r".*ceilings-\w+\.json")


def audit_campaign(directory: Path, settings: Settings) -> CitationAudit:
    """Check the ledger's facts, and every text file but candidates' sources and tools' output.

    Raises:
        UsageError: it is no directory, or holds nothing to audit.
        StorageError: a file can't be read.
    """
    texts = dict(_texts(directory))  # none where there is no such directory
    campaign, problems = _recorded(directory)
    if not texts and campaign is None and not problems:
        what = "holds nothing to audit" if directory.is_dir() else "is not a directory"
        hint = "name the directory that `roofsmith optimize` printed"
        raise UsageError(f"{directory} {what}", hint=hint)
    own = None if campaign is None else campaign.started.target.gpu_wiki
    lookup = lookup_for(settings if settings.gpu_wiki else settings.reading(own))
    sources = CitationSources(lookup)
    if campaign is not None:
        sources = CitationSources(
            lookup, own_facts(campaign.started), frozenset(_of_others(campaign))
        )
        problems += (p for _, p in _stale(paged_facts(campaign.started), CitationSources(lookup)))
        problems += _unsourced(campaign, texts, sources)
    found = audit(texts, sources)
    notes = tuple(_notes(campaign, CitationSources(lookup)))
    return replace(found, problems=(*problems, *found.problems), notes=notes)


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


def _of_others(campaign: Campaign) -> Iterator[tuple[str, str]]:
    """Citations in tips, which other campaigns made, and in pages of the library: their files may
    be gone or changed."""
    for said in (*campaign.started.tips, *campaign.started.directions):
        for text in map(str, said.model_dump().values()):
            yield from (cited.key for cited in citations_in(text))


def _unsourced(
    campaign: Campaign, texts: Mapping[str, str], sources: CitationSources
) -> Iterator[Problem]:
    """Numbers of the hardware that hypotheses of this ledger hold without a citation."""
    known = campaigns_words(campaign)
    for past in campaign.proposed:
        if past.hypothesis is None:
            continue
        file = LEDGER if isinstance(past, Refusal) else f"rounds/round-{past.round}/hypothesis.txt"
        lines = texts.get(file, "").splitlines()
        for bare in check_hypothesis(past.hypothesis, sources, known).of_devices:
            number = bare.partition(": ")[2]
            at = (n for n, line in enumerate(lines, start=1) if number in line)
            yield Problem(file, next(at, 1), "unsourced", number, _BARE, _STRUCK_NOW)


def _stale(facts: Iterable[Fact], sources: CitationSources) -> Iterator[tuple[Fact, Problem]]:
    """The facts that aren't what is written where they cite."""
    for fact in facts:
        cited = parse(str(fact))
        problem = check(cited, sources, LEDGER) if cited is not None else None
        if problem is not None:
            yield fact, problem


def _notes(campaign: Campaign | None, elsewhere: CitationSources) -> Iterator[str]:
    if campaign is None:
        yield "no ledger: citations of measurements are looked up in the files they name"
        return
    own = own_facts(campaign.started)
    measured = [f for f in own if f.citation and _MEASURED.fullmatch(f.citation.path)]
    moved = {f.citation.path for f, _ in _stale(measured, elsewhere) if f.citation}
    for path in sorted(moved):
        yield f"{path} is gone or was measured again since: the ledger's own copy counts"


def _texts(directory: Path) -> Iterator[tuple[str, str]]:
    """Every text file of statements, by its path in the campaign."""
    for root, folders, names in os.walk(directory):
        where = Path(root).relative_to(directory)
        folders[:] = sorted(name for name in folders if _is_audited(where / name))
        for relative in (where / name for name in sorted(names)):
            path = directory / relative
            if _is_audited(relative) and path.is_file() and b"\0" not in (data := _read(path)):
                yield relative.as_posix(), data.decode("utf-8", errors="replace")


def _is_audited(relative: Path) -> bool:
    parts = relative.parts
    tools_own = parts[0] == "rounds" and len(parts) > 2 and parts[2] in _NOT_IN_ROUNDS
    return not (parts[-1].startswith(".") or tools_own or parts[0] in _NOT_AUDITED)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
