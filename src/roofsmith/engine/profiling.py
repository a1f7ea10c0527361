"""Looks at kernels with the profiler: before a decision where it has a say, else when asked.

It has a say where it times kernels: there it looks at what would be kept, twice where it
contradicts the judge. The workload is the one that takes a candidate longest; of one that was
rolled back, that which the incumbent was seen on, so that their counters can be compared. Where a
class should gain that it isn't in, what would be kept is looked at on that class's slowest one,
too, right after the incumbent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.moved import profile_before
from roofsmith.domain.campaign import Campaign, Profiled, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import KERNEL_TIME, Bottleneck, Profile
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.engine.seen import Seen, profiles_of
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
    scope = Scope(profile=workload, built_before=True)
    return required(evaluator.evaluate(candidate, None, scope).profile)


def listed(evaluator: Evaluator, candidate: Candidate, profile: Profile) -> Disassembly:
    """The instructions that a kernel spends its time on, on the workload that it was profiled on.

    What can't be had is said in the answer.
    """
    scope = Scope(disassemble=profile, built_before=True)
    return required(evaluator.evaluate(candidate, None, scope).disassembly)


def is_due(round_: Round, *, listing: bool = False) -> bool:
    """Whether a profiler could still look at a round's kernel; at its instructions, too."""
    is_missing = round_.profile is None or (listing and round_.disassembly is None)
    return is_missing and _slowest(round_.judgement) is not None


def looked_back(
    evaluator: Evaluator, campaign: Campaign, round_: Round, *, listing: bool
) -> tuple[Profile, Bottleneck, Disassembly | None]:
    """What a profiler sees of a round's kernel afterwards, with what it saw already."""
    profile, bottleneck, loops = round_.profile, round_.bottleneck, round_.disassembly
    if profile is None or bottleneck is None:
        seen = _judged_on(campaign, round_)
        profile, bottleneck = look(evaluator, campaign, round_.candidate, *seen)
    if listing and loops is None:
        loops = listed(evaluator, round_.candidate, profile)
    return profile, bottleneck, loops


def profile_findings(event: Profiled, campaign: Campaign) -> Iterator[str]:
    """What a look at a round afterwards claims that doesn't follow from the records before it."""
    round_ = next((r for r in campaign.rounds if r.round == event.round), None)
    if round_ is None or not is_due(round_, listing=True):
        yield f"round {event.round} has nothing that a profiler could still look at"
        return
    compared = required(round_.judgement.comparison).workloads
    label = event.profile.workload
    times_s = [w.candidate_time_s for w in compared if w.workload == label]
    follow = [classify(campaign.bound(label), time_s, event.profile) for time_s in times_s]
    if event.bottleneck not in follow:
        yield f"the bottleneck of round {event.round} doesn't follow from its profile"


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """Keep check: where the profiler has a say, it looks; again where it alone is against keeping.

    The incumbent is looked at beside it where that was last done on another workload. A command
    target's profiler has spoken in the judgement, with more runs than one: what it saw of kernels
    is looked at whatever follows.
    """
    slowest, campaign = _slowest(case.judgement), case.campaign
    if slowest is not None and case.judgement.kernels:
        return replace(case, seen=Seen(*look(evaluator, campaign, case.candidate, *slowest)))
    if slowest is None or not _has_say(campaign) or not would_be_kept(case):
        return case
    seen = Seen(*look(evaluator, campaign, case.candidate, *slowest))
    case = replace(case, seen=seen)
    if not seen.is_timed:
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


def _has_say(campaign: Campaign) -> bool:
    """Whether the profiler times kernels: a GPU's, and whichever did so of the baseline."""
    first, device = campaign.baseline, campaign.started.environment.device
    is_timed = first is not None and first.profile.get(KERNEL_TIME) is not None
    return campaign.started.target.command is None and (is_timed or device.kind != "cpu")


def _judged_on(campaign: Campaign, round_: Round) -> tuple[str, float]:
    """The workload to look at a round on, and how long its candidate takes there."""
    slowest = required(_slowest(round_.judgement))
    before, compared = profile_before(campaign, round_), round_.judgement.comparison
    if before is None or compared is None or round_.decision.kind == "kept":
        return slowest
    beside = ((w.workload, w.candidate_time_s) for w in compared.workloads)
    return next((seen for seen in beside if seen[0] == before.workload), slowest)


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
