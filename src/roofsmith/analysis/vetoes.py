"""Why a candidate isn't kept, each reason by itself: by its times, and by its profile. Pure.

They are asked in the order of `engine.deciding`: each may rely on those before it having nothing to
say.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis.compare import LARGEST_RATIO, is_win, leans_to_loss, leans_to_veto
from roofsmith.analysis.dispatch import gained_twice
from roofsmith.analysis.evidence import Evidence
from roofsmith.analysis.kernel_times import kernel_estimate, kernels_object
from roofsmith.analysis.profiled import profiler_objects
from roofsmith.analysis.whole_runs import by_own_clock, is_unseen
from roofsmith.domain.campaign import RolledBack
from roofsmith.domain.comparison import Comparison, Estimate
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import KeepPolicy
from roofsmith.wording import plural


def not_passed(evidence: Evidence) -> RolledBack | None:
    """It failed: built, checked, timed, or watched by a sanitizer."""
    outcome = evidence.judgement.outcome
    if isinstance(outcome, Passed):
        return None
    return RolledBack(rule=f"{outcome.kind.replace('_', ' ')}: {outcome.reason}")


def not_sampled(evidence: Evidence) -> RolledBack | None:
    """No pair of times was had."""
    if evidence.judgement.comparison is not None:
        return None
    return RolledBack(rule="no undisturbed sample was had, so nothing is proven")


def not_verified(evidence: Evidence) -> RolledBack | None:
    """Its times can't be believed."""
    if evidence.judgement.verdict != "unverified":
        return None
    return RolledBack(rule="the times could not be verified, so they prove nothing")


def no_such_class(evidence: Evidence) -> RolledBack | None:
    """The hypothesis names a config class that isn't there."""
    aim = evidence.hypothesis.target_class
    if evidence.comparison.of(aim) is not None:
        return None
    return RolledBack(rule=f"there is no config class called {aim!r}")


def not_faster(evidence: Evidence) -> RolledBack | None:
    """What should gain isn't faster beyond the noise band.

    Whoever is slower beyond the band, whether it was aimed at or not, makes it a regression.
    """
    aim, policy = evidence.aim, evidence.policy
    if aim.verdict == "faster":
        return None
    loss = _loss(evidence.comparison, policy)
    reading = f"{evidence.where} {reading_of(aim, policy)}"
    if aim.verdict == "slower" or loss is None:
        return RolledBack(rule=reading, regression=aim.verdict == "slower")
    return RolledBack(rule=f"{reading}; {loss}", regression=True)


def carries(evidence: Evidence) -> RolledBack | None:
    """What was left out is missed: the whole or a class is slower, or not shown to be as fast."""
    found = evidence.comparison
    named = [("overall", found.overall), *((c.config_class, c.estimate) for c in found.classes)]
    missed = [f"{name} ({_interval(one)})" for name, one in named if one.ci[1] < 1]
    if missed:
        return RolledBack(rule=f"the change carries: slower without it {', '.join(missed)}")
    unclear = [
        f"{name} {reading_of(one, evidence.policy)}"
        for name, one in named
        if one.verdict not in ("tie", "faster")
    ]
    return RolledBack(rule=f"the change may carry: {', '.join(unclear)}") if unclear else None


def others_lose(evidence: Evidence) -> RolledBack | None:
    """The whole or a class is slower beyond the band, or a workload by `policy.veto_slowdown`."""
    loss = _loss(evidence.comparison, evidence.policy)
    return RolledBack(rule=f"vetoed: {loss}", regression=True) if loss else None


def class_may_lose(evidence: Evidence) -> RolledBack | None:
    """A class looks slower by half of the band, and isn't shown to be spared."""
    classes = evidence.comparison.classes
    unclear = [c for c in classes if leans_to_loss(c.estimate, evidence.policy)]
    if not unclear:
        return None
    named = ", ".join(f"{c.config_class} ({_interval(c.estimate)})" for c in unclear)
    return RolledBack(rule=f"vetoed: it may be slower on {named}")


