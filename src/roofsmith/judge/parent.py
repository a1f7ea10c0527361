"""The judge: the verdict is computed here, in a process that never loads candidate code."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import Any, Literal

from roofsmith.analysis.bounds import waiting_of
from roofsmith.analysis.clock import Clocked, agreement, by_clock, clock_note, told
from roofsmith.analysis.compare import (
    LOOK_ERROR_RATE,
    compare,
    counts_twice,
    glanced,
    is_disturbed,
    is_win,
)
from roofsmith.analysis.roofline import below_floor
from roofsmith.analysis.sizes import by_size
from roofsmith.analysis.statistics import least_observations, median_interval
from roofsmith.domain.bound import Bound
from roofsmith.domain.comparison import (
    Comparison,
    ErrorReport,
    Judgement,
    PairSample,
    Screening,
    Timing,
    Verdict,
)
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Failure, Outcome, Passed, Unstable
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.errors import BadReferenceError, BaselineError, TargetError
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.correctness.examiner import CHECKS, Examiner, Part
from roofsmith.judge.patience import StoppingRules
from roofsmith.judge.timing.bench import Bench, SideDiedError
from roofsmith.judge.timing.sampling import Alone, Measurement, Sampler
from roofsmith.judge.version import judge_digest
from roofsmith.ports import Measured, Observer, Scope
from roofsmith.wording import plural

SCREEN_PAIRS = 5
LOOK_S = 3.0
"""A look's pairs and checks. Chosen: with what starts before it, five seconds."""
LOOK_PAIRS = 9
"""Of a look, where they take no time: one of nine may be an outlier (`analysis/statistics.py`)."""

UNMEASURED = Measurement(())
CUT = "the campaign's budget ended before pairs had said enough"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What timing a candidate against an incumbent came to."""

    first: Measurement = UNMEASURED
    again: Measurement = UNMEASURED
    """In fresh processes; without samples unless the first was a win, or classes diverged."""
    clock: Measurement = UNMEASURED
    """By the parent's clock; without samples unless the win was confirmed."""

    @property
    def counting(self) -> tuple[PairSample, ...]:
        """The samples that are reported and decided on."""
        return self.again.samples or self.first.samples

    @property
    def failure(self) -> Failure | None:
        """The first that stopped it."""
        return self.first.failure or self.again.failure or self.clock.failure


