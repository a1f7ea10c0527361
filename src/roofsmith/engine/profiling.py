"""Looks at candidates that passed with the profiler; twice where it contradicts the judge."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.decide import Profiles
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.engine.workbench import Workbench


@dataclass(frozen=True, slots=True)
class Seen:
    """What the profiler saw of a candidate; nothing, if it wasn't asked."""

    profile: Profile | None = None
    bottleneck: Bottleneck | None = None
    incumbent_profile: Profile | None = None
    """Of the incumbent, taken anew right before the candidate's."""


def look(
    bench: Workbench, campaign: Campaign, built: Built, label: str, time_s: float
) -> tuple[Profile, Bottleneck]:
    """Profile a kernel on one workload, and say what limits it there."""
    profile = bench.profile(built, campaign.started.target.workload(label))
    return profile, classify(campaign.bound(label), time_s, profile)


def look_at(bench: Workbench, campaign: Campaign, built: Built, judgement: Judgement) -> Seen:
    """A candidate that passed, on the workload that takes it longest."""
    slowest = _slowest(judgement)
    if slowest is None:
        return Seen()
    return Seen(*look(bench, campaign, built, *slowest))


def look_again(bench: Workbench, campaign: Campaign, built: Built, judgement: Judgement) -> Seen:
    """The same, right after the incumbent: a profiler's figures drift from hour to hour."""
    slowest = _slowest(judgement)
    if slowest is None:
        return Seen()
    label, time_s = slowest
    workload = campaign.started.target.workload(label)
    before = bench.profile(bench.rebuild(campaign.incumbent), workload)
    return Seen(*look(bench, campaign, built, label, time_s), incumbent_profile=before)


def profiles_of(campaign: Campaign, seen: Seen) -> Profiles | None:
    """What the profiler saw of incumbent and candidate; None unless it saw both."""
    held = seen.incumbent_profile or _held(campaign)
    return None if held is None or seen.profile is None else (held, seen.profile)


def _held(campaign: Campaign) -> Profile | None:
    """Of the incumbent, from when it became that; a kept round without a profile has none."""
    if campaign.kept:
        return campaign.kept[-1].profile
    return None if campaign.baseline is None else campaign.baseline.profile


def _slowest(judgement: Judgement) -> tuple[str, float] | None:
    """The workload that takes a candidate longest, and how long; None: leave it alone."""
    comparison = judgement.comparison
    if comparison is None or isinstance(judgement.outcome, Incorrect):  # by sanitizers
        return None
    slowest = max(comparison.workloads, key=lambda found: found.candidate_time_s)
    return slowest.workload, slowest.candidate_time_s
