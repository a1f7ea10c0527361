"""Distributions, what they leave alone, and where an operator loses its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.tolerance import Errors, budget_for, measure
from roofsmith.judge.correctness.conditioning import (
    Movement,
    honest,
    is_lost,
    movement,
    root_mean_square,
    strain,
)
from roofsmith.judge.correctness.discontinuities import ordered, selected
from roofsmith.judge.correctness.distributions import (
    DISTRIBUTIONS,
    LEVEL,
    LONE,
    OWN,
    SMALLEST_NORMAL,
    STRETCHES,
    TIES,
    UNLIKE,
    VARIED,
    nudged,
    roundings_on,
    transform,
)
from roofsmith.judge.correctness.exploration import explore
from roofsmith.judge.correctness.shortened_inputs import round_to
from roofsmith.judge.correctness.structure import never_above, promise, sign
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.judge.host.arithmetic import HostArithmetic

SEEDS = st.integers(0, 2**31 - 1)
TYPES = st.sampled_from(["float16", "float32", "float64"])
NAMES = st.sampled_from(list(DISTRIBUTIONS))
ON = HostArithmetic()


def values(seed: int, dtype: str = "float32", shape: tuple[int, ...] = (9, 33)) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal(shape).astype(dtype),
        "kept": rng.standard_normal(shape).astype(dtype),
        "index": rng.integers(0, 9, shape),
        "n": 33,
    }


@given(NAMES, SEEDS, TYPES)
def test_transforms_keep_types_shapes_and_everything_that_is_bound(
    name: str, seed: int, dtype: str
) -> None:
    given_ = values(seed, dtype)
    with np.errstate(all="ignore"):
        made = transform(name, given_, {"x": 0}, seed, ON)
        again = transform(name, given_, {"x": 0}, seed, ON)
    assert list(made) == list(given_)
    assert (made["x"].dtype, made["x"].shape) == (np.dtype(dtype), (9, 33))
    assert made["x"].flags.c_contiguous
    assert np.array_equal(made["x"], again["x"], equal_nan=True)
    assert not np.array_equal(made["x"], given_["x"])
    assert all(made[key] is given_[key] for key in ("kept", "index", "n"))


@given(NAMES, SEEDS, st.sampled_from([1, -1]))
def test_transforms_keep_a_sign_that_numbers_always_have(name: str, seed: int, one: int) -> None:
    given_ = values(seed)
    given_["x"] = one * np.abs(given_["x"])
    made = transform(name, given_, {"x": one}, seed, ON)
    assert (one * made["x"] >= 0).all()


@given(st.sampled_from(LONE), SEEDS)
def test_a_lone_spike_is_one_element(name: str, seed: int) -> None:
    given_ = values(seed)
    made = transform(name, given_, {"x": 0}, seed, ON)
    assert (made["x"] != given_["x"]).sum() == 1
    assert abs(made["x"]).max() > 10


def test_the_largest_lone_spike_weighs_as_much_as_all_others_together() -> None:
    many = np.full(2**21, 0.25, np.float32)
    made = transform(LONE[0], {"x": many}, {"x": 1}, 0, ON)["x"].astype(np.float64)
    assert made.max() >= made.sum() - made.max()


@pytest.mark.parametrize("piece", [2**12, 2**14, 2**20])
def test_no_half_of_many_numbers_stands_for_all_where_stretches_differ(piece: int) -> None:
    """As of the mean that reads every other piece: right on own draws, by the law of large numbers.

    Eight times in ten; an honest kernel in float32 is within what a sum of so many may be off.
    """
    size, told = 2**21, 0
    for seed in range(10):
        given_ = {"x": np.random.default_rng(seed).random(size, np.float32)}
        made = transform(STRETCHES, given_, {"x": 1}, seed, ON)["x"]
        exact = made.mean(dtype=np.float64)
        read = made.reshape(-1, 2, piece)[:, 0].mean(dtype=np.float64)
        allowed = budget_for(
            Errors(0.0, 0.0), "float32", factor=8.0, terms=float(size), roundings="dominated"
        ).norm
        told += bool(abs(read - exact) > allowed * exact)
        lanes = made.reshape(-1, 16).cumsum(axis=0, dtype=np.float32)[-1].sum() / size
        assert abs(lanes - exact) < allowed * exact
    assert told >= 8


@pytest.mark.parametrize(("rows", "length"), [(32, 8192), (16, 2**15), (4, 2**16)])
def test_sums_that_a_term_dominates_are_right_one_by_one(rows: int, length: int) -> None:
    """As of a softmax in stretches: beside 1, terms below half an ulp of it round to nothing."""
    allowed = budget_for(
        Errors(0.0, 0.0), "float32", factor=10.0, terms=length, roundings="dominated"
    ).norm
    for seed in range(8):
        given_ = values(seed, shape=(rows, length))
        x = transform(STRETCHES, given_, {"x": 0}, seed, ON)["x"]
        terms = np.exp(x - x.max(axis=1, keepdims=True))
        truth = terms / terms.sum(axis=1, keepdims=True, dtype=np.float64)
        one_by_one = terms / terms.cumsum(axis=1, dtype=np.float32)[:, -1:]
        assert measure(one_by_one, truth).norm < allowed


@pytest.mark.parametrize("name", UNLIKE)
@pytest.mark.parametrize("length", [512, 2**13, 2**16])
def test_sums_of_terms_that_differ_are_right_one_by_one(name: str, length: int) -> None:
    """And what is off by 0.7% is not, however long they are."""
    roundings = roundings_on(name, one_by_one=True)
    allowed = budget_for(
        Errors(0.0, 0.0), "float32", factor=10.0, terms=length, roundings=roundings, is_own=False
    ).norm
    assert allowed < 0.002
    for make in (np.square, np.exp, lambda x: np.minimum(np.abs(x), 0.7)):
        x = transform(name, values(1, shape=(16, length)), {"x": 0}, 1, ON)["x"]
        terms = make(x)
        truth = terms.sum(axis=1, dtype=np.float64)
        assert measure(terms.cumsum(axis=1, dtype=np.float32)[:, -1], truth).norm < allowed


@pytest.mark.parametrize("shape", [(1,), (15,), (3, 5), (2, 3, 7), (4096,)])
def test_stretches_fit_any_shape(shape: tuple[int, ...]) -> None:
    given_ = values(0, shape=shape)
    ratio = transform(STRETCHES, given_, {"x": 0}, 0, ON)["x"] / given_["x"]
    assert (ratio > 0).all()
    assert np.isclose(ratio, 0.6**4, rtol=1e-5).sum() < ratio.size


@given(SEEDS, st.sampled_from([0.0, 1.0, -0.125]), st.integers(1, 20))
def test_constants_are_varied_alone(seed: int, constant: float, size: int) -> None:
    level = np.full(size, constant, np.float32)
    given_ = {**values(seed), "scale": level}
    free = {"x": 0, "scale": LEVEL}
    made = transform(VARIED, given_, free, seed, ON)
    assert made["x"] is given_["x"]
    assert (made["scale"] != level).all()
    assert (np.abs(made["scale"] - level) <= (0.5 * abs(constant) or 0.5)).all()
    assert transform("normal", given_, free, seed, ON)["scale"] is level


def test_own_draws_stay_as_they_are() -> None:
    given_ = values(0)
    assert transform(OWN, given_, {"x": 0}, 0, ON) == given_


@given(SEEDS, TYPES)
def test_nudged_inputs_are_within_half_a_unit(seed: int, dtype: str) -> None:
    given_ = values(seed, dtype)
    moved = nudged(given_, seed, ON)["x"]
    assert moved.dtype == np.float64
    assert not np.array_equal(moved, given_["x"])
    exact = given_["x"].astype(np.float64)
    room = np.maximum(np.spacing(np.abs(given_["x"])), SMALLEST_NORMAL[dtype])
    assert (np.abs(moved - exact) <= room).all()


def draws(make: Callable[[np.random.Generator], np.ndarray]) -> list[np.ndarray]:
    return [make(np.random.default_rng(seed)).astype(np.float64) for seed in (1, 2, 3)]


def square(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((12, 12))


PROMISES: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], str | None]] = {
    "normal": (square, None),
    "uniform": (lambda rng: rng.random((12, 12)), None),
    "one row": (lambda rng: rng.standard_normal(100), None),
    "single precision": (lambda rng: square(rng).astype(np.float32), None),
    "a table": (lambda _: np.linspace(0, 1, 30), "the same in every draw"),
    "triangular": (lambda rng: np.tril(square(rng)), "zeros"),
    "labels": (lambda rng: rng.integers(0, 9, 50), "whole"),
    "levels": (lambda rng: rng.integers(0, 9, 500) / 8, "different numbers"),
    "sorted": (lambda rng: np.sort(rng.standard_normal((3, 20))), "sorted"),
    "probabilities": (lambda rng: (lambda p: p / p.sum(1, keepdims=True))(rng.random((9, 30))),
                      "sum to the same"),
    "unit vectors": (
        lambda rng: (lambda v: v / np.sqrt((v * v).sum(1, keepdims=True)))(square(rng)),
        "same length"),
    "sorted columns": (lambda rng: np.sort(rng.standard_normal((20, 3)), axis=0), "sorted"),
    "pairs from and to": (lambda rng: np.sort(rng.standard_normal((80, 2))), "sorted"),
    "a few pairs": (lambda rng: np.sort(rng.standard_normal((8, 2))), None),
    "probabilities by channel": (
        lambda rng: (lambda p: p / p.sum(1, keepdims=True))(rng.random((4, 9, 30))),
        "sum to the same"),
    "rotations": (lambda rng: np.linalg.qr(rng.standard_normal((90, 3, 3)))[0], "same length"),
    "now along one axis, now along another": (
        lambda rng: np.sort(rng.standard_normal((20, 20)), axis=int(rng.integers(2))), None),
    "masked": (lambda rng: np.where(rng.random((9, 9)) < 0.5, -np.inf, 0.5), "infinities"),
    "bfloat16": (lambda rng: round_to(square(rng), 8, np), "narrower type"),
}  # fmt: skip


def test_numbers_far_from_zero_are_no_normalised_rows() -> None:
    assert promise(draws(lambda rng: 1000 + rng.standard_normal((64, 4096))), 24) is None


@pytest.mark.parametrize("name", PROMISES)
def test_what_all_draws_have_in_common(name: str) -> None:
    make, expected = PROMISES[name]
    found = promise(draws(make), 24)
    assert found is None if expected is None else expected in (found or "")


def test_symmetric_matrices() -> None:
    def made(rng: np.random.Generator) -> np.ndarray:
        half = square(rng)
        return half + half.T

    assert promise(draws(made), 24) == "it is symmetric"


def columns(rng: np.random.Generator) -> np.ndarray:
    """Boxes: two corners each, of which one is never above the other."""
    low = rng.standard_normal((20, 2))
    return np.concatenate([low, low + rng.random((20, 2))], axis=1)


def with_deviations(rng: np.random.Generator) -> np.ndarray:
    """Means, each beside its deviation."""
    return np.stack([rng.standard_normal(20), 1 + rng.random(20)], axis=1)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (columns, "some of a row's elements are never above others"),
        (lambda rng: columns(rng).T, "some of a row's elements are never above others"),
        (with_deviations, "some of a row's elements are never negative, or never positive"),
        (lambda rng: with_deviations(rng)[:, :, None], "some of a row's elements are never neg"),
        (lambda rng: columns(rng)[:, ::3] * rng.choice([-1, 1]), None),
        (lambda rng: columns(rng)[:3], None),
        (lambda rng: rng.random((20, 4)), None),
        (lambda rng: rng.standard_normal((20, 4)), None),
        (lambda rng: rng.standard_normal((8, 8)), None),
    ],
)
def test_elements_of_short_rows_that_are_told_apart(
    make: Callable[[np.random.Generator], np.ndarray], why: str | None
) -> None:
    found = promise(draws(make), 24)
    assert found is None if why is None else why in (found or "")


def test_inputs_that_are_never_above_others() -> None:
    low, high = draws(square), [one + 0.1 for one in draws(square)]
    assert never_above(low, high)
    assert not never_above(high, low)
    assert not never_above(low, draws(lambda rng: square(rng) + 1.0)[::-1])
    assert not never_above(low, draws(lambda rng: square(rng) + 100.0)), "another range"
    assert not never_above([one[0] for one in low], [one[0] for one in high]), "a few elements"
    assert not never_above([one[0] for one in low], high), "another shape"


def test_signs() -> None:
    assert sign(draws(lambda rng: rng.random(9))) == 1
    assert sign(draws(lambda rng: -rng.random(9))) == -1
    assert sign(draws(square)) == 0


class Operator:
    """A reference in one line."""

    def __init__(self, compute: Callable[[np.ndarray], np.ndarray], low: float = -3.0) -> None:
        self.compute, self.low = compute, low

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], set[str]]:
        rng = np.random.default_rng(seed)
        x = rng.uniform(self.low, 3, (16, dims["n"])).astype(np.float32)
        return {"x": x, "y": np.empty_like(self.compute(x))}, {"y"}

    def expect(
        self, values: dict[str, Any], outputs: set[str], *, exact: bool
    ) -> dict[str, np.ndarray]:
        kind = np.float64 if exact else np.float32
        return {name: self.compute(values["x"].astype(kind)) for name in outputs}

    def narrowed(self, values: dict[str, Any], outputs: set[str]) -> None:
        return None

    def shaken(self, values: dict[str, Any], outputs: set[str]) -> None:
        return None


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def tolerated(operator: Operator) -> set[str]:
    with np.errstate(all="ignore"):
        return set(explore(operator, {"n": 64}, ON)["tolerated"])


@pytest.mark.parametrize(
    ("compute", "is_left_out"),
    [
        (np.sign, True),
        (lambda x: (x > 0) * x.max(), True),
        (lambda x: abs(x).argmin(-1), True),
        (lambda x: np.maximum(x, 0), False),
        (lambda x: x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-6), False),
        (softmax, False),
    ],
)
def test_zeros_are_left_out_where_results_hinge_on_them(
    compute: Callable[[np.ndarray], np.ndarray], is_left_out: bool
) -> None:
    assert ("sparse" not in tolerated(Operator(compute))) is is_left_out


def test_what_makes_equal_what_is_sorted_is_left_out() -> None:
    """As probabilities beside a huge number: the reference's choice among zeros is its own."""

    def experts(x: np.ndarray) -> np.ndarray:
        return np.argsort(-x, -1, kind="stable")[:, :2]

    plain, gate = tolerated(Operator(experts)), tolerated(Operator(lambda x: experts(softmax(x))))
    assert {"a lone spike of 2^20 or more", "times 2^10", "normal"} <= plain
    assert not {"a lone spike of 2^20 or more", "a lone spike of 2^12", "times 2^10"} & gate
    assert "normal" in gate


