"""The search behind a sweep: which assignments are looked at, and when enough were.

Optuna proposes (ask/tell); nothing here runs a kernel, the caller's bench does. Spaces of a few
points are enumerated; larger ones are searched with a multivariate tree-structured Parzen estimator
(Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011; Falkner et al.,
"BOHB", ICML 2018, for the multivariate kernel), which learns that block sizes must fit a cache
together.

Points come in batches, whose builds run side by side. What is not known yet of the others in a
batch counts as bad (the constant liar of Ginsbourger et al., "Kriging is well-suited to parallelize
optimization", 2010), so that they lie apart.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from roofsmith.proposers.sweep_pace import Pace
from roofsmith.proposers.tunables import Setting, Tunable

Point = Mapping[str, Setting]
"""An assignment that names every tunable of the sweep."""

GRID_POINTS = 16
"""Up to this many points a space is enumerated: a model would need as many to learn anything."""
STARTUP_POINTS = 4
"""Random points before the model takes over. Sweeps are short: on simulated costs of five tunables,
12 to 30 points ended nearer to the optimum with 4 than with 8 or more."""
REPEATS = 24
"""Known points in a row after which the space counts as exhausted."""
PROGRESS = 1.005
"""A best point must be beaten by this to count as progress: less is noise of a screening."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best assignment so far; `speedup` is over the incumbent, whose own is 1."""

    assignment: Mapping[str, Setting]
    speedup: float


class SearchBench(Protocol):
    """Where points are tried."""

    @property
    def pace(self) -> Pace:
        """What it took so far."""
        ...

    def fits(self, point: Point) -> bool:
        """Whether a point is worth building, by what is known of the device."""
        ...

    def prepare(self, points: Sequence[Point]) -> None:
        """Build points side by side, before they are looked at."""
        ...

    def look(self, point: Point) -> float | None:
        """Speedup of a point over the incumbent; None if the candidate failed."""
        ...


@dataclass(slots=True)
class SearchAllowance:
    """How much a search may still look at: distinct points, and points without progress."""

    points: int
    patience: int
    left_s: Callable[[], float]
    """Time left; no batch is begun that wouldn't be over by then."""
    _since_progress: int = 0

    @property
    def room(self) -> int:
        """Points that may be looked at before anything but time could end the search."""
        return max(0, min(self.points, self.patience - self._since_progress))

    def spend(self, *, progress: bool) -> None:
        """One point was looked at."""
        self.points -= 1
        self._since_progress = 0 if progress else self._since_progress + 1


