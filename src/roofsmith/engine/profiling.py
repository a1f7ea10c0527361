"""Looks at candidates that passed with the profiler; twice where it contradicts the judge.

The workload is the one that takes a candidate longest; of one that won't be kept, that which the
incumbent was seen on, so that their counters can be compared. Where a class should gain that it
isn't in, what would be kept is looked at on that class's slowest one, too, right after the
incumbent.
"""

from __future__ import annotations

from dataclasses import replace

from roofsmith.analysis.bottleneck import classify
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.engine.seen import Seen, held, profiles_of
from roofsmith.ports import Evaluator, Scope, required


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
    return required(evaluator.evaluate(candidate, None, scope).profile)


def listed(evaluator: Evaluator, candidate: Candidate, profile: Profile) -> Disassembly:
    """The instructions that a kernel spends its time on, on the workload that it was profiled on.

    What can't be had is said in the answer.
    """
    scope = Scope(disassemble=profile, built_before=True)
    return required(evaluator.evaluate(candidate, None, scope).disassembly)


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """Keep check: the profiler looks; once more where it alone is against keeping a candidate.

    The incumbent is looked at beside it where that was last done on another workload. A command
    target's profiler has spoken in the judgement, with more runs than one.
    """
    slowest = _slowest(case.judgement)
    if slowest is None:
        return case
    campaign = case.campaign
    if not would_be_kept(case):
        slowest = _beside_incumbent(case) or slowest
    seen = Seen(*look(evaluator, campaign, case.candidate, *slowest))
    plain, case = case, replace(case, seen=seen)
    is_command = campaign.started.target.command is not None
    if is_command or not seen.is_timed or not would_be_kept(plain):
        return case
    if not any(found.times_s for found in profiles_of(campaign, seen)):
        case = _look_again(case, evaluator, *slowest)
    case = _with_aimed(case, evaluator)
    if would_be_kept(case):
        return case
    return _with_aimed(_look_again(case, evaluator, *slowest), evaluator)


def _look_again(case: Case, evaluator: Evaluator, label: str, time_s: float) -> Case:
    """Right after the incumbent: a profiler's figures drift from hour to hour."""
    campaign = case.campaign
    before = profiled(evaluator, campaign, campaign.incumbent, label)
    found = look(evaluator, campaign, case.candidate, label, time_s)
    return replace(case, seen=Seen(*found, incumbent_profile=before))


def _with_aimed(case: Case, evaluator: Evaluator) -> Case:
    """Both kernels on the slowest workload of the class that should gain, unless that was seen."""
    campaign, seen, aim = case.campaign, case.seen, case.hypothesis.target_class
    slowest = _slowest(case.judgement, aim)
    known = seen.profile.workload if seen.profile is not None else None
    if slowest is None or known is None:
        return case
    members = {c.name: c.workloads for c in campaign.classes}.get(aim, (known,))
    if known in members:
        return case
    before = profiled(evaluator, campaign, campaign.incumbent, slowest[0])
    after = profiled(evaluator, campaign, case.candidate, slowest[0])
    return replace(case, seen=replace(seen, aimed=(before, after)))


def _beside_incumbent(case: Case) -> tuple[str, float] | None:
    """The workload that the incumbent was profiled on, and how long the candidate takes there."""
    profile, comparison = held(case.campaign), case.judgement.comparison
    known = {} if comparison is None else {w.workload: w for w in comparison.workloads}
    found = known.get(profile.workload) if profile is not None else None
    return None if found is None else (found.workload, found.candidate_time_s)


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