@pytest.mark.parametrize(
    ("compute", "is_drawn"),
    [
        (lambda x: x.argmax(-1), True),
        (lambda x: x.argmin(0), True),
        (lambda x: x.shape[1] - x[:, ::-1].argmax(-1), True),
        (lambda x: np.argsort(-x, -1, kind="stable")[:, :4], True),
        (lambda x: softmax(x).argmax(-1), True),
        (lambda x: np.where(np.arange(x.shape[1]) == x.argmax(-1)[:, None], x, 0), True),
        (lambda x: np.argsort(x[:, np.random.default_rng(1).permutation(x.shape[1])], -1), False),
        (lambda x: (x @ x.T).argmax(-1), False),
        (lambda x: np.floor(4 * x), False),
        (lambda x: x.max(-1), False),
        (softmax, False),
    ],
)
def test_equal_numbers_are_drawn_where_the_reference_has_a_rule_for_them(
    compute: Callable[[np.ndarray], np.ndarray], is_drawn: bool
) -> None:
    found = tolerated(Operator(compute))
    assert (TIES in found) is is_drawn
    assert ("uniform" in found) is not is_drawn, "as many are drawn as ever"


@given(SEEDS, TYPES, st.sampled_from([0, 1, -1]), st.sampled_from([(9, 16), (1, 64), (3, 4096)]))
def test_few_numbers_come_often_and_in_inputs_alike_the_same(
    seed: int, dtype: str, one: int, shape: tuple[int, int]
) -> None:
    given_ = values(seed, dtype, shape)
    given_["kept"] = -given_["x"]
    made = transform(TIES, given_, {"x": one, "kept": one}, seed, ON)
    made["x"] = made["x"].astype(np.float64)  # NumPy 2.4 sorts float16 wrongly on AVX512_ICL
    assert 2 <= len(np.unique(abs(made["x"]))) <= max(2, min(16, shape[1] // 8))
    assert len(np.unique(abs(made["x"]))) == len(np.unique(made["x"])), "signs alone differ"
    assert np.isin(made["kept"], made["x"]).any()


class Scaled(Operator):
    """With a scale that is always one, a shift that is always zero, and a table."""

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], set[str]]:
        values, outputs = super().inputs(dims, seed)
        n = dims["n"]
        level = {"scale": np.ones(n, np.float32), "shift": np.zeros(1, np.float32)}
        return {**values, **level, "table": np.arange(n, dtype=np.float32)}, outputs

    def expect(
        self, values: dict[str, Any], outputs: set[str], *, exact: bool
    ) -> dict[str, np.ndarray]:
        made = super().expect(values, outputs, exact=exact)
        return {key: one * values["scale"] + values["shift"] for key, one in made.items()}


