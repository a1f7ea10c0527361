"""The judge of a command target: interleaved runs of two checkouts' benchmarks.

What each run reports is taken at its word, beside candidate code, which is why every judgement is
marked as self-reported. What is checked from outside: that frozen files are as they were, that the
rows are the baseline's, that the gate holds in every run, and that no time lies below the roofline.
"""

from __future__ import annotations

import copy
import math
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from roofsmith.analysis.compare import compare, counts_twice, is_in_doubt, is_win
from roofsmith.analysis.roofline import below_floor
from roofsmith.analysis.statistics import least_observations, median_interval
from roofsmith.domain.bound import Bound
from roofsmith.domain.command import CommandSpec, MetricReading, RunPair
from roofsmith.domain.comparison import (
    Comparison,
    Judgement,
    PairSample,
    Screening,
    Timing,
    Verdict,
)
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Cheated, Failure, Outcome, Passed, Unstable
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import ConfigClass
from roofsmith.ports import Measured, Observer, Scope
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.repository.judging.evidence import BenchmarkEvidence, RunFailedError, Side
from roofsmith.repository.judging.kernels import time_kernels
from roofsmith.repository.judging.runs import Benchmarked, Runs
from roofsmith.repository.profiler import CommandProfiler
from roofsmith.wording import some_of

ISOLATION = "none: the repository's own commands"
SCREEN_PAIRS = 3
PATIENCE = 2
"""Multiple of the fewest pairs that can decide, after which an undecided measurement ends."""
MOST_PAIRS = 45
"""While the ratio itself lies beyond the noise band and only its interval doesn't."""
_SPOILED = ("incumbent_failed", "other_checkout_changed")
"""Reasons after which the incumbent needs another checkout."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The repository that a workspace was extracted from."""

    build: Callable[[Built], Built | BuildFailed]
    """A candidate of the workspace, built there."""
    checkouts: GitCheckouts


