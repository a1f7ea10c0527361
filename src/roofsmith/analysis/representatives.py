"""Workloads that stand for all: a cheap judgement on them rejects, and never keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofsmith.analysis.regressions import regressions_in_a_row
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.category import Category
from roofsmith.domain.comparison import Judgement, Timing
from roofsmith.domain.outcome import Passed, Unstable
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass

FEW = 5
"""So many workloads are judged in full always, and at most so many stand for more."""
RISKY: frozenset[Category] = frozenset(("precision", "algebra", "dispatch"))
"""Changes whose results or gains may differ from workload to workload."""


def representatives(
    target: Target,
    classes: Sequence[ConfigClass],
    timings: Sequence[Timing],
    unevenness: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Labels of three to five workloads, in the target's order; none where there are few anyway.

    The quickest, the one in the middle and the slowest in the baseline; the most skewed one: of a
    grouped operator the one with the most uneven groups, else the most oblong shape; and of each
    class that none of these is in, the slowest, the class that takes longest first.

    Args:
        target: whose workloads they are; without a quick command a repository runs all of its rows.
        classes: a partition of them.
        timings: of the baseline, one of each workload.
        unevenness: of a grouped operator's groups, by label.
    """
    command = target.command
    if (command is not None and command.quick is None) or len(target.workloads) <= FEW:
        return ()
    ordered = sorted(timings, key=lambda timing: (timing.time_s, timing.workload))
    uneven = unevenness or {}
    skewed = max(ordered, key=lambda t: (uneven.get(t.workload, 1.0), _oblongness(t)))
    wanted = [t.workload for t in (ordered[0], ordered[-1], ordered[len(ordered) // 2], skewed)]
    chosen = list(dict.fromkeys(wanted))
    for timing in reversed(ordered):
        mine = next(c for c in classes if timing.workload in c.workloads)
        if len(chosen) < FEW and not set(chosen) & set(mine.workloads):
            chosen.append(timing.workload)
    return tuple(w.label for w in target.workloads if w.label in chosen)


def _oblongness(timing: Timing) -> float:
    """How much longer a shape is in one dimension than in another."""
    sizes = timing.dims.values()
    return max(sizes) / min(sizes) if sizes else 1.0


def quick_classes(campaign: Campaign) -> tuple[ConfigClass, ...]:
    """The config classes, each with those of its workloads that stand for all; empty without."""
    return campaign.grounds("quick").classes if campaign.baseline is not None else ()


def full_at_once(
    campaign: Campaign, hypothesis: Hypothesis, *, repairs: bool, is_own: bool
) -> str | None:
    """Why a candidate is judged in full from the start; None: first on what stands for all."""
    stop = campaign.started.target.stop
    quick = quick_classes(campaign)
    if not quick:
        return "there are few workloads"
    if repairs or is_own:
        return "it repairs a wrong result" if repairs else "it is roofsmith's own"
    if hypothesis.category in RISKY or hypothesis.bucket.startswith("W"):
        return "it is a risky change"
    if hypothesis.target_class not in ("global", *(c.name for c in quick)):
        return "no representative workload is in the class that should gain"
    slower = regressions_in_a_row(campaign.since_restart, stop.max_repairs)
    most = stop.max_consecutive_regressions
    if most is not None and len(slower) + 1 >= most:
        return "one more regression ends the campaign"
    return None


def settles(judgement: Judgement, campaign: Campaign, hypothesis: Hypothesis) -> bool:
    """Whether a quick judgement is enough to reject a candidate.

    It failed; or what should gain is slower or a tie, and no class gains, so that none diverge.
    That is enough only where every class has a representative: another one may gain.
    """
    if isinstance(judgement.outcome, Unstable):
        return False
    if not isinstance(judgement.outcome, Passed):
        return True
    found = judgement.comparison
    if found is None or judgement.verdict == "unverified":
        return False
    if any(c.estimate.verdict == "faster" for c in found.classes):
        return False
    aim = found.of(hypothesis.target_class)
    verdict = aim.verdict if aim is not None else None
    all_there = {c.config_class for c in found.classes} == {c.name for c in campaign.classes}
    return verdict in ("slower", "tie") and all_there
