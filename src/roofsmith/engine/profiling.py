"""Looks at candidates that passed with the profiler; twice where it contradicts the judge.

The workload is the one that takes a candidate longest. Where a class should gain that it isn't in,
what would be kept is looked at on that class's slowest one, too, right after the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.profiled import Profiles
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import KERNEL_TIME, Bottleneck, Profile
from roofsmith.ports import Evaluator, Scope, asked


@dataclass(frozen=True, slots=True)
class Seen:
    """What the profiler saw of a candidate; nothing, if it wasn't asked."""

    profile: Profile | None = None
    bottleneck: Bottleneck | None = None
    incumbent_profile: Profile | None = None
    """Of the incumbent, taken anew right before the candidate's."""
    aimed: tuple[Profile, Profile] | None = None
    """Of both, on a workload of the class that should gain, where `profile` is of another one."""

    @staticmethod
    def recorded(round_: Round) -> Seen:
        """What a round's record holds of it."""
        return Seen(
            round_.profile, round_.bottleneck, round_.incumbent_profile, round_.aimed_profiles
        )

    @property
    def is_timed(self) -> bool:
        """Whether the profiler times kernels at all."""
        return self.profile is not None and self.profile.get(KERNEL_TIME) is not None


def look(
    evaluator: Evaluator, campaign: Campaign, candidate: Candidate, label: str, time_s: float
) -> tuple[Profile, Bottleneck]:
    """Profile a kernel on one workload, and say what limits it there."""
    profile = profiled(evaluator, campaign, candidate, label)
    return profile, classify(campaign.bound(label), time_s, profile)


def profiled(evaluator: Evaluator, campaign: Campaign, candidate: Candidate, label: str) -> Profile:
    """Counters of a candidate, or of the incumbent, on the workload of a label."""
    workload = campaign.started.target.workload(label)
    scope = Scope(profile=workload, built_before=candidate.id == campaign.incumbent.id)
    return asked(evaluator.evaluate(candidate, None, scope).profile)


def look_at(
    evaluator: Evaluator, campaign: Campaign, candidate: Candidate, judgement: Judgement
) -> Seen:
    """A candidate that passed, on the workload that takes it longest."""
    slowest = _slowest(judgement)
    if slowest is None:
        return Seen()
    return Seen(*look(evaluator, campaign, candidate, *slowest))


def look_again(
    evaluator: Evaluator, campaign: Campaign, candidate: Candidate, judgement: Judgement
) -> Seen:
    """The same, right after the incumbent: a profiler's figures drift from hour to hour."""
    slowest = _slowest(judgement)
    if slowest is None:
        return Seen()
    before = profiled(evaluator, campaign, campaign.incumbent, slowest[0])
    return Seen(*look(evaluator, campaign, candidate, *slowest), incumbent_profile=before)


def see(
    evaluator: Evaluator,
    campaign: Campaign,
    candidate: Candidate,
    judgement: Judgement,
    target_class: str,
    would_be_kept: Callable[[Seen | None], bool],
) -> Seen:
    """A candidate that passed; once more where the profiler alone is against keeping it.

    The incumbent is looked at beside it where that was last done on another workload. A command
    target's profiler has spoken in the judgement, with more runs than one.

    Args:
        evaluator: profiles.
        campaign: before the round.
        candidate: what was judged.
        judgement: of it.
        target_class: what should gain.
        would_be_kept: by what was seen; by the judgement alone for None.
    """
    seen = look_at(evaluator, campaign, candidate, judgement)
    is_command = campaign.started.target.command is not None
    if is_command or not seen.is_timed or not would_be_kept(None):
        return seen
    if not any(found.times_s for found in profiles_of(campaign, seen)):
        seen = look_again(evaluator, campaign, candidate, judgement)
    seen = _with_aimed(evaluator, campaign, candidate, judgement, target_class, seen)
    if would_be_kept(seen):
        return seen
    seen = look_again(evaluator, campaign, candidate, judgement)
    return _with_aimed(evaluator, campaign, candidate, judgement, target_class, seen)


def profiles_of(campaign: Campaign, seen: Seen) -> tuple[Profiles, ...]:
    """What the profiler saw of incumbent and candidate, on every workload on which it saw both."""
    held = seen.incumbent_profile or _held(campaign)
    pairs = [] if held is None or seen.profile is None else [(held, seen.profile)]
    pairs += [] if seen.aimed is None else [seen.aimed]
    is_launch_timed = campaign.started.target.timing == "launch"
    return tuple(Profiles(before, after, is_launch_timed) for before, after in pairs)


def _with_aimed(
    evaluator: Evaluator,
    campaign: Campaign,
    candidate: Candidate,
    judgement: Judgement,
    target_class: str,
    seen: Seen,
) -> Seen:
    """Both kernels on the slowest workload of the class that should gain, unless that was seen."""
    slowest = _slowest(judgement, target_class)
    known = seen.profile.workload if seen.profile is not None else None
    if slowest is None or known is None:
        return seen
    members = {c.name: c.workloads for c in campaign.classes}.get(target_class, (known,))
    if known in members:
        return seen
    before = profiled(evaluator, campaign, campaign.incumbent, slowest[0])
    return replace(seen, aimed=(before, profiled(evaluator, campaign, candidate, slowest[0])))


def _held(campaign: Campaign) -> Profile | None:
    """Of the incumbent, from when it became that; a kept round without a profile has none."""
    if campaign.kept:
        return campaign.kept[-1].profile
    return None if campaign.baseline is None else campaign.baseline.profile


def _slowest(judgement: Judgement, target_class: str = "global") -> tuple[str, float] | None:
    """The workload of a class that takes a candidate longest, and how long; None: leave it alone.

    Of all workloads, unless a class is named.
    """
    comparison = judgement.comparison
    if comparison is None or isinstance(judgement.outcome, Incorrect):  # by sanitizers
        return None
    members = [w for w in comparison.workloads if target_class in ("global", w.config_class)]
    if not members:
        return None
    slowest = max(members, key=lambda found: found.candidate_time_s)
    return slowest.workload, slowest.candidate_time_s
