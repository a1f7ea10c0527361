"""What looks at some points say of the others: a Gaussian process over a grid of settings.

After Rasmussen & Williams, "Gaussian Processes for Machine Learning", MIT Press 2006: a Matérn 5/2
kernel with a length for each tunable, the lengths by marginal likelihood (section 5.4). Points are
chosen by expected improvement (Jones, Schonlau & Welch, J. Global Optimization 13, 1998), several
at once by believing the mean of those before (Ginsbourger et al., "Kriging is well-suited to
parallelize optimization", 2010).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

LENGTHS = (0.7, 1.5, 3.0, 8.0)
"""Steps between choices over which times are alike; the longest says that a tunable hardly
matters."""
NOISE = 1e-3
"""Variance of a look, as a share of that of all looks."""
PASSES = 2
"""Over the tunables, for their lengths."""


@dataclass(frozen=True)
class SweepModel:
    """Fitted to what was looked at.

    Attributes:
        points: (n, tunables), places of choices.
        values: (n,), logarithms of speedups; standardised inside.
        ordered: of each tunable, whether neighbouring choices are alike.
        lengths: of each tunable.
    """

    points: Floats
    values: Floats
    ordered: tuple[bool, ...]
    lengths: Floats

    @classmethod
    def fitted(cls, points: Floats, values: Floats, ordered: Sequence[bool]) -> SweepModel:
        """With the lengths under which these values are most likely, one tunable at a time."""
        model = cls(points, values, tuple(ordered), np.full(len(ordered), LENGTHS[1]))
        for _ in range(PASSES):
            for place in range(len(ordered)):
                tried = [model._with_length(place, length) for length in LENGTHS]
                model = max(tried, key=lambda one: one.likelihood)
        return model

    @property
    def likelihood(self) -> float:
        """Logarithm of the marginal likelihood, less a constant."""
        factor, weights, standard = self._solved()
        return float(-0.5 * standard @ weights - np.log(np.diag(factor)).sum())

    def believing(self, chosen: Floats) -> SweepModel:
        """As if a point had come to what is expected of it."""
        mean, _ = self.predicted(chosen[None, :])
        points = np.vstack([self.points, chosen])
        return SweepModel(points, np.append(self.values, mean), self.ordered, self.lengths)

    def predicted(self, others: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation of other points."""
        factor, weights, _ = self._solved()
        beside = self._covariance(others, self.points)
        centre, spread = self._scale
        reduced = np.linalg.solve(factor, beside.T)
        variance = np.maximum(1.0 - (reduced**2).sum(0), 1e-12)
        return centre + spread * (beside @ weights), spread * np.sqrt(variance)

    def improvement(self, others: Floats) -> Floats:
        """Expected of other points, over the best value so far."""
        mean, deviation = self.predicted(others)
        gap = mean - self.values.max()
        z = gap / deviation
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * math.erfc(-one / math.sqrt(2)) for one in z])
        return np.asarray(gap * below + deviation * density)

    @property
    def _scale(self) -> tuple[float, float]:
        return float(self.values.mean()), float(self.values.std()) or 1.0

    def _with_length(self, place: int, length: float) -> SweepModel:
        lengths = self.lengths.copy()
        lengths[place] = length
        return SweepModel(self.points, self.values, self.ordered, lengths)

    def _solved(self) -> tuple[Floats, Floats, Floats]:
        """The covariance's Cholesky factor, its inverse times the values, and the values."""
        centre, spread = self._scale
        standard = (self.values - centre) / spread
        covariance = self._covariance(self.points, self.points)
        factor = np.linalg.cholesky(covariance + NOISE * np.eye(len(standard)))
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, standard))
        return np.asarray(factor, float), np.asarray(weights, float), standard

    def _covariance(self, some: Floats, others: Floats) -> Floats:
        gaps = np.abs(some[:, None, :] - others[None, :, :])
        gaps = np.where(np.asarray(self.ordered), gaps, gaps > 0) / self.lengths
        distance = math.sqrt(5) * np.sqrt((gaps**2).sum(-1))
        return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance))