class ProcessJudge:
    """Port `Judge` over worker processes. Bound to one target."""

    def __init__(
        self,
        target: Target,
        bench: Bench[Any],
        classes: Sequence[ConfigClass],
        bounds: Sequence[Bound],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        confirms: bool = True,
        untimed: Part = "all",
    ) -> None:
        """Nothing starts yet.

        Args:
            target: what candidates are held against.
            bench: where they run.
            classes: a partition of the target's workloads.
            bounds: the roofline of each workload.
            monotonic: seconds since some fixed point, for the time budgets.
            confirms: measure winners again, and by the parent's clock; where the code is our own
                and nobody keeps it, one measurement will do.
            untimed: of an examination, where a kernel is measured alone and not timed.
        """
        self.isolation = bench.isolation.label
        self._target = target
        self._bench = bench
        self._classes = tuple(classes)
        self._quick = False
        self._exact = not confirms
        """Whether a first measurement goes on until `keep.error_rate` decides."""
        self._confirms = confirms
        self._untimed = untimed
        self._earlier: tuple[Judgement, ...] = ()
        """Tries of the same candidate, whose pairs count as well."""
        self._bounds = {bound.workload: bound for bound in bounds}
        self._examiner = Examiner(target, bench)
        self._sampler = Sampler(target, bench, self._examiner, monotonic)
        self._monotonic = monotonic
        self._ends = math.inf
        """When a campaign's budget ends, by that clock."""
        self._is_cut = False
        """Whether that ended pairs which hadn't said enough."""

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """Check every workload; unless `timed` is False, time each one on its own as well."""
        found = self._measured(candidate, observer, timed=timed)
        return replace(found, isolation=self.isolation)

    def _measured(self, candidate: Built, observer: Observer, *, timed: bool) -> Measured:
        observer.stage("check")
        part = "all" if timed else self._untimed
        if part == "all":
            outcome, errors = self._examiner.examine_alone(candidate, observer.progress)
        else:
            outcome, errors = self._examiner.examine(candidate, observer.progress, part=part)
        if not timed or not isinstance(outcome, Passed):
            return Measured(outcome, (), errors)
        observer.stage("time")
        try:
            times = self._sampler.alone(candidate, self._rules().alone_until(observer))
        except SideDiedError as error:
            return Measured(error.outcome, (), errors)
        disturbed = [label for label, found in times.items() if not found.times_s]
        if disturbed:
            detail = f"every sample of {disturbed[0]} was disturbed by other processes"
            return Measured(Unstable(reason="disturbed", detail=detail), (), errors)
        timings = tuple(self._timing(w, times[w.label]) for w in self._target.workloads)
        return Measured(outcome, timings, errors)

    def prepare(self, elsewhere: Sequence[Workload] = ()) -> None:
        """Have made what the next judgement needs of the reference, in the order in which it does,
        while nothing is measured; whoever begins to measure stops it.

        Args:
            elsewhere: other workloads on which a winner will be checked.
        """
        keep, workloads = self._target.keep, self._target.workloads
        first, again = (least_observations(policy.error_rate) for policy in (keep.first, keep))
        for workload in elsewhere:  # described at once: later that would wait for draws
            self._foresee(workload, ())
        for own, timed in ((1, False), (first, True), (2, False), (first + again, True)):
            for workload in workloads:
                more = self._examiner.coming(workload) if own == 2 else ()
                self._foresee(workload, [*own * [OWN], *more], timed=timed)
        for workload in elsewhere:
            self._foresee(workload, CHECKS * [OWN])

    def _foresee(
        self, workload: Workload, distributions: Sequence[str], *, timed: bool = False
    ) -> None:
        with suppress(BadReferenceError, TargetError, OSError):  # told when somebody is judged
            self._bench.foresee(workload, distributions, timed=timed)

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """Check one draw per workload and time a few pairs on it."""
        failure, seen = self._sampler.glance(incumbent, candidate, SCREEN_PAIRS)
        if failure is not None:
            return Screening(outcome=failure, speedup=None)
        logs = [median(math.log(a / b) for a, b in pairs) for pairs in seen.values()]
        return Screening(outcome=Passed(), speedup=math.exp(fmean(logs)))

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """The whole judgement: check, paired timing until decided, winner measured again.

        Of a scope that asks for a glance alone: one draw, and a few pairs on it.

        Raises:
            BaselineError: the incumbent itself doesn't pass.
        """
        judge = self._within(scope)
        if scope is not None and scope.glance:
            return judge._glanced(candidate, incumbent, observer)
        return judge._judged(candidate, incumbent, observer)

    def _within(self, scope: Scope | None) -> ProcessJudge:
        """This judge, for the workloads of a scope; it remembers what this one does."""
        if scope is None:
            return self
        judge = copy(self)
        judge._classes, judge._quick = scope.classes, scope.quick
        judge._exact = self._exact or scope.proves_ties
        judge._ends = math.inf if scope.left_s is None else self._monotonic() + scope.left_s
        judge._earlier = tuple(one for one in scope.earlier if one.judge == judge_digest())
        labels = {label for found in scope.classes for label in found.workloads}
        workloads = tuple(w for w in self._target.workloads if w.label in labels)
        if workloads != self._target.workloads:
            judge._target = self._target.model_copy(update={"workloads": workloads})
            judge._examiner = self._examiner.within(judge._target)
            judge._sampler = self._sampler.within(judge._target, judge._examiner)
        return judge

    def _glanced(self, candidate: Built, incumbent: Built, observer: Observer) -> Judgement:
        """One draw and a few pairs on the smallest workloads, at an error rate of its own."""
        begin, policy = self._monotonic(), self._target.keep
        workloads = by_size(self._target, self._bounds.values())
        observer.stage("look", workloads[0].label)
        found = self._sampler.within(
            self._target.model_copy(update={"workloads": workloads}), self._examiner
        ).look(incumbent, candidate, least_observations(LOOK_ERROR_RATE), LOOK_PAIRS, LOOK_S)
        seen = glanced(found.samples, workloads, self._classes, self._floors, policy)
        passed = found.failure is None
        return Judgement(
            outcome=found.failure or Passed(),
            verdict="rejected" if not passed else seen.overall.verdict if seen else "unverified",
            comparison=seen,
            samples=found.samples,
            validation="quick",
            isolation=self.isolation,
            notes=_notes(found.samples),
            wall_s=self._monotonic() - begin,
        )

    def _judged(self, candidate: Built, incumbent: Built, observer: Observer) -> Judgement:
        begin = self._monotonic()
        self._require_passing(incumbent, observer)
        observer.stage("check")
        examine = partial(self._examiner.examine, candidate, observer.progress, incumbent)
        outcome, errors = examine("first")
        found = Evidence()
        if isinstance(outcome, Passed):
            observer.stage("time")
            found = Evidence(self._measure(incumbent, candidate, observer))
            if found.failure is None and not self._is_slower(found.first):
                observer.stage("check", "on other inputs")
                outcome, more = examine("rest")
                errors = _worst((*errors, *more))
            if isinstance(outcome, Passed):
                found = self._evidence(incumbent, candidate, observer, found.first)
                outcome = found.failure or self._forged(found) or self._too_fast(found) or Passed()
        return self._judgement(outcome, found, errors, self._monotonic() - begin)

    def _is_slower(self, first: Measurement) -> bool:
        """Whether pairs say so of it as a whole, and nothing good of any class."""
        seen = self._compared(first.samples, self._target.keep.first)
        return seen is not None and seen.overall.verdict == "slower" and not counts_twice(seen)

    def _evidence(
        self, incumbent: Built, candidate: Built, observer: Observer, first: Measurement
    ) -> Evidence:
        """What counts once more, from nothing; a winner's gain by the parent's clock."""
        seen = self._compared(first.samples, self._target.keep.first)
        once = self._quick or not self._confirms
        if first.failure is not None or seen is None or once or not counts_twice(seen):
            return Evidence(first)
        if is_win(seen):
            observer.stage("check", "the winner on other inputs")
            if failure := self._examiner.look_further(candidate, incumbent):
                return Evidence(first, Measurement((), failure))
        what = "the winner" if is_win(seen) else "classes that diverge"
        observer.stage("confirm", f"measuring {what} again in fresh processes")
        if self._sampler.is_one_long_call(incumbent, candidate):
            clock = self._measure(incumbent, candidate, observer, first)
            again = Measurement(told(clock.samples), clock.failure)
            assert len(again.samples) == len(clock.samples), "workers have clocks here"
            return Evidence(first, again, clock if self._has_won(seen, again) else UNMEASURED)
        again = self._measure(incumbent, candidate, observer, first)
        if not self._has_won(seen, again):
            return Evidence(first, again)
        observer.stage("clock", "by the judge's own clock")
        instance = 1 + max(sample.instance for sample in again.samples)
        claimed = self._compared(again.samples, self._target.keep, again=True)
        until = self._rules(again=True).by_clock_until(claimed)

        def is_over(samples: Sequence[PairSample], spent_s: float) -> bool:
            return until(samples, spent_s) or self._has_no_time()

        clock = self._sampler.pairs(incumbent, candidate, is_over, instance=instance, by_clock=True)
        return Evidence(first, again, clock)

    def _has_no_time(self) -> bool:
        """Whether pairs that haven't said enough end with the campaign's budget. A measurement that
        was due has one sweep at least: a win without it would count by the one before."""
        self._is_cut = self._monotonic() >= self._ends
        return self._is_cut

    def _has_won(self, first: Comparison, again: Measurement) -> bool:
        """Whether a win in the first measurement was one in the second, too."""
        if again.failure is not None or is_disturbed(again.samples):
            return False
        seen = self._compared(again.samples, self._target.keep, again=True)
        return is_win(first) and seen is not None and is_win(seen)

    def _judgement(
        self, outcome: Outcome, found: Evidence, errors: tuple[ErrorReport, ...], wall_s: float
    ) -> Judgement:
        comparison = self._counted(found)
        verdict: Verdict | Literal["rejected"] = "rejected"
        notes = _notes((*found.first.samples, *found.again.samples))
        if tries := len(self._earlier):
            which = "an earlier try" if tries == 1 else f"{tries} earlier tries"
            notes = (*notes, f"pairs of {which} with the same kernels count as well")
        rules = self._rules(again=bool(found.again.samples))
        if comparison is not None and rules.has_no_gain(found.counting):
            pairs = plural(comparison.overall.pairs, "pair")
            notes = (*notes, f"no gain beyond the noise band is in sight after {pairs}")
        if isinstance(outcome, Passed):
            verdict = _verdict(comparison, found.counting)
        if comparison is not None and found.clock.samples and found.failure is None:
            clocked = self._by_clock(found.clock.samples)
            seen = agreement(comparison, clocked)
            notes = (*notes, clock_note(comparison, clocked))
            if seen == "unresolved" and verdict != "rejected":
                verdict = "unverified"
            elif seen == "exaggerated" and verdict != "rejected" and clocked is not None:
                comparison, verdict = clocked.sure, clocked.sure.overall.verdict
        if self._is_cut and verdict in ("inconclusive", "unverified"):
            notes = (*notes, CUT)
        return Judgement(
            outcome=outcome,
            verdict=verdict,
            comparison=comparison,
            samples=found.first.samples,
            confirmation=found.again.samples,
            clock=found.clock.samples,
            validation="quick" if self._quick else "full",
            judge=judge_digest(),
            earlier=self._earlier,
            errors=errors,
            isolation=self.isolation,
            notes=notes,
            wall_s=wall_s,
        )

    def _require_passing(self, incumbent: Built, observer: Observer) -> None:
        """Examine an incumbent that this judge hasn't seen yet."""
        if self._examiner.knows(incumbent):
            return
        observer.stage("check", "the incumbent")
        outcome, _ = self._examiner.examine(incumbent, observer.progress)
        if not isinstance(outcome, Passed):
            raise BaselineError(
                f"the incumbent itself doesn't pass: {outcome.kind}: {outcome.detail}",
                log=outcome.log,
                hint="roofsmith kernel check INCUMBENT --ref REF --workload ...",
            )

    def _measure(
        self,
        incumbent: Built,
        candidate: Built,
        observer: Observer,
        first: Measurement | None = None,
    ) -> Measurement:
        """The first measurement; after `first`, the second, by both clocks where one call is a
        long segment."""
        keep, instance, by_clock = self._target.keep, 0, False
        if first is not None:
            instance = 1 + max(sample.instance for sample in first.samples)
            by_clock = self._sampler.is_one_long_call(incumbent, candidate)
        again = first is not None
        policy, rules = keep if again or self._exact else keep.first, self._rules(again=again)

        def is_over(samples: Sequence[PairSample], spent_s: float) -> bool:
            claims = told(samples) if by_clock else samples
            found = self._compared(claims, policy, again=again)
            observer.progress(min(2 * spent_s / keep.judge_budget_s, 1.0), _standing(found))
            if not rules.is_over(claims, found, policy, spent_s):
                return self._has_no_time()
            is_won = by_clock and found is not None and is_win(found)
            until = rules.by_clock_until(found)
            return not is_won or until(samples, spent_s) or self._has_no_time()

        return self._sampler.pairs(
            incumbent, candidate, is_over, instance=instance, by_clock=by_clock
        )

    def _compared(
        self, samples: Sequence[PairSample], policy: KeepPolicy, *, again: bool = False
    ) -> Comparison | None:
        """What a measurement says, the second one of all tries if `again`, else the first one."""
        earlier = [one.confirmation if again else one.samples for one in self._earlier]
        target = self._target
        return compare(samples, target.workloads, self._classes, self._floors, policy, earlier)

    def _counted(self, found: Evidence) -> Comparison | None:
        """What the measurement that counts says."""
        keep = self._target.keep
        if found.again.samples:
            return self._compared(found.again.samples, keep, again=True)
        return self._compared(found.first.samples, keep.first)

    def _by_clock(self, samples: Sequence[PairSample]) -> Clocked | None:
        target = self._target
        return by_clock(samples, target.workloads, self._classes, self._floors, target.keep)

    def _rules(self, *, again: bool = False) -> StoppingRules:
        compared = partial(self._compared, again=again)
        return StoppingRules(self._target.keep, compared, self._by_clock, self._exact)

    @property
    def _floors(self) -> dict[str, float | None]:
        return {label: bound.floor_time_s for label, bound in self._bounds.items()}

    def _forged(self, found: Evidence) -> Failure | None:
        """A gain that isn't there by the parent's clock, however far below the floor it claims."""
        comparison = self._counted(found)
        if comparison is None or not found.clock.samples:
            return None
        clocked = self._by_clock(found.clock.samples)
        if agreement(comparison, clocked) != "forged":
            return None
        return Cheated(reason="clock_forged", detail=clock_note(comparison, clocked))

    def _too_fast(self, found: Evidence) -> Failure | None:
        """Below the physical floor: the accounting is wrong, or the work wasn't done."""
        comparison = self._counted(found)
        for one in comparison.workloads if comparison else ():
            bound = self._bounds.get(one.workload)
            if bound and (why := below_floor(bound, one.candidate_time_s)):
                return Cheated(reason="below_floor", detail=why)
        return None

    def _timing(self, workload: Workload, found: Alone) -> Timing:
        times_s, asides = found.times_s, found.asides
        low, _ = median_interval(found.least_s, self._target.keep.error_rate)
        _, high = median_interval(times_s, self._target.keep.error_rate)
        if not math.isfinite(low):
            low, high = min(found.least_s), max(times_s)
        bound = self._bounds.get(workload.label)
        return Timing(
            workload=workload.label,
            dims=workload.dims,
            config_class=next(c.name for c in self._classes if workload.label in c.workloads),
            time_s=median(times_s),
            ci=(low, high),
            samples_s=tuple(times_s),
            floor_time_s=bound.floor_time_s if bound else None,
            hot_time_s=asides.hot_s if asides else None,
            launch_time_s=asides.launch_s if asides else None,
        )


