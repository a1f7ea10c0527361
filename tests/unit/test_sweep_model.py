"""The model behind a sweep: it goes through what was seen, and learns what matters."""

from __future__ import annotations

import itertools

import numpy as np

from roofsmith.proposers.sweep_model import LENGTHS, SweepModel

GRID = np.array(list(itertools.product(range(5), range(4))), dtype=float)


def valley(points: np.ndarray) -> np.ndarray:
    """Best at 3 of the first; the second is of no matter."""
    return -0.2 * np.abs(points[:, 0] - 3)


def fitted(count: int) -> SweepModel:
    seen = GRID[np.random.default_rng(1).permutation(len(GRID))[:count]]
    return SweepModel.fitted(seen, valley(seen), (True, True))


def test_what_was_seen_is_expected_again_and_no_gain_there() -> None:
    model = fitted(8)
    mean, deviation = model.predicted(model.points)
    np.testing.assert_allclose(mean, model.values, atol=0.02)
    assert (deviation < 0.02).all()
    assert model.improvement(model.points).max() < 0.01


def test_a_tunable_that_does_not_matter_gets_the_longest_length() -> None:
    model = fitted(10)
    assert model.lengths[1] == LENGTHS[-1] > model.lengths[0]
    best = GRID[np.argmax(model.predicted(GRID)[0])]
    assert best[0] == 3


def test_points_of_a_batch_lie_apart() -> None:
    seen = GRID[:2]
    model = SweepModel.fitted(seen, valley(seen), (True, True))
    first = GRID[np.argmax(model.improvement(GRID))]
    again = model.believing(first).improvement(first[None, :])
    assert again[0] < model.improvement(first[None, :])[0]


def test_values_that_are_all_the_same_are_no_trouble() -> None:
    model = SweepModel.fitted(GRID[:3], np.zeros(3), (True, False))
    assert np.isfinite(model.improvement(GRID)).all()