class SweepSearch:
    """One search over some tunables, with all others at the best assignment found before.

    Args:
        tunables: what to vary.
        start: the best so far; its assignment names every tunable of the sweep.
        bench: the objective.
        known: speedups of assignments that were looked at before; extended here.
        allowance: when to stop.
        seed: of every random choice.
        hints: settings that won elsewhere, which are looked at first.
    """

    def __init__(
        self,
        tunables: Sequence[Tunable],
        start: Best,
        bench: SearchBench,
        known: dict[tuple[tuple[str, Setting], ...], float | None],
        allowance: SearchAllowance,
        seed: int,
        hints: Sequence[Point] = (),
    ) -> None:
        self._tunables = {t.name: t for t in tunables}
        self._bench = bench
        self._known = known
        self._allowance = allowance
        self._seed = seed
        self._hints = hints
        self._probes: list[dict[str, Setting]] = []
        self.best = start

    def run(self) -> Best:
        """Look around until the allowance is used up or the space is exhausted."""
        self._pin_breaking()
        if self._tunables:
            self._explore(dict(self.best.assignment))
        return self.best

    def _pin_breaking(self) -> None:
        """Leave out found constants whose neighbours break the kernel: they mean something.

        A dimension that is a constant looks just like a block size. One at a time costs a point or
        two each; left in, such a constant would make nearly every point of the search a failed one.
        """
        constants = [t for t in self._tunables.values() if t.kind == "constant"]
        if len(self._tunables) < 2:
            return
        above = {t.name: self._neighbours(t) for t in constants}
        broken = self._breaking([(name, near[0]) for name, near in above.items() if near])
        second = [(name, above[name][1]) for name in broken if len(above[name]) > 1]
        spared = {name for name, _ in second} - set(self._breaking(second))
        for name in broken:
            if name not in spared and len(self._tunables) > 1:
                del self._tunables[name]

    def _neighbours(self, tunable: Tunable) -> list[Setting]:
        """The choices next to the current one that fit the device: above, then below."""
        current = self.best.assignment
        place = tunable.choices.index(current[tunable.name])
        near = (tunable.choices[i] for i in (place + 1, place - 1) if 0 <= i < len(tunable.choices))
        return [choice for choice in near if self._bench.fits({**current, tunable.name: choice})]

    def _breaking(self, changes: Sequence[tuple[str, Setting]]) -> list[str]:
        """Those of the tunables that break the kernel where each alone is set like this.

        One that there is no room to look at is none of them.
        """
        broken: list[str] = []
        waiting = list(changes)
        while waiting and (size := self._batch_size(len(waiting))):
            batch, waiting = waiting[:size], waiting[size:]
            points = [{**self.best.assignment, name: setting} for name, setting in batch]
            for (name, _), point, speedup in zip(batch, points, self._tried(points), strict=False):
                if speedup is None:
                    broken.append(name)
                else:
                    self._probes.append(point)
        return broken

    def _explore(self, start: dict[str, Setting]) -> None:
        tunables = list(self._tunables.values())
        study = _study(self._seed)
        hinted = [
            {**start, **{name: hint[name] for name in self._tunables if name in hint}}
            for hint in self._hints
        ]
        first = [start, *hinted, *self._probes]
        enumerated = math.prod(len(t.choices) for t in tunables) <= GRID_POINTS
        if enumerated:
            # So few points need no patience: the last one may be the best.
            self._allowance.patience = GRID_POINTS + 1
            choices = itertools.product(*(t.choices for t in tunables))
            first += [dict(zip(self._tunables, settings, strict=True)) for settings in choices]
        with _quiet():
            for point in first:
                study.enqueue_trial(_encoded(tunables, point), skip_if_exists=True)
        while batch := self._ask(study, tunables, start, enumerated=enumerated):
            points = [point for _, point in batch]
            for (trial, _), speedup in zip(batch, self._tried(points), strict=False):
                _tell(study, trial, speedup)

    def _ask(
        self,
        study: optuna.Study,
        tunables: Sequence[Tunable],
        start: Mapping[str, Setting],
        *,
        enumerated: bool,
    ) -> list[tuple[Trial, Point]]:
        """The next batch: points that nobody looked at; none once space or allowance is used up."""
        space = {t.name: _distribution(t) for t in tunables}
        size = self._batch_size(_unguided(study, enumerated=enumerated))
        batch: dict[tuple[tuple[str, Setting], ...], tuple[Trial, Point]] = {}
        repeats = 0
        while len(batch) < size and repeats < REPEATS:
            if enumerated and not _waiting(study):
                break
            trial = study.ask(space)
            point = {**start, **_decoded(tunables, trial)}
            key = _key(point)
            repeats += 1
            if key not in self._known and not self._bench.fits(point):
                self._known[key] = None
            if key in self._known:
                _tell(study, trial, self._known[key])
            elif key in batch:
                _tell(study, trial, None)  # what it comes to is told once
            else:
                batch[key] = trial, point
                repeats = 0
        return list(batch.values())

    def _batch_size(self, unguided: int) -> int:
        """Points of the next batch; 0: the allowance is used up.

        Args:
            unguided: points that would be the same whatever the others come to. It costs nothing
                to build as many of them at once as can be.
        """
        pace = self._bench.pace
        wanted = min(max(unguided, pace.worthwhile), pace.side_by_side)
        return min(wanted, self._allowance.room, pace.fitting(self._allowance.left_s()))

    def _tried(self, points: Sequence[Point]) -> list[float | None]:
        """Build points side by side, then look at each; fewer, where that took far too long.

        Past the deadline looks go on for as long as the builds took, which would be wasted.
        """
        left_s = self._allowance.left_s
        before_s = left_s()
        self._bench.prepare(points)
        built_s = before_s - left_s()
        until_s = min(0.0, left_s() - built_s)
        speedups = [self._looked_at(points[0])]
        while len(speedups) < len(points) and left_s() > until_s:
            speedups.append(self._looked_at(points[len(speedups)]))
        return speedups

    def _looked_at(self, point: Point) -> float | None:
        speedup = self._known[_key(point)] = self._bench.look(point)
        progress = speedup is not None and speedup > self.best.speedup * PROGRESS
        if speedup is not None and speedup > self.best.speedup:
            self.best = Best(dict(point), speedup)
        self._allowance.spend(progress=progress)
        return speedup


def _key(point: Point) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(point.items()))


def _distribution(tunable: Tunable) -> BaseDistribution:
    """Ordered choices by index, so that the model knows which are neighbours."""
    if tunable.ordered:
        return IntDistribution(0, len(tunable.choices) - 1)
    return CategoricalDistribution(tunable.choices)


def _encoded(tunables: Sequence[Tunable], point: Mapping[str, Setting]) -> dict[str, Setting]:
    return {
        t.name: t.choices.index(point[t.name]) if t.ordered else point[t.name] for t in tunables
    }


def _decoded(tunables: Sequence[Tunable], trial: Trial) -> dict[str, Setting]:
    return {
        t.name: t.choices[trial.params[t.name]] if t.ordered else trial.params[t.name]
        for t in tunables
    }


def _tell(study: optuna.Study, trial: Trial, speedup: float | None) -> None:
    if speedup is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, math.log(speedup))


def _waiting(study: optuna.Study) -> int:
    """Points that are still to be asked for, because they were given in advance."""
    return len(study.get_trials(False, (TrialState.WAITING,)))


def _unguided(study: optuna.Study, *, enumerated: bool) -> int:
    """Points to come that no model has a say in."""
    if enumerated:
        return _waiting(study)
    return max(0, STARTUP_POINTS - len(study.get_trials(False, (TrialState.COMPLETE,))))


def _study(seed: int) -> optuna.Study:
    with _quiet():
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP_POINTS
        )
        return optuna.create_study(sampler=sampler, direction="maximize")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's notices, and without its warnings that an option is experimental."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
