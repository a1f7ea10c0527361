"""Keep or roll back: the rule, with the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis.compare import LARGEST_RATIO, leans_to_loss
from roofsmith.analysis.kernel_times import kernels_object
from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.comparison import Comparison, Estimate, Judgement
from roofsmith.domain.outcome import Passed
from roofsmith.domain.profile import KERNEL_TIME, Profile
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import KeepPolicy

Profiles = tuple[Profile, Profile]
"""What the profiler saw of the incumbent and of the candidate."""


def decide(
    judgement: Judgement,
    first: Comparison | None,
    hypothesis: Hypothesis,
    policy: KeepPolicy,
    profiles: Profiles | None = None,
) -> Kept | RolledBack:
    """Whether the candidate becomes the incumbent.

    Kept only if it passed, if what the hypothesis targets (the whole, or one config class) is
    faster beyond the noise band in two measurements, the second in fresh processes, and if neither
    the whole nor a config class is slower beyond the band, or looks slower by half of it and isn't
    shown to be spared, no other class slower within the band in both measurements, no workload
    slower by `policy.veto_slowdown` or more, and the profiler, where it times kernels, doesn't see
    a slower one. A command target's own profiler has to see the gain.
    A class doesn't gain what the whole pays for, however little: totals of kept rounds never fall.

    Args:
        judgement: of the candidate against the incumbent.
        first: what the judgement's first samples say, where there are any.
        hypothesis: names what should gain.
        policy: the target's.
        profiles: where both kernels were looked at.
    """
    comparison = judgement.comparison
    if not isinstance(judgement.outcome, Passed):
        outcome = judgement.outcome
        return RolledBack(rule=f"{outcome.kind.replace('_', ' ')}: {outcome.reason}")
    if comparison is None:
        return RolledBack(rule="no undisturbed sample was had, so nothing is proven")
    if judgement.verdict == "unverified":
        return RolledBack(rule="the times could not be verified, so they prove nothing")
    aim = comparison.of(hypothesis.target_class)
    if aim is None:
        return RolledBack(rule=f"there is no config class called {hypothesis.target_class!r}")
    if aim.verdict != "faster":
        return RolledBack(
            rule=f"{_where(hypothesis)} {_reading(aim, policy)}",
            regression=aim.verdict == "slower",
        )
    if loss := _loss(comparison, policy):
        return RolledBack(rule=loss, regression=True)
    if unclear := [c for c in comparison.classes if leans_to_loss(c.estimate, policy)]:
        named = ", ".join(f"{c.config_class} ({_interval(c.estimate)})" for c in unclear)
        return RolledBack(rule=f"vetoed: it may be slower on {named}")
    if not judgement.confirmation:
        return RolledBack(rule="the gain was not measured a second time")
    if not judgement.clock and not judgement.self_reported:
        return RolledBack(rule="the gain was not seen by the judge's own clock")
    if objection := kernels_object(judgement.kernels, policy, hypothesis.target_class):
        return RolledBack(rule=objection[0], regression=objection[1])
    before = first.of(hypothesis.target_class) if first else None
    if before is None or before.verdict != "faster":
        seen = f": {_reading(before, policy)}" if before else ""
        return RolledBack(rule=f"{_where(hypothesis)} only the second measurement gained{seen}")
    if first and (loss := _lost_twice(first, comparison)):
        return RolledBack(rule=loss)
    if profiles and (loss := _seen_slower(*profiles, policy)):
        return RolledBack(rule=loss)
    if comparison.overall.speedup < 1:
        return RolledBack(rule=f"vetoed: the total would fall ({_interval(comparison.overall)})")
    return Kept(
        rule=f"{_where(hypothesis)} {_reading(aim, policy)}; measured again in fresh processes;"
        " no class is slower"
    )


def _loss(comparison: Comparison, policy: KeepPolicy) -> str | None:
    """The class or workload that pays for the gain; None if nobody does."""
    if comparison.overall.verdict == "slower":
        return f"vetoed: slower overall ({_interval(comparison.overall)})"
    slower = [c for c in comparison.classes if c.estimate.verdict == "slower"]
    if slower:
        named: Sequence[str] = [f"{c.config_class} ({_interval(c.estimate)})" for c in slower]
        return f"vetoed: slower beyond the noise band on {', '.join(named)}"
    for workload in comparison.workloads:
        found = workload.estimate
        if found.verdict == "slower" and found.speedup <= 1 - policy.veto_slowdown:
            return (
                f"vetoed: {workload.workload} is slower ({_interval(found)}),"
                f" by {policy.veto_slowdown:.0%} or more"
            )
    return None


def _lost_twice(first: Comparison, again: Comparison) -> str | None:
    """A class that pays a little for another's gain, as often as it is measured."""
    before = {c.config_class: c.estimate for c in first.classes}
    lost = [
        f"{c.config_class} ({_interval(before[c.config_class])}, then {_interval(c.estimate)})"
        for c in again.classes
        if c.config_class in before and max(before[c.config_class].ci[1], c.estimate.ci[1]) < 1
    ]
    return f"vetoed: slower in both measurements on {', '.join(lost)}" if lost else None


def _seen_slower(incumbent: Profile, candidate: Profile, policy: KeepPolicy) -> str | None:
    """The profiler's own times, where they contradict the judge's."""
    if (incumbent.tool, incumbent.workload) != (candidate.tool, candidate.workload):
        return None
    before_s, after_s = incumbent.get(KERNEL_TIME), candidate.get(KERNEL_TIME)
    if before_s is None or after_s is None or after_s <= before_s * (1 + policy.noise_band):
        return None
    return (
        f"the profiler contradicts the gain: {candidate.tool} sees {before_s:.4g} s become"
        f" {after_s:.4g} s on {candidate.workload}, beyond the noise band"
    )


def _where(hypothesis: Hypothesis) -> str:
    return "overall" if hypothesis.target_class == "global" else hypothesis.target_class


def _reading(found: Estimate, policy: KeepPolicy) -> str:
    match found.verdict:
        case "faster":
            return f"faster: {_interval(found)} lies above the {policy.noise_band:.0%} noise band"
        case "slower":
            return f"slower: {_interval(found)} lies below the {policy.noise_band:.0%} noise band"
        case "tie":
            return f"a tie: {_interval(found)} lies within the {policy.noise_band:.0%} noise band"
        case "inconclusive" | "unverified":
            pairs = f"{found.pairs} pair{'s' * (found.pairs != 1)}"
            if found.ci[1] == LARGEST_RATIO:
                return f"inconclusive: {found.speedup:.3f}x after {pairs}, too few for an interval"
            return f"inconclusive: {_interval(found)} after {pairs}"


def _interval(found: Estimate) -> str:
    return f"{found.speedup:.3f}x [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"