def workload_may_lose(evidence: Evidence) -> RolledBack | None:
    """A workload looks like losing much of the limit, and nothing shows that it is spared."""
    first, policy = evidence.first, evidence.policy
    before = {w.workload: w for w in first.workloads} if first else {}
    unclear = [
        f"{w.workload} ({_interval(w.estimate)})"
        for w in evidence.comparison.workloads
        if leans_to_veto(w, before.get(w.workload), policy)
    ]
    if not unclear:
        return None
    by = f"by {policy.veto_slowdown:.0%} on {', '.join(unclear)}"
    return RolledBack(rule=f"vetoed: it may be slower {by}")


def not_confirmed(evidence: Evidence) -> RolledBack | None:
    """It wasn't measured again in fresh processes."""
    if evidence.judgement.confirmation:
        return None
    return RolledBack(rule="the gain was not measured a second time")


def not_clocked(evidence: Evidence) -> RolledBack | None:
    """Only clocks of workers saw the gain, and no repository's benchmark reports it."""
    if evidence.judgement.clock or evidence.judgement.self_reported:
        return None
    return RolledBack(rule="the gain was not seen by the judge's own clock")


def clock_replaced(evidence: Evidence) -> RolledBack | None:
    """Whole runs of a repository's benchmark show no gain, and the source touches what measures."""
    found = evidence.judgement
    if evidence.trusts_clock or not found.remarks:
        return None
    if not is_unseen(found.comparison, found.whole_runs, evidence.policy.error_rate):
        return None
    seen = by_own_clock(found.whole_runs, unseen=True)
    return RolledBack(rule=f"{seen}, and {found.remarks[0].text}")


def kernels_disagree(evidence: Evidence) -> RolledBack | None:
    """A command target's own profiler doesn't confirm it, by the mean time of its kernels."""
    kernels, aim = evidence.judgement.kernels, evidence.hypothesis.target_class
    objection = kernels_object(kernels, evidence.policy, aim)
    return RolledBack(rule=objection[0], regression=objection[1]) if objection else None


def by_kernels(found: RolledBack, evidence: Evidence) -> RolledBack:
    """The same, a regression as the target's own profiler saw it where no gain was claimed."""
    kernels = kernel_estimate(evidence.judgement.kernels, evidence.policy)
    comparison = evidence.judgement.comparison
    if kernels is None or comparison is None or is_win(comparison):
        return found
    said = f"{found.rule}; by the target's profiler {reading_of(kernels, evidence.policy)}"
    if kernels.verdict == "inconclusive":
        return found.model_copy(update={"rule": said})
    return found.model_copy(update={"rule": said, "regression": kernels.verdict == "slower"})


def gained_once(evidence: Evidence) -> RolledBack | None:
    """What should gain was faster in the second measurement alone."""
    first, aim = evidence.first, evidence.hypothesis.target_class
    before = first.of(aim) if first else None
    if before is not None and before.verdict == "faster":
        return None
    seen = f": {reading_of(before, evidence.policy)}" if before else ""
    return RolledBack(rule=f"{evidence.where} only the second measurement gained{seen}")


def gained_on_even_groups_alone(evidence: Evidence) -> RolledBack | None:
    """No workload with uneven groups gains in both measurements; of none, nobody can say."""
    first, aim, again = evidence.first, evidence.hypothesis.target_class, evidence.comparison
    before = {w.workload: w.estimate.speedup for w in first.workloads} if first else {}
    members = [
        w
        for w in again.workloads
        if w.workload in evidence.uneven and aim in ("global", w.config_class)
    ]
    gains = (min(w.estimate.speedup, before.get(w.workload, 1.0)) for w in members)
    if not members or max(gains) > 1 + evidence.policy.noise_band:
        return None
    named = ", ".join(f"{w.workload} ({_interval(w.estimate)})" for w in members)
    return RolledBack(rule=f"the gain is not there where groups are uneven: {named}")