class CommandJudge:
    """Port `Judge` over a repository's own commands. Bound to one target.

    Args:
        target: its workloads are the rows that every run must have.
        runs: how commands are run.
        checkouts: knows which files a candidate may not have changed.
        classes: a partition of the workloads.
        bounds: the roofline of each; a time below it is impossible.
        timer: times kernels by a profiler; None where the target names none.
        whole: where checkouts are a workspace, builds in the whole repository and its checkouts:
            what counts is measured there.
    """

    isolation = ISOLATION

    def __init__(
        self,
        target: Target,
        runs: Runs,
        checkouts: GitCheckouts,
        classes: Sequence[ConfigClass],
        bounds: Sequence[Bound],
        timer: CommandProfiler | None = None,
        whole: Whole | None = None,
    ) -> None:
        assert target.command is not None, "only for command targets"
        self._spec: CommandSpec = target.command
        self._target = target
        self._runs = runs
        self._checkouts = checkouts
        self._classes = tuple(classes)
        self._bounds = {bound.workload: bound for bound in bounds}
        self._timer = timer
        self._whole = whole
        self._glances = False
        self._labels = [workload.label for workload in target.workloads]

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """Run the test and the benchmark; unless `timed` is False, as often as it takes."""
        try:
            candidate = self._in_repository(candidate, observer)
            self._check(candidate, observer)
            observer.stage("time" if timed else "check", "the benchmark")
            runs = self._alone(candidate, observer, timed=timed)
            self._require_frozen(candidate)
        except RunFailedError as error:
            return Measured(error.outcome, (), (), isolation=ISOLATION)
        if not timed:
            return Measured(Passed(), (), (), isolation=ISOLATION)
        costs: dict[str, list[float]] = defaultdict(list)
        metrics: dict[tuple[str, str], list[float]] = defaultdict(list)
        for run in runs:
            for reading in run.readings:
                costs[reading.label].append(reading.cost)
                for name, value in reading.metrics.items():
                    metrics[reading.label, name].append(value)
        return Measured(
            Passed(),
            tuple(self._timing(label, costs[label]) for label in self._labels),
            (),
            metrics=tuple(
                MetricReading(workload=label, metric=name, value=median(values))
                for (label, name), values in metrics.items()
            ),
            isolation=ISOLATION,
        )

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """A few pairs of runs; the test is left for the judgement."""
        evidence = BenchmarkEvidence()
        try:
            self._require_frozen(candidate)
            for sweep in range(SCREEN_PAIRS):
                evidence.first += self._pair(candidate, incumbent, sweep, evidence)
        except RunFailedError as error:
            return Screening(outcome=error.outcome, speedup=None)
        found = self._compared(evidence.first, self._target.keep.first)
        return Screening(outcome=Passed(), speedup=found.overall.speedup if found else None)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """Test, pairs until decided, and a winner's pairs again; then the profiler's, if any.

        Of a glance the test, and one pair.
        """
        judge = copy.copy(self)
        judge._classes = self._classes if scope is None else scope.classes
        judge._glances = scope is not None and scope.glance
        if scope is not None and scope.quick and self._spec.quick is not None:
            judge._take_few([label for one in scope.classes for label in one.workloads])
        return judge._judged(candidate, incumbent, observer)

    def _take_few(self, labels: Sequence[str]) -> None:
        few = tuple(one for one in self._target.workloads if one.label in labels)
        self._target = self._target.model_copy(update={"workloads": few})
        self._labels = [one.label for one in few]
        self._runs = replace(self._runs, few=few)

    def _judged(self, candidate: Built, incumbent: Built, observer: Observer) -> Judgement:
        begin, evidence = time.monotonic(), BenchmarkEvidence()
        outcome: Outcome = Passed()
        try:
            evidence.watch.look(incumbent.library)
            if self._runs.few and not self._glances:
                self._require_frozen(candidate)
            else:
                self._check(candidate, observer)
            self._gather(candidate, incumbent, evidence, observer)
            self._require_frozen(candidate)
            outcome = self._too_fast(self._counted(evidence)) or Passed()
        except RunFailedError as error:
            outcome = error.outcome
            if outcome.reason in _SPOILED or evidence.watch.touched(incumbent.library):
                self._drop(incumbent)
        comparison = self._counted(evidence)
        verdict: Verdict | Literal["rejected"] = "rejected"
        if isinstance(outcome, Passed):
            verdict = comparison.overall.verdict if comparison else "unverified"
        return Judgement(
            outcome=outcome,
            verdict=verdict,
            comparison=comparison,
            samples=tuple(evidence.first),
            confirmation=tuple(evidence.again),
            kernels=tuple(evidence.kernels),
            whole_runs=tuple(evidence.whole_runs),
            metrics=evidence.readings(),
            validation="quick" if self._runs.few else "full",
            self_reported=True,
            isolation=self.isolation,
            notes=(*evidence.notes, *evidence.wall_note(comparison, self._target.keep.error_rate)),
            wall_s=time.monotonic() - begin,
        )

    def _check(self, candidate: Built, observer: Observer) -> None:
        """Frozen files and the test.

        Raises:
            RunFailedError: one of them fails.
        """
        observer.stage("check", "frozen files")
        self._require_frozen(candidate)
        observer.stage("check", "the test")
        if failure := self._runs.test(candidate):
            raise RunFailedError(failure)

    def _in_repository(self, built: Built, observer: Observer) -> Built:
        """The same candidate in the whole repository, where this is a workspace.

        Raises:
            RunFailedError: it doesn't build there.
        """
        if self._whole is None:
            return built
        observer.stage("build", "in the whole repository")
        found = self._whole.build(built)
        if isinstance(found, Built):
            return found
        raise RunFailedError(found)

    def _changed(self, candidate: Built) -> tuple[str, ...]:
        found = self._checkouts.changed(candidate.candidate_id)
        if self._whole is not None and not found:
            found = self._whole.checkouts.changed(candidate.candidate_id)
        return found

    def _require_frozen(self, candidate: Built) -> None:
        changed = self._changed(candidate)
        if not changed:
            return
        detail = (
            f"{some_of(changed)} changed: only the editable files may"
            f" ({', '.join(self._spec.editable)}), and not while the commands run"
        )
        raise RunFailedError(Cheated(reason="frozen_file_changed", detail=detail))

    def _drop(self, built: Built) -> None:
        self._checkouts.drop(built.candidate_id)
        if self._whole is not None:
            self._whole.checkouts.drop(built.candidate_id)

    def _gather(
        self, candidate: Built, incumbent: Built, evidence: BenchmarkEvidence, observer: Observer
    ) -> None:
        observer.stage("time")
        if self._glances:
            evidence.first += self._pair(candidate, incumbent, 0, evidence)
            return
        self._measure(candidate, incumbent, evidence.first, evidence, observer)
        first = self._compared(evidence.first, self._target.keep.first)
        sides: dict[Side, Built] = {"incumbent": incumbent, "candidate": candidate}
        if self._runs.few:
            return
        if first is None or not counts_twice(first):
            self._time_kernels(sides, first, evidence, observer)
            return
        observer.stage("confirm", "running both again")
        if self._whole is not None:
            candidate = self._in_repository(candidate, observer)
            incumbent = self._in_repository(incumbent, observer)
            evidence.watch.look(incumbent.library)
            self._check(candidate, observer)
        self._measure(candidate, incumbent, evidence.again, evidence, observer)
        evidence.watch.forget(incumbent.library)
        again = self._compared(evidence.again, self._target.keep)
        sides = {"incumbent": incumbent, "candidate": candidate}
        self._time_kernels(sides, again, evidence, observer)

    def _time_kernels(
        self,
        sides: dict[Side, Built],
        found: Comparison | None,
        evidence: BenchmarkEvidence,
        observer: Observer,
    ) -> None:
        """By the target's own profiler: whether it confirms a gain, else whether kernels lose."""
        if self._timer is None or found is None:
            return
        observer.stage("profile", "by the target's own profiler")
        claimed = found if is_win(found) else None
        time_kernels(self._timer, sides, claimed, evidence, observer, self._target.keep)

    def _measure(
        self,
        candidate: Built,
        incumbent: Built,
        samples: list[PairSample],
        evidence: BenchmarkEvidence,
        observer: Observer,
    ) -> None:
        """Pairs until they decide.

        Raises:
            RunFailedError: a run failed; an incumbent's failure leaves everything undecided.
        """
        begin = time.monotonic()
        start = 1 + max((sample.sweep for sample in evidence.first), default=-1)
        keep = self._target.keep
        policy = keep.first if samples is evidence.first else keep
        least = least_observations(policy.error_rate)
        evidence.watch.look(candidate.library)
        for pairs in range(1, MOST_PAIRS + 1):
            samples += self._pair(candidate, incumbent, start + pairs - 1, evidence)
            found = self._compared(samples, policy)
            observer.progress(min(pairs / least, 1.0), _standing(found))
            if pairs >= least and self._is_over(found, policy, pairs, time.monotonic() - begin):
                break
        evidence.require_untouched(incumbent, candidate)
        evidence.note_left(candidate, incumbent, self._spec)

    def _is_over(
        self, found: Comparison | None, policy: KeepPolicy, pairs: int, spent_s: float
    ) -> bool:
        least = least_observations(policy.error_rate)
        if spent_s > policy.judge_budget_s / 2 or found is None:
            return True
        if found.overall.verdict == "inconclusive":
            leans = abs(math.log(found.overall.speedup)) > math.log1p(policy.noise_band)
            return not leans and pairs >= PATIENCE * least
        if is_win(found) and is_in_doubt(found, policy):
            return pairs >= MOST_PAIRS
        undecided = "inconclusive" in {c.estimate.verdict for c in found.classes}
        return not undecided or pairs >= PATIENCE * least

    def _pair(
        self, candidate: Built, incumbent: Built, sweep: int, evidence: BenchmarkEvidence
    ) -> list[PairSample]:
        """Both benchmarks, one right after the other, in random order: a sample per row."""
        order: list[Side] = ["incumbent", "candidate"]
        secrets.SystemRandom().shuffle(order)
        found: dict[Side, Benchmarked] = {}
        for side in order:
            if side == "incumbent":
                evidence.require_untouched(incumbent, candidate)
            built = incumbent if side == "incumbent" else candidate
            found[side] = self._run(side, built)
            evidence.add(side, found[side])
            if side == "incumbent":
                evidence.watch.look(incumbent.library)
        evidence.whole_runs.append(
            RunPair(
                sweep=sweep,
                first=order[0],
                incumbent_time_s=found["incumbent"].wall_s,
                candidate_time_s=found["candidate"].wall_s,
            )
        )
        costs = {
            side: {reading.label: reading.cost for reading in run.readings}
            for side, run in found.items()
        }
        return [
            PairSample(
                workload=label,
                sweep=sweep,
                instance=sweep,
                first=order[0],
                incumbent_time_s=(costs["incumbent"][label],),
                candidate_time_s=(costs["candidate"][label],),
            )
            for label in self._labels
        ]

    def _run(self, side: Side, built: Built) -> Benchmarked:
        is_baseline = built.candidate_id == self._target.baseline.id
        run = self._runs.benchmark(built, self._target.workloads, is_baseline=is_baseline)
        if isinstance(run, Benchmarked):
            return run
        raise RunFailedError(run if side == "candidate" else _incumbent_failed(run))

    def _alone(self, candidate: Built, observer: Observer, *, timed: bool) -> list[Benchmarked]:
        """Runs of one checkout.

        Raises:
            RunFailedError: one failed.
        """
        least = least_observations(self._target.keep.error_rate) if timed else 1
        begin = time.monotonic()
        runs: list[Benchmarked] = []
        while len(runs) < least:
            runs.append(self._run("candidate", candidate))
            observer.progress(len(runs) / least)
            spent_s = time.monotonic() - begin
            if len(runs) >= SCREEN_PAIRS and spent_s > self._target.keep.judge_budget_s / 2:
                break
        return runs

    def _timing(self, label: str, costs: Sequence[float]) -> Timing:
        low, high = median_interval(costs, self._target.keep.error_rate)
        if not math.isfinite(low):
            low, high = min(costs), max(costs)
        workload = next(w for w in self._target.workloads if w.label == label)
        bound = self._bounds.get(label)
        return Timing(
            workload=label,
            dims=workload.dims,
            config_class=next(c.name for c in self._classes if label in c.workloads),
            time_s=median(costs),
            ci=(low, high),
            samples_s=tuple(costs),
            floor_time_s=bound.floor_time_s if bound else None,
        )

    def _counted(self, evidence: BenchmarkEvidence) -> Comparison | None:
        keep = self._target.keep
        return self._compared(evidence.counting, keep if evidence.again else keep.first)

    def _compared(self, samples: Sequence[PairSample], policy: KeepPolicy) -> Comparison | None:
        floors = {label: bound.floor_time_s for label, bound in self._bounds.items()}
        return compare(samples, self._target.workloads, self._classes, floors, policy)

    def _too_fast(self, comparison: Comparison | None) -> Failure | None:
        for found in comparison.workloads if comparison else ():
            bound = self._bounds.get(found.workload)
            if bound and (why := below_floor(bound, found.candidate_time_s)):
                return Cheated(reason="below_floor", detail=why)
        return None


def _incumbent_failed(failure: Failure) -> Failure:
    return Unstable(
        reason="incumbent_failed",
        detail=f"the incumbent, which had passed, failed this time: {failure.detail}",
        log=failure.log,
    )


def _standing(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    return f"{comparison.overall.speedup:.2f}x after {comparison.overall.pairs} pairs"
