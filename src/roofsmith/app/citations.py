"""Where citations lead on this machine, and the check of those that a hypothesis gives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from roofsmith.analysis.own_facts import own_facts
from roofsmith.app.machine import kept_ceilings
from roofsmith.citations.check import check_hypothesis
from roofsmith.citations.sources import Source, Sources
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.facts import Citation
from roofsmith.domain.proposal import Hypothesis
from roofsmith.specs.sheet import COMMAND, cited_measurement, measurement_names, parse
from roofsmith.specs.wiki import Wiki


@dataclass(frozen=True)
class CitationCheck:
    """Looks up the citations of hypotheses; the wiki is read once, when it is first needed."""

    settings: Settings

    def __call__(
        self, hypothesis: Hypothesis, campaign: Campaign | None, known: Collection[str] = ()
    ) -> CheckedCitations:
        """What is wrong with a hypothesis's citations, and which of its numbers have none.

        Args:
            hypothesis: that somebody proposes.
            campaign: whose own facts count, and whose own words are no claims; None: there is none.
            known: more texts that are the campaign's own.

        Raises:
            UsageError: the folder of the user's own pages was named, and isn't there.
        """
        sources = Sources(self._lookup, own_facts(campaign.started) if campaign else ())
        own = {line for found in _bottlenecks(campaign) for line in found}
        return check_hypothesis(hypothesis, sources, own.union(known))

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.settings)


def citation_check(settings: Settings) -> CitationCheck:
    """The check for this machine: its wiki, its measurements, the ledger's own facts."""
    return CitationCheck(settings)


@dataclass(frozen=True)
class Lookup:
    """Finds what is written at `path:line`: on a page of the wiki, or in a kept measurement."""

    settings: Settings

    def __call__(self, place: str) -> Source | None:
        """The fact at a place; None if there is none."""
        path, _, line = place.rpartition(":")
        if not line.isdecimal():
            return None
        if any(path == str(kept) for kept in kept_ceilings(self.settings)):
            return _measured(Path(path), int(line))
        return self._on_page(place)

    @cached_property
    def _wiki(self) -> Wiki:
        return Wiki.load(self.settings.own_pages())

    def _on_page(self, place: str) -> Source | None:
        fact = self._wiki.resolve(place)
        return Source(fact, lambda label: self._wiki.is_called(place, label)) if fact else None


def _measured(path: Path, line: int) -> Source | None:
    """The measurement on a line of a file that `roofsmith specs measure` keeps."""
    try:
        file = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    if file is None:
        return None
    where = Citation(path=str(path), line=line, command=COMMAND)
    fact, names = cited_measurement(file, where), measurement_names(file, line)
    return Source(fact, lambda label: label in names) if fact else None


def _bottlenecks(campaign: Campaign | None) -> list[tuple[str, ...]]:
    """What the campaign itself says of its kernels."""
    if campaign is None:
        return []
    found = [round.bottleneck for round in campaign.rounds]
    if campaign.baseline is not None:
        found.append(campaign.baseline.bottleneck)
    return [one.evidence for one in found if one is not None]