def test_constants_of_a_reference_are_found() -> None:
    with np.errstate(all="ignore"):
        found = explore(Scaled(softmax), {"n": 64}, ON)
    assert found["free"] == {"x": 0, "scale": LEVEL, "shift": LEVEL}
    assert VARIED in found["tolerated"]
    assert set(found["bound"]) == {"table"}
    with np.errstate(all="ignore"):
        assert VARIED not in explore(Operator(softmax), {"n": 64}, ON)["tolerated"]


def test_a_softmax_tolerates_everything() -> None:
    assert tolerated(Operator(softmax)) >= {"masked", "sparse", "constant rows", "times 2^10"}


def test_what_is_left_out_is_said_unless_something_stands_for_it() -> None:
    with np.errstate(all="ignore"):
        found = Tolerated.model_validate(explore(Operator(np.log, low=0.5), {"n": 64}, ON))
    used, left_out = (note.partition(": ")[2] for note in found.notes())
    assert "uniform" in used
    assert "sparse" in left_out
    assert "times 2^2" not in used + left_out  # a larger power of two stands for it
    assert next(Tolerated().notes()).startswith("inputs: only as the reference draws them")


def test_what_depends_on_a_few_inputs_is_told_from_what_depends_on_a_row() -> None:
    def fan_in(compute: Callable[[np.ndarray], np.ndarray]) -> float | None:
        with np.errstate(all="ignore"):
            found: dict[str, float] = explore(Operator(compute), {"n": 64}, ON)["fan_in"]
        return found.get("y")

    assert fan_in(np.exp) == 1
    assert fan_in(lambda x: x + np.roll(x, 1, axis=-1)) == 2
    for of_rows in (softmax, lambda x: x.sum(-1), lambda x: np.cumsum(x, -1), lambda x: x @ x.T):
        assert fan_in(of_rows) is None