def lost_twice(evidence: Evidence) -> RolledBack | None:
    """A class pays a little for another's gain, as often as it is measured."""
    first = evidence.first
    before = {c.config_class: c.estimate for c in first.classes} if first else {}
    lost = [
        f"{c.config_class} ({_interval(before[c.config_class])}, then {_interval(c.estimate)})"
        for c in evidence.comparison.classes
        if c.config_class in before and max(before[c.config_class].ci[1], c.estimate.ci[1]) < 1
    ]
    if not lost:
        return None
    return RolledBack(rule=f"vetoed: slower in both measurements on {', '.join(lost)}")


def profiler_contradicts(evidence: Evidence) -> RolledBack | None:
    """A profiler that times kernels doesn't see the gain; a command target's own has spoken."""
    if kernel_estimate(evidence.judgement.kernels, evidence.policy) is not None:
        return None
    unseen = profiler_objects(evidence.profiles, evidence.comparison, evidence.policy)
    return RolledBack(rule=unseen) if unseen else None


def total_falls(evidence: Evidence) -> RolledBack | None:
    """The whole pays for a class, however little: totals of kept rounds never fall."""
    overall = evidence.comparison.overall
    if overall.speedup >= 1:
        return None
    return RolledBack(rule=f"vetoed: the total would fall ({_interval(overall)})")


def dispatch_misses(evidence: Evidence) -> RolledBack | None:
    """A dispatch doesn't gain on every class that it was made for, in both measurements."""
    gained = gained_twice(*evidence.twice)
    missing = [name for name in evidence.winners if name not in gained]
    if not missing:
        return None
    return RolledBack(rule=f"the dispatch doesn't gain twice on {', '.join(missing)}")


def gain_of(evidence: Evidence) -> str:
    """What a candidate that nothing speaks against gains, for people."""
    kernels = kernel_estimate(evidence.judgement.kernels, evidence.policy)
    last = f"; {_interval(kernels)} by the target's profiler, which counts" if kernels else ""
    return (
        f"{evidence.where} {reading_of(evidence.aim, evidence.policy)}; measured again in fresh"
        f" processes; no class is slower{last}"
    )


def tie_of(evidence: Evidence) -> str:
    """Why a candidate that leaves out a change is kept without a gain, for people."""
    return f"simpler, and as fast: {evidence.where} {reading_of(evidence.aim, evidence.policy)}"


def _loss(comparison: Comparison, policy: KeepPolicy) -> str | None:
    """The class or workload that pays for the gain; None if nobody does."""
    if comparison.overall.verdict == "slower":
        return f"slower overall ({_interval(comparison.overall)})"
    slower = [c for c in comparison.classes if c.estimate.verdict == "slower"]
    if slower:
        named: Sequence[str] = [f"{c.config_class} ({_interval(c.estimate)})" for c in slower]
        return f"slower beyond the noise band on {', '.join(named)}"
    for workload in comparison.workloads:
        found = workload.estimate
        if found.verdict == "slower" and found.speedup <= 1 - policy.veto_slowdown:
            return (
                f"{workload.workload} is slower ({_interval(found)}),"
                f" by {policy.veto_slowdown:.0%} or more"
            )
    return None


def _band(policy: KeepPolicy) -> str:
    return f"{100 * policy.noise_band:g}% noise band"


def reading_of(found: Estimate, policy: KeepPolicy) -> str:
    """An estimate and its verdict, for people."""
    match found.verdict:
        case "faster":
            return f"faster: {_interval(found)} lies above the {_band(policy)}"
        case "slower":
            return f"slower: {_interval(found)} lies below the {_band(policy)}"
        case "tie":
            return f"a tie: {_interval(found)} lies within the {_band(policy)}"
        case "inconclusive" | "unverified":
            pairs = plural(found.pairs, "pair")
            if found.ci[1] == LARGEST_RATIO:
                return f"inconclusive: {found.speedup:.3f}x after {pairs}, too few for an interval"
            return f"inconclusive: {_interval(found)} after {pairs}"


def _interval(found: Estimate) -> str:
    return f"{found.speedup:.3f}x [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"
