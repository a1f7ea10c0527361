"""What commands print on stdout of judgements and campaigns: for people, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from roofsmith.api import documents
from roofsmith.api.views import benched as of_bench
from roofsmith.api.views import bounded, programs, results
from roofsmith.cli.output import dumped, printed
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.profile import Profile

if TYPE_CHECKING:
    from roofsmith.api import Measured

judgement = partial(printed, document=documents.judgement_document, view=results.judgement)
benched = partial(printed, document=documents.benched_document, view=of_bench.benched)
bottlenecks = partial(printed, document=documents.bottlenecks_document, view=results.bottlenecks)
roofline = partial(printed, document=documents.roofline_document, view=bounded.bounded)
finished = partial(printed, document=documents.finished_document, view=results.finished)
program = partial(printed, document=dumped, view=programs.analysis)
program_plan = partial(printed, document=dumped, view=programs.plan)
verification = partial(printed, document=documents.verification_document, view=results.verification)


def measured(found: Measured, *, as_json: bool, measure: Measure = TIME) -> None:
    """Right or wrong, how far off, and how fast."""
    document = partial(documents.measured_document, measure=measure)
    printed(found, document, partial(results.measured, measure=measure), as_json=as_json)


def profiles(found: Sequence[Profile], *, as_json: bool) -> None:
    """Counters per workload."""
    printed(
        found, lambda all_: {"profiles": [*map(dumped, all_)]}, results.profiles, as_json=as_json
    )