@pytest.mark.parametrize(
    ("compute", "is_ordered"),
    [
        (lambda x: np.argsort(x, -1, kind="stable"), True),
        (lambda x: x.argmax(-1), True),
        (lambda x: softmax(x).argmax(-1), True),
        (lambda x: (x > np.median(x)).astype(np.float32), True),
        (lambda x: (x > 0.5).astype(np.int32), False),
        (lambda x: np.rint(x * (127 / abs(x).max())), False),
        (lambda x: np.argsort(x.sum(-1)), False),
        (lambda x: x.argmax(-1) * 0, False),
    ],
)
def test_what_only_compares_is_told_from_what_computes(
    compute: Callable[[np.ndarray], np.ndarray], is_ordered: bool
) -> None:
    values, outputs = Operator(compute).inputs({"n": 64}, 1)
    assert ordered(Operator(compute), values, outputs, ON) == (["y"] if is_ordered else [])


@pytest.mark.parametrize(
    ("compute", "is_selected"),
    [
        (lambda x: np.sort(x, -1), True),
        (lambda x: x.max(-1), True),
        (lambda x: np.maximum(x, 0), True),
        (lambda x: -x.T, True),
        (lambda x: x * 2, False),
        (lambda x: x * x[::-1], False),
        (lambda x: x + 0.5, False),
        (lambda x: np.argsort(x, -1), False),
        (lambda x: x * 0, False),
    ],
)
def test_what_only_selects_is_told_from_what_computes(
    compute: Callable[[np.ndarray], np.ndarray], is_selected: bool
) -> None:
    values, outputs = Operator(compute).inputs({"n": 64}, 1)
    assert selected(Operator(compute), values, outputs, ON) == (["y"] if is_selected else [])


