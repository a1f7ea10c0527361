"""Which errors of sums are those of rounded inputs, and which never are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Budget, Errors
from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.correctness import low_precision_inputs as narrow_inputs
from roofsmith.judge.correctness.low_precision_inputs import (
    DRAWS,
    FIRST_LOOKS,
    MOST_ELEMENTS,
    MOST_NUMBERS,
    Attempt,
    Attempts,
    Question,
    Way,
    Ways,
    attempt,
    explained,
    first_looks,
    questions,
)
from roofsmith.judge.correctness.shortened_inputs import shortened
from roofsmith.judge.host.arithmetic import HostArithmetic

ON = HostArithmetic()
Numbers = NDArray[Any]
Kernel = Callable[[dict[str, Numbers]], Numbers]
BF16 = Way(8, "rounded", ("a", "b"))
FACTOR = 10.0


def exact(values: dict[str, Numbers]) -> Numbers:
    a, b, t = (values[name].astype(np.float64) for name in "abt")
    return np.square((a * b).sum(axis=-1) - t).mean(axis=-1, keepdims=True)


def rounded(way: Way) -> Kernel:
    def kernel(values: dict[str, Numbers]) -> Numbers:
        narrow = shortened(values, way.bits, ON, how=way.how, only=way.names)
        return exact(narrow).astype(np.float32)

    return kernel


def one_by_one(values: dict[str, Numbers]) -> Numbers:
    """In float32, in the order in which they lie."""
    terms = np.square((values["a"] * values["b"]).cumsum(axis=-1)[..., -1] - values["t"])
    count = np.float32(terms.shape[-1])
    return terms.cumsum(axis=-1, dtype=np.float32)[..., -1:] / count


class Draws:
    """Fresh inputs for a kernel, as the judge looks at it."""

    def __init__(self, kernel: Kernel, seed: int, sums: int = 1, honest: float = 0.0) -> None:
        self._kernel, self._honest = kernel, honest
        self._rng = np.random.default_rng(seed)
        self._shape = (sums, 512, 16)
        self.looks = 0
        self.tried = 0
        self.wait_s = 0.0
        """That a reference takes."""

    def look(self, known: Ways | None) -> Attempts:
        self.looks += 1
        shapes = {"a": self._shape, "b": self._shape, "t": self._shape[:-1]}
        values = {k: self._rng.standard_normal(s, np.float32) for k, s in shapes.items()}
        arrays = [ArraySpec(name, "input", "float32", shape) for name, shape in shapes.items()]
        arrays.append(ArraySpec("y", "output", "float32", self._shape[:1]))
        budget = Budget(1.0, 1.0, Errors(self._honest, self._honest))
        found = {}
        for asked in questions(arrays, lambda name: budget, FACTOR, known):

            def by(way: Way) -> Numbers:
                self.tried += 1
                time.sleep(self.wait_s)
                rounded = shortened(values, way.bits, ON, how=way.how, only=way.names)
                return exact(rounded).reshape(-1)

            out, truth = (made(values).reshape(-1) for made in (self._kernel, exact))
            if (tried := attempt(asked, out, truth, by)) is not None:
                found[asked.output] = tried
        return found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: all ways are tried."""
    monkeypatch.setattr(narrow_inputs, "LONGEST_S", 600.0)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    "way",
    [
        BF16,
        Way(8, "rounded", ("a",)),
        Way(11, "rounded", ("a", "b")),
        Way(8, "cut", ("a", "b", "t")),
        Way(8, "scaled", ("a", "b")),
        Way(8, "scaled by row", ("b",)),
        Way(8, "scaled by column", ("a", "b", "t")),
        Way(4, "rounded", ("a", "b", "t")),
    ],
)
@pytest.mark.parametrize(("sums", "seeds", "least"), [(1, 8, 6), (16, 2, 2)])
@pytest.mark.slow
def test_rounded_inputs_are_named(way: Way, sums: int, seeds: int, least: int) -> None:
    # Of a single sum, an error that is small by chance isn't looked at further.
    found = [explained(Draws(rounded(way), seed, sums).look, FIRST_LOOKS) for seed in range(seeds)]
    told = [one for one in found if one is not None]
    assert len(told) >= least
    for name, diagnosis in told:
        assert name == "y"
        assert diagnosis.reason == "precision"
        assert f"on {DRAWS} draws its error is that of {way}" in diagnosis.detail


@given(st.integers(0, 2**31 - 1), st.sampled_from([1, 64]))
def test_sums_in_another_order_never_are(seed: int, sums: int) -> None:
    assert explained(Draws(one_by_one, seed, sums).look, FIRST_LOOKS) is None


def test_what_is_as_exact_as_honest_arithmetic_is_not_looked_at() -> None:
    """As where the reference itself computes in TF32, because the target allows that."""
    draws = Draws(rounded(BF16), 0, honest=1.0)
    assert explained(draws.look, FIRST_LOOKS) is None
    assert (draws.looks, draws.tried) == (FIRST_LOOKS, 0)


