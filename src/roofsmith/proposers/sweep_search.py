"""The search behind a sweep: which assignments are looked at, and when enough were.

Nothing here runs a kernel, the caller's bench does. Spaces of a few points are enumerated. In
larger ones a few points that lie far apart come first, then what a model (`sweep_model.py`) of all
that was looked at expects most of: block sizes must fit a cache together, and which settings matter
at all differs from kernel to kernel.

Points come in batches, whose builds run side by side. What is not known yet of the others in a
batch counts as what the model expects of it, so that they lie apart.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np

from roofsmith.proposers.sweep_model import SweepModel
from roofsmith.proposers.tunables import Setting, Tunable

Point = Mapping[str, Setting]
"""An assignment that names every tunable of the sweep."""
_Key = tuple[tuple[str, Setting], ...]

GRID_POINTS = 16
"""Up to this many points a space is enumerated: a model would need as many to learn anything."""
SPREAD_POINTS = 4
"""Before a model is asked. On recorded times of four kernels 2 to 6 do as well; with the neighbours
of where it begins in their place, a third more looks led within 2% of the best."""
SPREAD_POOL = 32
"""Points at random, of which the one that lies furthest from the others is chosen."""
POOL_POINTS = 2048
"""Of a larger space, which a model is asked about at once."""
PROGRESS = 1.005
"""A best point must be beaten by this to count as progress: less is noise of a screening."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best assignment so far; `speedup` is over the incumbent, whose own is 1."""

    assignment: Mapping[str, Setting]
    speedup: float


class SearchBench(Protocol):
    @property
    def pace(self) -> Pace:
        """What it took so far."""
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
    """

    def __init__(
        self,
        tunables: Sequence[Tunable],
        start: Best,
        bench: SearchBench,
        known: dict[_Key, float | None],
        allowance: SearchAllowance,
        seed: int,
    ) -> None:
        self._tunables = {t.name: t for t in tunables}
        self._bench = bench
        self._known = known
        self._allowance = allowance
        self._random = random.Random(seed)
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
        """The choices next to the current one: above, then below."""
        place = tunable.choices.index(self.best.assignment[tunable.name])
        return [tunable.choices[i] for i in (place + 1, place - 1) if 0 <= i < len(tunable.choices)]

    def _breaking(self, changes: Sequence[tuple[str, Setting]]) -> list[str]:
        """Those of the tunables that break the kernel where each alone is set like this.

        One that there is no room to look at is none of them.
        """
        broken: list[str] = []
        waiting = list(changes)
        while waiting and (size := self._batch_size(len(waiting))):
            batch, waiting = waiting[:size], waiting[size:]
            points = [{**self.best.assignment, name: setting} for name, setting in batch]
            for (name, _), speedup in zip(batch, self._tried(points), strict=False):
                if speedup is None:
                    broken.append(name)
        return broken

    def _explore(self, start: dict[str, Setting]) -> None:
        sizes = [len(t.choices) for t in self._tunables.values()]
        if math.prod(sizes) <= GRID_POINTS:
            # So few points need no patience: the last one may be the best.
            self._allowance.patience = GRID_POINTS + 1
            choices = itertools.product(*(t.choices for t in self._tunables.values()))
            first: list[Point] = [
                dict(zip(self._tunables, settings, strict=True)) for settings in choices
            ]
        else:
            first = self._spread(start)
        points = {_key(point): point for one in first for point in [{**start, **one}]}
        waiting = [point for key, point in points.items() if key not in self._known]
        while waiting and (size := self._batch_size(len(waiting))):
            self._tried(waiting[:size])
            waiting = waiting[size:]
        while not waiting and (batch := self._expected(start, self._batch_size(0))):
            self._tried(batch)

    def _spread(self, start: Point) -> list[Point]:
        """Points that lie far from where it begins, and from one another."""
        scale = np.array([max(1, len(t.choices) - 1) for t in self._tunables.values()])
        held = [np.array(self._places(start)) / scale]
        found = list[Point]()
        for _ in range(SPREAD_POINTS):
            drawn = [self._drawn(start) for _ in range(SPREAD_POOL)]
            places = [np.array(self._places(point)) / scale for point in drawn]
            gaps = [min(float(np.abs(one - other).sum()) for other in held) for one in places]
            for n in sorted(range(SPREAD_POOL), key=lambda n: -gaps[n]):
                if _key(drawn[n]) not in self._known:
                    found.append(drawn[n])
                    held.append(places[n])
                    break
        return found

    def _drawn(self, start: Point) -> Point:
        return {**start, **{n: self._random.choice(t.choices) for n, t in self._tunables.items()}}

    def _beside(self, start: Point) -> Iterator[dict[str, Setting]]:
        """One setting changed: by a step, or to any other where there is no order."""
        for name, tunable in self._tunables.items():
            place = tunable.choices.index(start[name])
            for other, choice in enumerate(tunable.choices):
                if other != place and (not tunable.ordered or abs(other - place) == 1):
                    yield {name: choice}

    def _expected(self, start: Point, size: int) -> list[Point]:
        """Points that the model expects most of; fewer, where no others are left."""
        if size == 0:
            return []
        pool = {_key(point): point for point in self._pool(start) if _key(point) not in self._known}
        if not pool:
            return []
        model, batch = self._model(start), list[Point]()
        places = {key: self._places(point) for key, point in pool.items()}
        while pool and len(batch) < size:
            keys = list(pool)
            gains = model.improvement(np.array([places[key] for key in keys]))
            best = keys[int(np.argmax(gains))]
            batch.append(pool.pop(best))
            model = model.believing(np.array(places[best]))
        return batch

    def _pool(self, start: Point) -> Iterator[Point]:
        """All points; of a large space some at random, and those beside the best."""
        choices = [t.choices for t in self._tunables.values()]
        if math.prod(map(len, choices)) <= POOL_POINTS:
            for settings in itertools.product(*choices):
                yield {**start, **dict(zip(self._tunables, settings, strict=True))}
            return
        for one in self._beside(self.best.assignment):
            yield {**self.best.assignment, **one}
        for _ in range(POOL_POINTS):
            yield self._drawn(start)

    def _model(self, start: Point) -> SweepModel:
        """Of what was looked at. A point that failed counts as what lies in the middle: the best
        often lie beside those that don't fit."""
        fixed = {name: setting for name, setting in start.items() if name not in self._tunables}
        seen = {
            key: speedup
            for key, speedup in self._known.items()
            if fixed.items() <= dict(key).items()
        }
        middle = median(speedup for speedup in seen.values() if speedup is not None)
        points = np.array([self._places(dict(key)) for key in seen], dtype=float)
        values = np.array([math.log(middle if s is None else s) for s in seen.values()])
        return SweepModel.fitted(points, values, [t.ordered for t in self._tunables.values()])

    def _places(self, point: Point) -> list[float]:
        return [float(t.choices.index(point[name])) for name, t in self._tunables.items()]

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