class Constant(Operator):
    """Multiplies by a table that never changes."""

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], set[str]]:
        values, outputs = super().inputs(dims, seed)
        return {**values, "table": np.arange(dims["n"], dtype=np.int32)}, outputs


def test_what_nobody_would_notice_is_said() -> None:
    explored = explore(Constant(softmax), {"n": 64}, ON)
    (caution,) = Tolerated.model_validate(explored).cautions()
    assert "'table'" in caution
    explored = explore(Constant(np.zeros_like), {"n": 64}, ON)
    (caution,) = Tolerated.model_validate(explored).cautions()
    assert "every call computes the same" in caution
    assert not list(Tolerated.model_validate(explore(Operator(softmax), {"n": 64}, ON)).cautions())


def test_exponentials_overflow() -> None:
    found = tolerated(Operator(np.exp))
    assert "times 2^10" not in found
    assert "times 2^5" not in found
    assert "normal" in found


def test_logarithms_and_quotients_have_no_zeros() -> None:
    for compute in (np.log, np.reciprocal):
        found = tolerated(Operator(compute, low=0.5))
        assert "uniform" in found
        assert not {"sparse", "denormals among the others"} & found


def test_a_sine_of_large_numbers_means_little() -> None:
    found = tolerated(Operator(np.sin))
    assert "times 2^10" not in found
    assert "normal" in found


