"""The search behind a sweep: which assignments are looked at, and when enough were.

Optuna proposes (ask/tell); nothing here runs a kernel, the caller's `look` does. Spaces of a few
points are enumerated; larger ones are searched with a multivariate tree-structured Parzen estimator
(Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011; Falkner et al.,
"BOHB", ICML 2018, for the multivariate kernel), which learns that block sizes must fit a cache
together.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from roofsmith.proposers.tunables import Setting, Tunable

Look = Callable[[Mapping[str, Setting]], float | None]
"""Speedup of an assignment over the incumbent; None if the candidate failed."""

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


@dataclass(slots=True)
class Allowance:
    """How much a search may still look at: distinct points, and points without progress."""

    points: int
    patience: int
    out_of_time: Callable[[], bool]
    _since_progress: int = 0

    @property
    def used_up(self) -> bool:
        """Nothing more may be looked at."""
        return self.points <= 0 or self._since_progress >= self.patience or self.out_of_time()

    def spend(self, *, progress: bool) -> None:
        """One point was looked at."""
        self.points -= 1
        self._since_progress = 0 if progress else self._since_progress + 1


class Search:
    """One search over some tunables, with all others at the best assignment found before.

    Args:
        tunables: what to vary.
        start: the best so far; its assignment names every tunable of the sweep.
        look: the objective.
        known: speedups of assignments that were looked at before; extended here.
        allowance: when to stop.
        seed: of every random choice.
    """

    def __init__(
        self,
        tunables: Sequence[Tunable],
        start: Best,
        look: Look,
        known: dict[tuple[tuple[str, Setting], ...], float | None],
        allowance: Allowance,
        seed: int,
    ) -> None:
        self._tunables = {t.name: t for t in tunables}
        self._look = look
        self._known = known
        self._allowance = allowance
        self._seed = seed
        self._probes: list[dict[str, Setting]] = []
        self.best = start

    def run(self) -> Best:
        """Look around until the allowance is used up or the space is exhausted."""
        self._pin_breaking()
        if self._tunables and not self._allowance.used_up:
            self._explore(dict(self.best.assignment))
        return self.best

    def _pin_breaking(self) -> None:
        """Leave out found constants whose neighbours break the kernel: they mean something.

        A dimension that is a constant looks just like a block size. One at a time costs a point or
        two each; left in, such a constant would make nearly every point of the search a failed one.
        """
        for tunable in list(self._tunables.values()):
            if tunable.kind == "constant" and len(self._tunables) > 1 and self._breaks(tunable):
                del self._tunables[tunable.name]

    def _breaks(self, tunable: Tunable) -> bool:
        """Whether the choices next to the current one were tried alone, and both failed."""
        start = self.best.assignment
        tried = False
        for setting in _neighbours(tunable, start[tunable.name]):
            if self._allowance.used_up:
                return False
            point = {**start, tunable.name: setting}
            tried = True
            if self._evaluate(point) is not None:
                self._probes.append(point)
                return False
        return tried

    def _explore(self, start: dict[str, Setting]) -> None:
        tunables = list(self._tunables.values())
        study = _study(self._seed)
        first = [start, *self._probes]
        enumerated = math.prod(len(t.choices) for t in tunables) <= GRID_POINTS
        if enumerated:
            # So few points need no patience: the last one may be the best.
            self._allowance.patience = GRID_POINTS + 1
            choices = itertools.product(*(t.choices for t in tunables))
            first += [dict(zip(self._tunables, settings, strict=True)) for settings in choices]
        with _quiet():
            for point in first:
                study.enqueue_trial(_encoded(tunables, point), skip_if_exists=True)
        space = {t.name: _distribution(t) for t in tunables}
        repeats = 0
        while not self._allowance.used_up and repeats < REPEATS:
            trial = study.ask(space)
            point = {**start, **_decoded(tunables, trial)}
            repeats = repeats + 1 if _key(point) in self._known else 0
            _tell(study, trial, self._evaluate(point))
            if enumerated and not study.get_trials(False, (TrialState.WAITING,)):
                return

    def _evaluate(self, point: Mapping[str, Setting]) -> float | None:
        key = _key(point)
        if key in self._known:
            return self._known[key]
        speedup = self._known[key] = self._look(point)
        progress = speedup is not None and speedup > self.best.speedup * PROGRESS
        if speedup is not None and speedup > self.best.speedup:
            self.best = Best(dict(point), speedup)
        self._allowance.spend(progress=progress)
        return speedup


def _key(point: Mapping[str, Setting]) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(point.items()))


def _neighbours(tunable: Tunable, current: Setting) -> list[Setting]:
    """The choices next to the current one: above, then below."""
    place = tunable.choices.index(current)
    near = (place + 1, place - 1)
    return [tunable.choices[i] for i in near if 0 <= i < len(tunable.choices)]


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


def _study(seed: int) -> optuna.Study:
    with _quiet():
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, n_startup_trials=STARTUP_POINTS
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
