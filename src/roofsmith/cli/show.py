"""What commands print on stdout of judgements and campaigns: for people, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from roofsmith.api import documents
from roofsmith.api.views import benched as of_bench
from roofsmith.api.views import bounded, results
from roofsmith.cli.output import dumped, print_json, print_lines, printed
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.profile import Bottleneck, Profile

if TYPE_CHECKING:
    from roofsmith.api import (
        Benched,
        FinishedCampaign,
        Measured,
        Roofline,
        SessionState,
        ToldRounds,
        Verification,
    )


def judgement(found: Judgement, *, as_json: bool) -> None:
    """Verdict, ratio with interval, and a line per workload."""
    printed(found, documents.judgement_document, results.judgement, as_json=as_json)


def measured(found: Measured, *, as_json: bool, measure: Measure = TIME) -> None:
    """Right or wrong, how far off, and how fast."""
    document = partial(documents.measured_document, measure=measure)
    printed(found, document, partial(results.measured, measure=measure), as_json=as_json)


def benched(found: Benched, *, as_json: bool) -> None:
    """How fast, how near the ceilings, and how much faster than PyTorch."""
    printed(found, documents.benched_document, of_bench.benched, as_json=as_json)


def profiles(found: Sequence[Profile], *, as_json: bool) -> None:
    """Counters per workload."""
    printed(
        found, lambda all_: {"profiles": [*map(dumped, all_)]}, results.profiles, as_json=as_json
    )


def bottlenecks(found: Sequence[tuple[str, Bottleneck]], *, as_json: bool) -> None:
    """What limits a kernel on each workload, and why we think so."""
    printed(found, documents.bottlenecks_document, results.bottlenecks, as_json=as_json)


def roofline(found: Roofline, *, as_json: bool) -> None:
    """Bounds and goals per workload, and the facts that they rest on."""
    printed(found, documents.roofline_document, bounded.bounded, as_json=as_json)


def finished(found: FinishedCampaign, *, as_json: bool) -> None:
    """The table of rounds, the total, and where to look next."""
    printed(found, documents.finished_document, results.finished, as_json=as_json)


def told(found: ToldRounds, *, as_json: bool) -> None:
    """One round from outside, the dispatch that followed from it, and the end that they led to."""
    printed(found, documents.told_document, results.told, as_json=as_json)


def standing(found: SessionState, *, as_markdown: bool = False) -> None:
    """JSON for a program, or the page that a model reads."""
    if as_markdown:
        print_lines(found.markdown.splitlines())
    else:
        print_json(documents.standing_document(found))


def verification(found: Verification, *, as_json: bool) -> None:
    """What was recomputed, and what doesn't follow."""
    printed(found, documents.verification_document, results.verification, as_json=as_json)