def test_small_numbers_that_vanish_mean_nothing() -> None:
    assert "times 2^-20" not in tolerated(Operator(lambda x: x**8))


def test_a_reference_may_refuse() -> None:
    def picky(x: np.ndarray) -> np.ndarray:
        if np.abs(x).max() > 50:
            raise ValueError("too large")
        return x + 1

    found = tolerated(Operator(picky))
    assert "times 2^5" not in found
    assert "times 2^2" in found


@given(SEEDS, NAMES)
def test_what_is_tolerated_gives_budgets_that_honest_sums_keep(seed: int, name: str) -> None:
    """Any order of a naive float32 sum, on inputs that the rule lets through."""
    operator = Operator(lambda x: x.sum(-1))
    drawn, outputs = operator.inputs({"n": 64}, seed)
    with np.errstate(all="ignore"):
        made = transform(name, drawn, {"x": 0}, seed, ON)
        own, found = (honest(operator, each, outputs, ON) for each in (drawn, made))
    if not found.is_sound or is_lost(found.errors["y"], own.errors["y"], "float32"):
        return
    budget = budget_for(found.errors["y"], "float32", factor=10, terms=64, roundings="alike")
    truth = made["x"].astype(np.float64).sum(-1)
    order = np.random.default_rng(seed).permutation(64)
    total = np.zeros(16, np.float32)
    for column in order:
        total += made["x"][:, column]
    error = np.sqrt(np.square(total - truth).sum()) / np.sqrt(np.square(truth).sum())
    assert error <= budget.norm