def _worst(errors: Sequence[ErrorReport]) -> tuple[ErrorReport, ...]:
    """One report of an output on a kind of inputs, with the budget as it was widened last."""
    found: dict[tuple[str, str, str], ErrorReport] = {}
    for one in errors:
        before = found.get(key := (one.workload, one.inputs, one.output), one)
        worst = {
            "norm_error": max(before.norm_error, one.norm_error),
            "element_error": max(before.element_error, one.element_error),
        }
        found[key] = one.model_copy(update=worst)
    return tuple(found.values())


def _verdict(comparison: Comparison | None, samples: Sequence[PairSample]) -> Verdict:
    """What the samples say, unless too many of them were disturbed to say anything good."""
    if comparison is None:
        return "unverified"
    if is_win(comparison) and is_disturbed(samples):
        return "unverified"
    return comparison.overall.verdict


def _notes(samples: Sequence[PairSample]) -> tuple[str, ...]:
    """How many pairs were disturbed, and how many are void, the commonest reason first."""
    waiting = waiting_of(samples)
    bounded = (f"{waiting}: the interval allows for all of it",) if waiting else ()
    reasons = [sample.void for sample in samples if sample.void]
    example = {_kind(reason): reason for reason in reversed(reasons)}
    return bounded + tuple(
        f"{count} of {len(samples)} pairs are void, such as: {example[kind]}"
        for kind, count in Counter(map(_kind, reasons)).most_common(3)
    )


def _kind(reason: str) -> str:
    """A void pair's reason without its figures, which differ from pair to pair."""
    return re.sub(r"\d+(\.\d+)?", "", reason)


def _standing(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    return f"{comparison.overall.speedup:.2f}x after {comparison.overall.pairs} pairs"
