"""Timing: interleaved pairs until they decide, and one kernel on its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from statistics import fmean
from typing import Any, Self

from roofsmith.analysis.bounds import between_s
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure, Unstable
from roofsmith.domain.target import Target
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.timing.bench import (
    CLOCK_S,
    LEAST_CLOCK_S,
    Asides,
    Bench,
    Inputs,
    Lineup,
    SegmentPlan,
    SideDiedError,
    Station,
    Turn,
    random_order,
)
from roofsmith.judge.timing.decoys import Mixer
from roofsmith.judge.timing.segment import Segment

INCUMBENT, CANDIDATE = 0, 1

Progress = Callable[[Sequence[PairSample], float], bool]
"""Hears the samples so far and the seconds spent; True ends the measurement."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Samples of one measurement, and how it ended."""

    samples: tuple[PairSample, ...]
    failure: Failure | None = None


@dataclass(slots=True)
class Alone:
    """Times of one kernel on one workload; seconds per call."""

    times_s: list[float]
    """Means of valid segments, at most."""
    least_s: list[float]
    """The same without all that others may have taken."""
    asides: Asides | None = None


class Sampler:
    """Times kernels of one target in fresh processes."""

    def __init__(
        self,
        target: Target,
        bench: Bench[Any],
        examiner: Examiner,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._target = target
        self._bench = bench
        self._examiner = examiner

    def within(self, target: Target, examiner: Examiner) -> Self:
        """The same for some of the workloads."""
        sampler = copy(self)
        sampler._target, sampler._examiner = target, examiner
        return sampler

    def pairs(
        self,
        incumbent: Built,
        candidate: Built,
        is_over: Progress,
        *,
        instance: int,
        by_clock: bool = False,
    ) -> Measurement:
        """Sweeps over all workloads, both kernels on the same fresh inputs, until `is_over`.

        Args:
            incumbent: passed an examination.
            candidate: likewise.
            is_over: asked after every sweep.
            instance: number of the first pair of processes.
            by_clock: long segments, timed by the judge's own clock, instead of short ones, timed by
                the kernels' processes.
        """
        kernels = (incumbent, candidate)
        samples: list[PairSample] = []
        begin, sweep = self._monotonic(), 0
        mixer = Mixer(self._bench, self._examiner, candidate, self._monotonic)
        with (
            self._all_inputs(kernels, by_clock=by_clock) as planned,
            self._bench.lineups(kernels, by_clock=by_clock) as lineups,
        ):
            while True:
                try:
                    with self._sweeps(lineups, planned, by_clock=by_clock) as sweeps:
                        for stations in sweeps:
                            for station, (inputs, plan) in zip(stations, planned, strict=True):
                                if odd := mixer.look(station, inputs, plan):
                                    return Measurement(tuple(samples), odd)
                                turn = self._turn(station, random_order(2))
                                if wrong := station.spot_check():
                                    return Measurement(tuple(samples), blame(*wrong))
                                sample = _pair_sample(station, turn, sweep, instance)
                                samples.append(_clocked(sample, turn) if by_clock else sample)
                            sweep += 1
                            if is_over(samples, self._monotonic() - begin - mixer.spent_s):
                                return Measurement(tuple(samples))
                except SideDiedError as error:
                    return Measurement(tuple(samples), blame(error.side, error.outcome))
                instance += 1

    def is_one_long_call(self, incumbent: Built, candidate: Built) -> bool:
        """Whether a single call makes a segment that the judge's own clock can time, too."""
        kernels = (incumbent, candidate)
        plans = (*self._plans(kernels), *self._plans(kernels, by_clock=True))
        return all(plan.slots == 1 for plan in plans)

    def alone(
        self, built: Built, is_over: Callable[[int, Sequence[Sequence[float]], float], bool]
    ) -> dict[str, Alone]:
        """One kernel on its own, by workload label.

        Args:
            built: passed an examination.
            is_over: asked after every sweep: sweeps so far, each workload's samples that nobody
                disturbed, and seconds.

        Raises:
            SideDiedError: it crashed, or ran past its deadline.
        """
        found = {w.label: Alone([], []) for w in self._target.workloads}
        begin, done = self._monotonic(), 0
        with self._all_inputs((built,)) as planned, self._bench.lineups((built,)) as lineups:
            while True:
                with self._sweeps(lineups, planned) as sweeps:
                    for stations in sweeps:
                        for station in stations:
                            turn = self._turn(station, [0])
                            if wrong := station.spot_check():
                                raise SideDiedError(*wrong)
                            if turn.void is None:
                                of_one = found[station.workload.label]
                                least_s, most_s = _alone_s(turn)
                                of_one.least_s.append(least_s)
                                of_one.times_s.append(most_s)
                        done += 1
                        times = [of_one.times_s for of_one in found.values()]
                        if is_over(done, times, self._monotonic() - begin):
                            self._look_aside(stations, found)
                            return found

    def _look_aside(self, stations: Sequence[Station], found: dict[str, Alone]) -> None:
        for station in stations:
            label = station.workload.label
            found[label].asides = station.asides(self._examiner.deadline_s(station.workload))

    def glance(
        self, incumbent: Built, candidate: Built, pairs: int
    ) -> tuple[Failure | None, dict[str, list[tuple[float, float]]]]:
        """A few quick pairs per workload: (incumbent, candidate) seconds per call, by label.

        The first outputs are verified, later ones are not: enough to rank, never enough to keep.
        """
        seen: dict[str, list[tuple[float, float]]] = {}
        try:
            with self._bench.lineup([incumbent, candidate]) as lineup:
                for workload in self._target.workloads:
                    plan = self._bench.examination
                    with self._bench.inputs(workload, plan.slots) as inputs:
                        station = lineup.station(inputs, plan)
                        self._turn(station, [INCUMBENT, CANDIDATE])
                        if wrong := station.spot_check():
                            return blame(*wrong), {}
                        seen[workload.label] = [
                            _times(self._turn(station, random_order(2), fresh=False))
                            for _ in range(pairs)
                        ]
        except SideDiedError as error:
            return blame(error.side, error.outcome), {}
        return None, seen

    def look(
        self, incumbent: Built, candidate: Built, least: int, most: int, within_s: float
    ) -> Measurement:
        """Some pairs per workload on one draw, in the target's order, while there is time.

        The first outputs are verified, later ones are not: it decides nothing. A further workload
        is begun only where as long as the one before took still fits.

        Args:
            incumbent: passed an examination.
            candidate: what is looked at.
            least: valid pairs of a workload that is begun, if `most` give them.
            most: where half the time is left.
            within_s: what it should take; after twice that a single valid pair is enough.
        """
        samples: list[PairSample] = []
        begin, began = self._monotonic(), 0.0

        def spent_s() -> float:
            return self._monotonic() - begin

        try:
            with self._bench.lineup([incumbent, candidate]) as lineup:
                for workload in self._target.workloads:
                    if samples and 2 * spent_s() - began > within_s:
                        break
                    began, first = spent_s(), self._bench.examination
                    with self._bench.inputs(workload, first.slots) as inputs:
                        station = lineup.station(inputs, first)
                        turn = self._turn(station, [INCUMBENT, CANDIDATE])
                        if wrong := station.spot_check():
                            return Measurement((), blame(*wrong))
                    plan = self._bench.plan(workload, max(map(_mean_s, turn.segments)))
                    with self._bench.inputs(workload, plan.slots) as inputs:
                        station = lineup.station(inputs, plan)
                        valid = 0
                        for sweep in range(most):
                            enough_s = within_s / 2 if valid >= least else 2 * within_s
                            if valid and spent_s() > enough_s:
                                break
                            turn = self._turn(station, random_order(2), fresh=sweep == 0)
                            samples.append(_pair_sample(station, turn, sweep, instance=0))
                            valid += turn.void is None
        except SideDiedError as error:
            return Measurement((), blame(error.side, error.outcome))
        return Measurement(tuple(samples))

    def _turn(self, station: Station, order: Sequence[int], *, fresh: bool = True) -> Turn:
        limit_s = self._examiner.deadline_s(station.workload)
        return station.turn(order, limit_s, fresh=fresh)

    @contextmanager
    def _sweeps(
        self,
        lineups: Callable[[], Lineup[Any]],
        planned: Sequence[tuple[Inputs, SegmentPlan]],
        *,
        by_clock: bool = False,
    ) -> Iterator[Iterator[list[Station]]]:
        """The stations of one set of fresh processes, as often as these may be used.

        A context, so that the processes end with the block: left to the garbage collector, their
        end would swallow an interrupt.
        """
        with lineups() as lineup:
            stations = [lineup.station(inputs, plan) for inputs, plan in planned]
            bench = self._bench
            sweeps = bench.clock_sweeps_per_instance if by_clock else bench.sweeps_per_instance
            yield repeat(stations, sweeps)

    @contextmanager
    def _all_inputs(
        self, kernels: Sequence[Built], *, by_clock: bool = False
    ) -> Iterator[list[tuple[Inputs, SegmentPlan]]]:
        plans = self._plans(kernels, by_clock=by_clock)
        with ExitStack() as stack:
            yield [
                (stack.enter_context(self._bench.inputs(workload, plan.slots)), plan)
                for workload, plan in zip(self._target.workloads, plans, strict=True)
            ]

    def _plans(self, kernels: Sequence[Built], *, by_clock: bool = False) -> list[SegmentPlan]:
        """Of each workload's segments."""
        clock_s = max(CLOCK_S / len(self._target.workloads), LEAST_CLOCK_S)
        plans = []
        for workload in self._target.workloads:
            times = [self._examiner.time_s(built, workload) or 0.0 for built in kernels]
            plans.append(
                self._bench.clock_plan(workload, times, clock_s)
                if by_clock
                else self._bench.plan(workload, max(times))
            )
        return plans


def blame(side: int, failure: Failure) -> Failure:
    """The candidate's failure as it is; the incumbent's means that nothing can be decided. What is
    nobody's fault keeps its name."""
    if side == CANDIDATE or isinstance(failure, Unstable):
        return failure
    detail = f"the incumbent, which had passed, failed this time: {failure.detail}{_cure(failure)}"
    return Unstable(reason="incumbent_failed", detail=detail, log=failure.log)


def _cure(failure: Failure) -> str:
    """What helps an honest incumbent that is wrong on some draws."""
    if failure.reason != "wrong_output":
        return ""
    return (
        "; if that is honest arithmetic, a larger `tolerance: {error_factor: ...}` in the target"
        " allows it: `roofsmith kernel check` says on what share of draws, and which value fits"
    )


def _mean_s(segment: Segment) -> float:
    return fmean(segment.times_s)


def _times(turn: Turn) -> tuple[float, float]:
    return turn.segments[INCUMBENT].times_s[0], turn.segments[CANDIDATE].times_s[0]


def _pair_sample(station: Station, turn: Turn, sweep: int, instance: int) -> PairSample:
    return PairSample(
        workload=station.workload.label,
        sweep=sweep,
        instance=instance,
        first="incumbent" if turn.order[0] == INCUMBENT else "candidate",
        incumbent_time_s=turn.segments[INCUMBENT].times_s,
        candidate_time_s=turn.segments[CANDIDATE].times_s,
        **_disturbances(turn),
        void=turn.void,
        health=turn.health,
    )


def _alone_s(turn: Turn) -> tuple[float, float]:
    """What a call of a turn's only side took without others, at least and at most; seconds."""
    of, (waited_s,), (own_s,) = turn.segments[0], *_disturbances(turn).values()
    return between_s(fmean(of.times_s), waited_s, own_s)


def _disturbances(turn: Turn, *, by_clock: bool = False) -> dict[str, Any]:
    """What others took of both sides' calls, where that is noteworthy."""
    waited_s = [segment.disturbed_s(by_clock=by_clock) for segment in turn.segments]
    own_s = [
        segment.own_s / segment.wall_calls if waited and segment.own_s is not None else None
        for segment, waited in zip(turn.segments, waited_s, strict=True)
    ]
    return {"waited_s": tuple(waited_s), "own_s": tuple(own_s)}


def _clocked(sample: PairSample, turn: Turn) -> PairSample:
    """The same pair by the parent's clock."""
    incumbent, candidate = turn.segments
    times = {"incumbent_time_s": (incumbent.clock_s,), "candidate_time_s": (candidate.clock_s,)}
    claims = incumbent.claimed_s, candidate.claimed_s
    told = {} if None in claims else {"claimed_s": claims}
    lost = _disturbances(turn, by_clock=True)
    return sample.model_copy(update={**times, **told, **lost, "calls": candidate.wall_calls})
