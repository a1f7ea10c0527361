"""Where citations lead on this machine, and the check of those that a hypothesis gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from roofsmith.analysis import figures
from roofsmith.analysis.own_facts import own_facts, paged_facts
from roofsmith.citations.check import check_hypothesis
from roofsmith.citations.sources import CitationSource, CitationSources, Lookup
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.proposal import Hypothesis
from roofsmith.specs.sheet import measured_at, parse
from roofsmith.specs.wiki import Wiki, is_called

_DIGITS = 9
"""Of the longest line number that is looked up."""


def citation_check(settings: Settings) -> Callable[[Hypothesis, Campaign | None], CheckedCitations]:
    """Looks up the citations of a hypothesis: in the wiki, in kept measurements, in the campaign.

    The wiki is read once, when it is first needed; that raises UsageError where the folder of the
    user's own pages was named, and isn't there.
    """
    lookup = lookup_for(settings)

    def check(hypothesis: Hypothesis, campaign: Campaign | None) -> CheckedCitations:
        own = own_facts(campaign.started) if campaign is not None else ()
        facts = paged_facts(campaign.started) if campaign is not None else ()
        sources = CitationSources(lookup, own)
        return check_hypothesis(hypothesis, sources, campaigns_words(campaign), facts)

    return check


def lookup_for(settings: Settings) -> Lookup:
    """Finds what is written at `path:line`: on a page of the wiki, or in a kept measurement."""

    @cache
    def wiki() -> Wiki:
        return Wiki.load(settings.own_pages(), settings.gpu_wiki)

    def lookup(place: str) -> tuple[CitationSource, ...]:
        path, _, line = place.rpartition(":")
        if not line.isdecimal() or len(line) > _DIGITS:
            return ()
        if Path(path) in settings.kept_ceilings():
            return _measured(Path(path), int(line))
        return tuple(
            CitationSource(entry.fact(), partial(is_called, entry, page))
            for entry, page in wiki().written_at(place)
        )

    return lookup


def _measured(path: Path, line: int) -> tuple[CitationSource, ...]:
    """The measurement on a line of a file that `roofsmith specs measure` keeps, by each name."""
    try:
        file = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ()
    return () if file is None else tuple(map(CitationSource, measured_at(file, path, line)))


def campaigns_words(campaign: Campaign | None) -> frozenset[str]:
    """What the campaign itself says of its kernels; whoever repeats that claims nothing."""
    if campaign is None:
        return frozenset()
    first = () if campaign.baseline is None else (campaign.baseline,)
    seen = [*first, *campaign.rounds]
    held = (record.bottleneck for record in seen)
    counted = [c for record in seen if record.profile is not None for c in record.profile.counters]
    costs = [bound.cost for bound in campaign.started.bounds]
    return frozenset(
        (
            *(line for found in held if found is not None for line in found.evidence),
            *(figures.counter(c.value, c.unit, c.name) for c in counted),
            *(f"{c.value:.0f} registers" for c in counted if c.name == "registers_per_thread"),
            *(figures.quantity(cost.total_bytes, "byte") for cost in costs),
        )
    )
