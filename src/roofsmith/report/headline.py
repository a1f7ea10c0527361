"""The figure that leads a report: what it rests on, and what it is on shapes never shown. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bounds import waiting_of
from roofsmith.analysis.compare import is_open
from roofsmith.analysis.fractions import attainable_name, attainable_share
from roofsmith.analysis.weights import shares
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.held_out import Generalization
from roofsmith.report.steps import counting_ratio, held_profile, why_unmeasured
from roofsmith.report.summary import Ratio, Summary, Unseen

NEAR_CEILING = 0.97
"""Share of the roofline above which a reader asks what may lie beyond it."""
APART = (
    "ratios are of pairs, both kernels under the same conditions; alone, the baseline was timed"
    " before the first round and the final kernel after the last, whatever the machine did then"
)
"""Why ratios differ from the quotient of kernels that were measured alone."""
_MATRIX_COUNTERS = ("tensor_matrix_pipe", "tensor_pipe")
"""The first that was read says it: the second also counts packed arithmetic."""


def leading(campaign: Campaign, product: Ratio | None) -> Judgement | None:
    """The last end's comparison with the baseline, where it leads in place of the rounds' product.

    It doesn't where its interval encloses the product's: disturbed, it says less.
    """
    found = campaign.stopped.against_baseline if campaign.stopped is not None else None
    ratio = None if found is None else counting_ratio(found)
    if ratio is None or product is None or ratio.encloses(product):
        return None
    return found


def rests_on(campaign: Campaign, summary: Summary) -> str:
    """What the headline's figures are, in a few sentences; empty where nothing was kept."""
    return " ".join(_sentences(campaign, summary)) if summary.kept else ""


def in_full(campaign: Campaign, summary: Summary) -> str:
    """The same, and by which clock and in which processes they were measured."""
    said = (*_sentences(campaign, summary), *_conditions(campaign, summary))
    return " ".join(said) if summary.kept else ""


def _conditions(campaign: Campaign, summary: Summary) -> Iterator[str]:
    if all(round_.judgement.clock for round_ in campaign.kept):
        yield (
            "Times are by the workers' clock; the judge's own confirmed every gain, and counts"
            " where it saw less."
        )
    if summary.alone is not None:
        yield (
            f"Final {summary.measure.plural} and shares are of the final measurement, alone in"
            " fresh processes; a round's are of its pairs."
        )
        yield from _apart(summary)


def _apart(summary: Summary) -> Iterator[str]:
    """Why baseline over final is another figure than the headline, where it is."""
    if summary.headline is None or summary.alone is None:
        return
    headline, alone = fmt.speedup(summary.headline.value), fmt.speedup(summary.alone)
    if headline != alone:
        yield f"Baseline over final is {alone} and not {headline}: {APART}."
    if summary.measured is not None and not summary.is_direct:
        measured = fmt.ratio(summary.measured.value, summary.measured.ci)
        yield (
            f"In turns at the end they came to {measured}, too wide an interval to say more than"
            " the product."
        )


def _sentences(campaign: Campaign, summary: Summary) -> Iterator[str]:
    if summary.is_direct and summary.speedup is not None:
        product = fmt.ratio(summary.speedup.value, summary.speedup.ci)
        yield (
            "Baseline and final kernel were measured in turns at the end; product of the kept"
            f" rounds: {product}, each by its own pairs, under the conditions of its own time."
        )
    if summary.is_direct and (why := _why_open(leading(campaign, summary.speedup))):
        yield why
    if campaign.kept and (needed := campaign.kept[-1].only_where):
        yield f"The final kernel is right only where {' and '.join(needed)}."
    started, bounds = campaign.started, campaign.started.bounds
    share = attainable_share(summary.fraction, bounds)
    if share is not None:
        yield (
            f"That is {fmt.share(share, started.bytes_only)} of the {attainable_name(bounds)}:"
            " what a copy of the same bytes reaches under the judge's conditions."
        )
    yield from _by_weight(campaign, summary)
    if unscored := campaign.started.target.unscored:
        labels = ", ".join(workload.label for workload in unscored)
        yield f"Checked and not timed, since their inputs can't vary: {labels}."
    yield from _beyond(campaign, summary)


def _by_weight(campaign: Campaign, summary: Summary) -> Iterator[str]:
    """What it comes to where workloads count differently, and the part of each class in it."""
    weights = shares(campaign.started.target)
    ratios = {one.label: one.speedup.value for one in summary.workloads if one.speedup is not None}
    if not weights or not weights.keys() <= ratios.keys():
        return
    mean = math.exp(sum(share * math.log(ratios[label]) for label, share in weights.items()))
    left = sum(share / ratios[label] for label, share in weights.items())
    yield (
        f"Each workload counts alike there; by weight it is {fmt.speedup(mean)}, and all of the"
        f" time that the weights are shares of gets {fmt.speedup(1 / left)} faster."
    )
    for one in campaign.classes if len(campaign.classes) > 1 else ():
        share = sum(weights.get(label, 0.0) for label in one.workloads)
        most = f", at most {fmt.speedup(1 / (1 - share))} of the whole" if share < 1 else ""
        yield f"{one.name} is {share:.0%} of that time{most}."


def _why_open(found: Judgement | None) -> str:
    """Why an end of the leading figure's interval isn't known; empty where both are."""
    comparison = found.comparison if found is not None else None
    if found is None or comparison is None or not is_open(comparison.overall):
        return ""
    why = waiting_of(found.confirmation or found.samples)
    pairs = fmt.plural(comparison.overall.pairs, "pair")
    return f"Its interval is open: {why or f'{pairs} were too few to close it'}."


def _beyond(campaign: Campaign, summary: Summary) -> Iterator[str]:
    """Where matrix units are, or may be, faster than the ceiling."""
    started = campaign.started
    if started.environment.device.kind == "cpu":
        return
    metrics = _fma_metrics(campaign)
    bounds = [b for b in started.bounds if b.limiter == "compute" and b.peak.metric in metrics]
    if bounds and (_is_near(summary, bounds) or _uses_matrix_units(summary)):
        yield (
            f"The ceiling is the {bounds[0].cost.dtype} FMA peak: products that are split over"
            " tensor or matrix cores may go beyond it."
        )


def _fma_metrics(campaign: Campaign) -> set[str]:
    facts = campaign.started.facts
    printed = facts.datasheet.compute if facts.datasheet is not None else ()
    known = (*facts.compute, *facts.reached_compute, *printed)
    return {ceiling.fact.metric for ceiling in known if ceiling.operation == "fma"}


def _is_near(summary: Summary, bounds: list[Bound]) -> bool:
    labels = {bound.workload for bound in bounds}
    shares = [row.fraction for row in summary.workloads if row.label in labels]
    return any(share is not None and share > NEAR_CEILING for share in shares)


def _uses_matrix_units(summary: Summary) -> bool:
    profile = held_profile(summary)
    seen = (profile.get(name) for name in _MATRIX_COUNTERS) if profile is not None else ()
    return bool(next((share for share in seen if share is not None), 0.0))


def unseen_of(found: Generalization | None, headline: float) -> Unseen | None:
    """What an end says of shapes that were never shown; None where it says nothing."""
    if found is None:
        return None
    ratio = counting_ratio(found.judgement)
    return Unseen(
        speedup=ratio,
        workloads=tuple(workload.label for workload in found.held_out.workloads),
        headline=headline,
        failure=None
        if ratio is not None
        else why_unmeasured(found.judgement, "no undisturbed pair was had"),
    )
