"""Keep or roll back: the rule, with the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roofsmith.analysis.compare import LARGEST_RATIO, leans_to_loss, leans_to_veto
from roofsmith.analysis.kernel_times import kernel_estimate, kernels_object
from roofsmith.analysis.profiled import Profiles, profiler_objects
from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.comparison import Comparison, Estimate, Judgement
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import KeepPolicy


def decide(
    judgement: Judgement,
    first: Comparison | None,
    hypothesis: Hypothesis,
    policy: KeepPolicy,
    profiles: Sequence[Profiles] = (),
    uneven: Collection[str] = (),
) -> Kept | RolledBack:
    """Whether the candidate becomes the incumbent.

    Kept only if it passed, if what the hypothesis targets (the whole, or one config class) is
    faster beyond the noise band in two measurements, the second in fresh processes, and if neither
    the whole nor a config class is slower beyond the band, or looks slower by half of it and isn't
    shown to be spared, no other class slower within the band in both measurements, no workload
    slower by `policy.veto_slowdown` or more, or by half of that without being shown to be spared,
    and the profiler, where it times kernels, agrees. A command target's own profiler has the last
    word: its interval has to show the gain.
    A class doesn't gain what the whole pays for, however little: totals of kept rounds never fall.
    Whoever is slower beyond the band, whether it was aimed at or not, makes it a regression.

    Args:
        judgement: of the candidate against the incumbent.
        first: what the judgement's first samples say, where there are any.
        hypothesis: names what should gain.
        policy: the target's.
        profiles: of both kernels, on every workload that was looked at.
        uneven: workloads of a grouped operator whose groups are, by label: one of them at least has
            to gain.
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
    loss = _loss(comparison, policy)
    if aim.verdict != "faster":
        reading = f"{_where(hypothesis)} {_reading(aim, policy)}"
        if aim.verdict == "slower" or loss is None:
            return RolledBack(rule=reading, regression=aim.verdict == "slower")
        return RolledBack(rule=f"{reading}; {loss}", regression=True)
    if loss:
        return RolledBack(rule=f"vetoed: {loss}", regression=True)
    if unclear := [c for c in comparison.classes if leans_to_loss(c.estimate, policy)]:
        named = ", ".join(f"{c.config_class} ({_interval(c.estimate)})" for c in unclear)
        return RolledBack(rule=f"vetoed: it may be slower on {named}")
    if doubt := _doubt(comparison, first, policy):
        return RolledBack(rule=doubt)
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
    if first and (
        even := _gains_on_even_groups_alone(first, comparison, hypothesis, policy, uneven)
    ):
        return RolledBack(rule=even)
    if first and (loss := _lost_twice(first, comparison)):
        return RolledBack(rule=loss)
    kernels = kernel_estimate(judgement.kernels, policy)
    if kernels is None and (unseen := profiler_objects(profiles, comparison, policy)):
        return RolledBack(rule=unseen)
    if comparison.overall.speedup < 1:
        return RolledBack(rule=f"vetoed: the total would fall ({_interval(comparison.overall)})")
    last = f"; {_interval(kernels)} by the target's profiler, which counts" if kernels else ""
    return Kept(
        rule=f"{_where(hypothesis)} {_reading(aim, policy)}; measured again in fresh processes;"
        f" no class is slower{last}"
    )


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


def _doubt(comparison: Comparison, first: Comparison | None, policy: KeepPolicy) -> str | None:
    """Workloads that look like losing much of the limit, and that nothing shows to be spared."""
    before = {w.workload: w for w in first.workloads} if first else {}
    unclear = [
        f"{w.workload} ({_interval(w.estimate)})"
        for w in comparison.workloads
        if leans_to_veto(w, before.get(w.workload), policy)
    ]
    if not unclear:
        return None
    return f"vetoed: it may be slower by {policy.veto_slowdown:.0%} on {', '.join(unclear)}"


def _gains_on_even_groups_alone(
    first: Comparison,
    again: Comparison,
    hypothesis: Hypothesis,
    policy: KeepPolicy,
    uneven: Collection[str],
) -> str | None:
    """That no workload with uneven groups gains, in both measurements; None if one does.

    Of a class that has none, nobody can say.
    """
    before = {w.workload: w.estimate.speedup for w in first.workloads}
    members = [
        w
        for w in again.workloads
        if w.workload in uneven and hypothesis.target_class in ("global", w.config_class)
    ]
    gains = (min(w.estimate.speedup, before.get(w.workload, 1.0)) for w in members)
    if not members or max(gains) > 1 + policy.noise_band:
        return None
    named = ", ".join(f"{w.workload} ({_interval(w.estimate)})" for w in members)
    return f"the gain is not there where groups are uneven: {named}"


def _lost_twice(first: Comparison, again: Comparison) -> str | None:
    """A class that pays a little for another's gain, as often as it is measured."""
    before = {c.config_class: c.estimate for c in first.classes}
    lost = [
        f"{c.config_class} ({_interval(before[c.config_class])}, then {_interval(c.estimate)})"
        for c in again.classes
        if c.config_class in before and max(before[c.config_class].ci[1], c.estimate.ci[1]) < 1
    ]
    return f"vetoed: slower in both measurements on {', '.join(lost)}" if lost else None


def _where(hypothesis: Hypothesis) -> str:
    return "overall" if hypothesis.target_class == "global" else hypothesis.target_class


def _band(policy: KeepPolicy) -> str:
    return f"{100 * policy.noise_band:g}% noise band"


def _reading(found: Estimate, policy: KeepPolicy) -> str:
    match found.verdict:
        case "faster":
            return f"faster: {_interval(found)} lies above the {_band(policy)}"
        case "slower":
            return f"slower: {_interval(found)} lies below the {_band(policy)}"
        case "tie":
            return f"a tie: {_interval(found)} lies within the {_band(policy)}"
        case "inconclusive" | "unverified":
            pairs = f"{found.pairs} pair{'s' * (found.pairs != 1)}"
            if found.ci[1] == LARGEST_RATIO:
                return f"inconclusive: {found.speedup:.3f}x after {pairs}, too few for an interval"
            return f"inconclusive: {_interval(found)} after {pairs}"


def _interval(found: Estimate) -> str:
    return f"{found.speedup:.3f}x [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"