def _key(point: Point) -> _Key:
    return tuple(sorted(point.items()))


FIRST_BATCH = 4
"""Points before anything is known of what they take."""
BUILDS_PER_LOOK = 2.0
"""A batch is so large that a build's share of a point takes half as long as its look. Larger ones
gain little time, and more of their points are guesses. On simulated costs of five tunables, with
builds of 4 s, looks of 1 s, 16 processors and 60 s, 0.48 of the possible gain (in the logarithm)
was left; 0.52 with half as large batches, 0.54 with twice as large ones, 0.76 with one build at a
time."""


@dataclass(slots=True)
class Pace:
    """What a sweep's batches took so far, and how large the next one may be.

    A batch's builds run side by side and its looks one after the other, so a point of a batch of
    b takes build / b + look.
    """

    side_by_side: int
    """Builds that run at the same time."""
    _build_s: float = 0.0
    _waves: int = 0
    """Groups of at most `side_by_side` builds, each of which takes about as long as one."""
    _look_s: float = 0.0
    _looks: int = 0

    def built(self, count: int, wall_s: float) -> None:
        """Note what it took to build this many at once."""
        self._waves += math.ceil(count / self.side_by_side)
        self._build_s += wall_s

    def looked(self, wall_s: float) -> None:
        """Note what a look took."""
        self._looks += 1
        self._look_s += wall_s

    @property
    def worthwhile(self) -> int:
        """Points that are worth being chosen without knowing what the others come to."""
        if self._waves == 0 or self._looks == 0:
            return 1
        build_s, look_s = self._build_s / self._waves, self._look_s / self._looks
        if build_s * BUILDS_PER_LOOK >= self.side_by_side * look_s:
            return self.side_by_side
        return max(1, round(BUILDS_PER_LOOK * build_s / look_s))

    def fitting(self, left_s: float) -> int:
        """Points that can be built at once and looked at in the time left."""
        if left_s <= 0:
            return 0
        if self._waves == 0 or self._looks == 0:
            return min(FIRST_BATCH, self.side_by_side)
        build_s, look_s = self._build_s / self._waves, self._look_s / self._looks
        left_s -= build_s
        if left_s >= self.side_by_side * look_s:
            return self.side_by_side
        return max(0, math.floor(left_s / look_s))