@pytest.mark.usefixtures("unhurried")
def test_ways_that_failed_before_are_not_tried_again() -> None:
    draws = Draws(rounded(BF16), 3, sums=16)
    assert explained(draws.look, FIRST_LOOKS) is not None
    every = (2 + 2 + 3) * (1 + 3 + 3) + 3 + 2
    assert every < draws.tried <= every + 3 * DRAWS


def test_an_error_to_one_side_is_no_rounding_of_inputs() -> None:
    """A sum that loses as much on every draw as cutting inputs off takes, but not with them."""
    cut = Way(8, "cut", ("a",))

    def look(known: Ways | None) -> Attempts:
        off = -1e-3 * (1 + 0.1 * rng.standard_normal(1))
        by = -1e-3 * (1 + 0.1 * rng.standard_normal(1))
        return {"y": Attempt("float32", off.tolist(), {cut: by.tolist()})}

    rng = np.random.default_rng(0)
    assert all(explained(look, FIRST_LOOKS) is None for _ in range(20))


def test_attempts_are_sent_as_they_are() -> None:
    made = Attempt("float32", [0.5, -0.25], {BF16: [1.0, 2.0], Way(11, "cut", ("t",)): [0.0, 1.0]})
    assert Attempt.from_message(json.loads(json.dumps(made.as_message()))) == made


def asked_of(
    dtype: Any = "float32",
    size: int = 1,
    rtol: float | None = None,
    honest: float = 1e-6,
    factor: float = FACTOR,
) -> list[Question]:
    budget = Budget(1.0, 1.0, Errors(honest, honest), rtol=rtol)
    arrays = [
        ArraySpec("x", "input", "float32", (8,)),
        ArraySpec("n", "input", "int32", (8,)),
        ArraySpec("y", "output", dtype, (size,)),
    ]
    return list(questions(arrays, lambda name: budget, factor, None))


def test_who_allows_more_has_less_looked_at() -> None:
    assert asked_of()[0].least == pytest.approx(4e-6)
    assert asked_of(factor=100.0)[0].least == pytest.approx(4e-5)
    assert asked_of(honest=0.0)[0].least == 4 * 2.0**-23


@pytest.mark.parametrize(
    ("dtype", "size", "rtol", "expected"),
    [
        ("float32", 1, None, True),
        ("float64", 2**20, None, True),
        ("float16", 1, None, False),
        ("int32", 1, None, False),
        ("float32", 1, 1e-3, False),
    ],
)
def test_which_outputs_are_looked_at(
    dtype: Any, size: int, rtol: float | None, expected: bool
) -> None:
    found = asked_of(dtype, size, rtol)
    assert bool(found) is expected
    assert {name for one in found for way in one.ways for name in way.names} <= {"x"}


@pytest.mark.slow
def test_a_reference_that_takes_long_is_asked_for_the_likeliest_ways() -> None:
    """And for all of those that come near again, on every further draw."""
    draws = Draws(rounded(BF16), 3, sums=64)
    draws.wait_s = 0.3
    first = draws.look(None)["y"]
    assert draws.tried == 3
    assert first.made, "bfloat16 is among them"
    again = draws.look({"y": (*first.made, Way(8, "cut", ("a",)), Way(11, "cut", ("t",)))})["y"]
    assert len(again.made) == len(first.made) + 2


def test_what_is_not_finite_explains_nothing() -> None:
    (asked,) = asked_of()
    out, nothing = np.array([1.5], np.float32), np.array([np.nan])
    assert attempt(asked, out, np.array([1.0]), lambda way: nothing) == Attempt("float32", [0.5])
    assert attempt(asked, out, np.array([np.inf]), lambda way: nothing) is None


def test_of_many_numbers_some_are_looked_at() -> None:
    (few,), (many,), (again,) = (asked_of(size=size) for size in (7, 10**6, 10**6))
    assert few.places.tolist() == list(range(7))
    assert len(set(many.places.tolist())) == MOST_NUMBERS
    assert (many.places != again.places).any()
    outputs = [ArraySpec("y", "output", "float32", (size,)) for size in (7, 10**6)]
    assert [first_looks([one]) for one in outputs] == [FIRST_LOOKS, 1]


def test_arrays_that_would_not_fit_several_times_are_left_alone() -> None:
    assert asked_of(size=MOST_ELEMENTS - 16)
    assert not asked_of(size=MOST_ELEMENTS)


def test_questions_are_sent_as_they_are() -> None:
    (asked,) = asked_of(size=3)
    sent = Question.from_message(json.loads(json.dumps(asked.as_message())))
    assert sent.places.tolist() == [0, 1, 2]
    assert replace(sent, places=asked.places) == asked