def drawn(operator: Operator, *seeds: int) -> list[tuple[dict[str, Any], set[str]]]:
    return [operator.inputs({"n": 64}, seed) for seed in seeds]


def moved(operator: Operator, draws: list[tuple[dict[str, Any], set[str]]]) -> list[Movement]:
    return [movement(operator, values, outputs, ON) for values, outputs in draws]


@given(SEEDS, st.floats(1e-6, 1.0))
def test_strain_grows_as_a_sum_cancels(seed: int, left: float) -> None:
    operator = Operator(lambda x: x.sum(keepdims=True))
    (values, outputs), *usual = drawn(operator, seed, seed + 1, seed + 2, seed + 3)
    x = values["x"].astype(np.float64)
    x[:, 1::2] = -x[:, ::2]  # nothing is left, but for what is added to one element
    x[0, 0] += left
    hard = values | {"x": x.astype(np.float32)}
    norm, element = strain(operator, hard, outputs, moved(operator, usual), ON)["y"].ratio
    assert norm == element
    assert norm >= max(1.0, 1e-2 / left)


@given(SEEDS)
def test_large_outputs_are_strained_by_no_draw(seed: int) -> None:
    operator = Operator(softmax)
    (values, outputs), *usual = drawn(operator, seed, seed + 1, seed + 2, seed + 3)
    norm, element = strain(operator, values, outputs, moved(operator, usual), ON)["y"].ratio
    assert norm < 1.2
    assert element < 3


def test_errors_that_grow_too_far_are_lost() -> None:
    own = Errors(1e-7, 2e-7)
    assert not is_lost(Errors(1e-6, 2e-6), own, "float32")
    assert is_lost(Errors(1e-4, 2e-6), own, "float32")
    assert is_lost(Errors(1e-6, 2e-3), own, "float32")


@pytest.mark.parametrize("shape", [(3_000_000,), (1000, 1000), (2, 1_500_000)])
@pytest.mark.slow
def test_long_rows_of_random_numbers_promise_nothing(shape: tuple[int, ...]) -> None:
    """Their sums come together by themselves: a million of them add up to a thousandth of one."""
    draws = [np.random.default_rng(seed).standard_normal(shape) for seed in range(3)]
    assert promise(draws, 24) is None


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_long_rows_that_sum_to_one_still_do(rows: int, dtype: type) -> None:
    draws = []
    for seed in range(3):
        weights = np.random.default_rng(seed).random((rows, 50_000)) + 0.5
        stored = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
        draws.append(stored.astype(np.float64))
    assert promise(draws, 11) == "its rows sum to the same"


@pytest.mark.parametrize("times", [1.0, 1e200, 1e-200])
def test_the_scale_of_an_output_neither_overflows_nor_vanishes(times: float) -> None:
    x = times * np.array([3.0, 4.0, np.inf, 0.0])
    assert root_mean_square(x, ON) == pytest.approx(2.5 * times)
    assert root_mean_square(0 * x[:2], ON) == root_mean_square(x[:0], ON) == 0.0
