"""Which whole numbers say places, and may say others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roofsmith.judge.correctness.dependence import unread_inputs
from roofsmith.judge.correctness.distributions import INDEX, INDICES, transform
from roofsmith.judge.correctness.indices import free_indices
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.judge.host.arithmetic import HostArithmetic

ON = HostArithmetic()
ROWS, PLACES = 50, 400


def found(make: Callable[[np.random.Generator], dict[str, Any]]) -> tuple[str, ...]:
    drawn = [make(np.random.default_rng(seed)) for seed in (1, 2, 3)]
    for one in drawn:
        one["table"] = np.zeros((ROWS, 3), np.float32)
    return free_indices(drawn, {"out"}, ON)


def ids(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, ROWS, PLACES).astype(np.int32)


def test_places_of_another_array_are_free() -> None:
    assert found(lambda rng: {"ids": ids(rng)}) == ("ids",)
    assert found(lambda rng: {"ids": ids(rng).reshape(100, 4)}) == ("ids",)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: {"x": rng.integers(0, 10**6, PLACES)},  # beyond every array
        lambda rng: {"x": np.sort(ids(rng))},
        lambda rng: {"x": rng.permutation(ROWS).astype(np.int32)},
        lambda rng: {"x": np.array([rng.choice(ROWS, 4, replace=False) for _ in range(100)])},
        lambda rng: {"x": rng.permutation(np.repeat(np.arange(ROWS), 8))},  # dealt out evenly
        lambda rng: {"x": ids(np.random.default_rng(0))},
        lambda rng: {"x": ids(rng).astype(np.uint8)},
        lambda rng: {"out": ids(rng)},
    ],
)
def test_what_is_promised_stays(make: Callable[[np.random.Generator], dict[str, Any]]) -> None:
    assert found(make) == ()


@pytest.mark.parametrize(
    "other",
    [
        lambda x, rng: np.cumsum(np.bincount(x, minlength=ROWS)),
        lambda x, rng: np.bincount(x, minlength=ROWS),
        lambda x, rng: np.argsort(x, kind="stable"),
        lambda x, rng: np.minimum(x + rng.integers(0, 9, PLACES), ROWS - 1),  # begin and end
    ],
)
def test_what_another_input_follows_from_stays(
    other: Callable[[np.ndarray, np.random.Generator], np.ndarray],
) -> None:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        x = ids(rng)
        return {"x": x, "other": other(x, rng).astype(np.int32)}

    assert "x" not in found(make)


def test_columns_in_order_within_rows_stay_and_others_are_free() -> None:
    def rows(rng: np.random.Generator, *, ordered: bool) -> dict[str, Any]:
        ends = np.sort(rng.integers(0, PLACES, ROWS)).astype(np.int32)
        parts = np.split(ids(rng), ends)
        return {"ends": ends, "x": np.concatenate([np.sort(p) if ordered else p for p in parts])}

    assert found(lambda rng: rows(rng, ordered=True)) == ()
    assert found(lambda rng: rows(rng, ordered=False)) == ("x",)


@pytest.mark.parametrize("name", INDICES)
def test_indices_are_made_of_those_that_were_drawn(name: str) -> None:
    drawn = {"ids": ids(np.random.default_rng(1)).reshape(100, 4), "g": np.ones(3, np.float32)}
    made = transform(name, drawn, {"ids": INDEX, "g": 0}, 7, ON)
    assert made["g"] is drawn["g"]
    assert (made["ids"].shape, made["ids"].dtype) == ((100, 4), np.int32)
    assert set(made["ids"].flat) <= set(drawn["ids"].flat)
    most = np.bincount(made["ids"].reshape(-1)).max()
    assert most > 3 * np.bincount(drawn["ids"].reshape(-1)).max() or name == "indices in order"


class Sum:
    """Of one of its two inputs."""

    def expect(self, values: dict[str, Any], outputs: set[str], *, exact: bool) -> dict[str, Any]:
        return {"y": np.array([values["a"].sum()])}


def test_an_input_that_does_not_matter_is_said() -> None:
    drawn = [({"a": np.full(3, s), "b": np.full(3, s)}, {"y"}) for s in (1.0, 2.0)]
    unread = unread_inputs(Sum(), drawn, ON)  # type: ignore[arg-type]
    (said,) = Tolerated(unread=tuple(unread)).cautions()
    assert said.startswith("input 'b' doesn't matter")
