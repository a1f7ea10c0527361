"""A wrong output is told by its numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.moved import moved
from roofsmith.analysis.tolerance import budget_for, measure
from roofsmith.domain.profile import Counter, Profile
from roofsmith.judge.correctness.diagnosis import PREVIOUS, Evidence, diagnose
from roofsmith.judge.correctness.poison import NAN_GUARDS, poison
from roofsmith.judge.correctness.shortened_inputs import round_to

SHAPE = (24, 40)
SEEDS = st.integers(0, 2**32 - 1)
FLOATS = st.sampled_from(["float32", "float64"])


def draw(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def evidence(
    out: np.ndarray,
    truth: np.ndarray,
    earlier: Sequence[tuple[str, np.ndarray]] = (),
    shortened: np.ndarray | None = None,
) -> Evidence:
    dtype = str(out.dtype)
    floating = np.issubdtype(out.dtype, np.floating)
    with np.errstate(invalid="ignore"):
        values = out.astype(np.float64) if floating else out
    exact = measure(truth.astype(dtype), truth)
    budget = budget_for(exact, dtype, factor=10, terms=100)
    return Evidence(
        out, values, truth, dtype, measure(out, truth), budget.norm, budget.element,
        lambda: earlier, (lambda bits, cut: shortened) if shortened is not None else None,
    )  # fmt: skip


def reason(*given: object, **more: object) -> str:
    return diagnose(evidence(*given, **more)).reason  # type: ignore[arg-type]


@given(SEEDS, FLOATS, st.integers(0, SHAPE[0] - 1))
def test_rows_that_nobody_wrote(seed: int, dtype: str, row: int) -> None:
    truth = draw(seed)
    out = truth.astype(dtype)
    poison(out[row], dtype)
    found = diagnose(evidence(out, truth))
    assert found.reason == "skipped_work"
    assert f"40 of 960 elements (4%) were not written, in row {row}" in found.detail


@given(SEEDS, FLOATS)
def test_what_was_computed_from_poison_is_another_nan(seed: int, dtype: str) -> None:
    truth = draw(seed)
    out = np.empty(SHAPE, dtype)
    poison(out, dtype)
    with np.errstate(invalid="ignore"):
        out += truth.astype(dtype)
    assert reason(out, truth) == "nan_output"


@given(SEEDS, FLOATS, st.sampled_from(NAN_GUARDS))
def test_what_was_computed_from_a_guard_band_shows_it(seed: int, dtype: str, word: int) -> None:
    truth = draw(seed)
    out = truth.astype(dtype)
    size = out.dtype.itemsize
    guard = np.frombuffer(word.to_bytes(2, "little") * (size // 2), dtype)
    with np.errstate(invalid="ignore"):
        out[0, :3] = guard[0] * out[0, :3]
    found = diagnose(evidence(out, truth))
    assert found.reason == "out_of_bounds"
    assert "read beyond its arrays" in found.detail


@given(SEEDS, SEEDS, FLOATS)
def test_right_answers_to_other_calls(seed: int, other: int, dtype: str) -> None:
    if seed == other:
        return
    truth, before = draw(seed), draw(other)
    out = before.astype(dtype)
    assert reason(out, truth, [(PREVIOUS, before)]) == "stale_output"
    assert reason(out, truth, [(PREVIOUS, truth), ("the first call", before)]) == "memoised_result"
    assert reason(out, truth, [("the first call", before[:3])]) == "wrong_output"
    assert reason(out, truth) == "wrong_output"


@pytest.mark.parametrize(("others", "named"), [(1, "wrong_output"), (8, "memoised_result")])
def test_a_count_that_another_call_had_as_well_proves_nothing(others: int, named: str) -> None:
    truth = np.arange(78_500, 78_600, dtype=np.int32)
    before = truth.copy()
    before[:others] += 1
    assert reason(before.copy(), truth, [("the first call", before)]) == named


def test_an_answer_that_is_near_to_many_is_not_another_calls() -> None:
    """The norms of long rows differ by as little as the order of a sum may make of them."""
    out, truth, before = (np.array([v]) for v in (2048.6, 2048.0, 2048.2))
    loose = replace(
        evidence(out.astype(np.float32), truth, [("the first call", before)]),
        norm_budget=2.5e-4, element_budget=2.5e-4,
    )  # fmt: skip
    assert diagnose(loose).reason == "wrong_output"
    off = measure(before.astype(np.float32), truth)
    memoised = replace(loose, out=before.astype(np.float32), values=before, errors=off)
    assert diagnose(memoised).reason == "memoised_result"


def test_a_mean_that_lacks_what_is_huge_is_not_another_calls_by_the_law_of_large_numbers() -> None:
    truth, before = np.array([0.9]), np.array([0.50002])
    earlier = [("the first call", before)]
    assert reason(np.array([0.49997], np.float32), truth, earlier) == "wrong_output"
    assert reason(before.astype(np.float32), truth, earlier) == "memoised_result"


def test_a_single_number_is_not_of_shorter_inputs_for_being_a_little_nearer_to_theirs() -> None:
    truth, short = np.array([1.1]), np.array([1.02])
    assert reason(np.array([1.0], np.float32), truth, shortened=short) == "wrong_output"
    assert reason(short.astype(np.float32), truth, shortened=short) == "precision"


@given(SEEDS, st.sampled_from([("float32", 11), ("float32", 8), ("float64", 24), ("float64", 11)]))
def test_results_rounded_to_fewer_bits(seed: int, kind: tuple[str, int]) -> None:
    dtype, bits = kind
    truth = draw(seed)
    assert reason(round_to(truth, bits, np).astype(dtype), truth) == "precision"


@given(SEEDS, st.booleans())
def test_products_of_shortened_factors(seed: int, truncate: bool) -> None:
    a, b = draw(seed, (24, 64)), draw(seed + 1, (64, 40))
    truth = a @ b
    narrow = round_to(a, 11, np, truncate=truncate) @ round_to(b, 11, np, truncate=truncate)
    assert reason(narrow.astype(np.float32), truth, shortened=narrow) == "precision"


@pytest.mark.parametrize(("terms", "named"), [(512, "precision"), (256, "wrong_output")])
def test_narrow_factors_with_a_scale_are_no_missing_terms(terms: int, named: str) -> None:
    """What rounding leaves out of a factor is uncorrelated with the rest, as a missing term is."""

    def narrow(factor: np.ndarray, axis: int) -> np.ndarray:
        scale = np.abs(factor).max(axis, keepdims=True) / 448
        return np.asarray(round_to(factor / scale, 4, np) * scale)

    a, b = draw(1, (256, 512)), draw(2, (512, 256))
    out = (narrow(a[:, :terms], 1) @ narrow(b[:terms], 0)).astype(np.float16)
    assert reason(out, a @ b) == named


@given(SEEDS, st.integers(3, 11), st.booleans())
def test_a_part_that_is_less_precise(seed: int, columns: int, of_inputs: bool) -> None:
    a, b = draw(seed, (24, 64)), draw(seed + 1, (64, 40))
    truth = a @ b
    short = round_to(a, 11, np) @ round_to(b, 11, np) if of_inputs else round_to(truth, 8, np)
    out = truth.astype(np.float32)
    out[:, :columns] = short[:, :columns]
    found = diagnose(evidence(out, truth, shortened=short if of_inputs else None))
    assert found.reason == "precision"
    assert "worst elements" in found.detail


@given(SEEDS, st.integers(1, 11))
def test_a_part_that_is_wrong_otherwise_is_no_rounding(seed: int, rows: int) -> None:
    truth = draw(seed)
    out = truth.astype(np.float32)
    out[:rows] *= 1.01
    assert reason(out, truth) == "wrong_output"


@given(SEEDS, st.integers(0, 959))
def test_a_huge_element_cut_off_at_a_round_number_is_no_rounding(seed: int, at: int) -> None:
    x = draw(seed)
    x.flat[at] = 16.06
    out = np.square(np.minimum(x, 16.0)).astype(np.float32)
    short = np.square(round_to(x, 8, np, truncate=True))
    assert reason(out, np.square(x), shortened=short) == "wrong_output"
    assert reason(short.astype(np.float32), np.square(x), shortened=short) == "precision"


@given(SEEDS, st.floats(1.001, 3.0))
def test_a_wrong_factor_is_no_rounding(seed: int, factor: float) -> None:
    truth = draw(seed)
    assert reason((truth * factor).astype(np.float32), truth) == "wrong_output"


@given(SEEDS, st.sampled_from([2.0**-10, 2.0**-7]))
def test_doubles_are_not_called_tf32_for_the_size_of_their_error(seed: int, eps: float) -> None:
    truth = draw(seed)
    off = truth * (1 + eps * draw(seed + 1))
    assert reason(off, truth) == "wrong_output"
    assert reason(off.astype(np.float32), truth) == "precision"
    assert reason(truth.astype(np.float32).astype(np.float64), truth) == "precision"


@given(SEEDS, st.integers(0, 959), st.floats(0.01, 100.0))
def test_a_single_wrong_element_is_no_rounding(seed: int, at: int, by: float) -> None:
    truth = draw(seed)
    out = truth.astype(np.float32)
    out.reshape(-1)[at] += np.float32(by)
    found = diagnose(evidence(out, truth))
    assert found.reason == "wrong_output"
    assert f"in row {at // 40}" in found.detail


@given(st.lists(st.integers(-99, 99), min_size=1, max_size=40), st.data())
def test_integers_are_wrong_or_not_written(values: list[int], data: st.DataObject) -> None:
    truth = np.array(values, np.int32)
    at = data.draw(st.integers(0, len(values) - 1))
    out = truth.copy()
    out[at] += 1
    found = diagnose(evidence(out, truth))
    assert found.reason == "wrong_output"
    assert f"1 of {len(values)} integers differ" in found.detail
    poison(out[at : at + 1], "int32")
    assert reason(out, truth) == "skipped_work"


def test_integers_that_happen_to_be_poison_are_right() -> None:
    truth = np.zeros(4, np.int32)
    poison(truth, "int32")
    out = truth.copy()
    out[3] = 7
    assert reason(out, truth) == "wrong_output"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinities_of_its_own(value: float) -> None:
    truth = draw(0)
    out = truth.astype(np.float32)
    out[2, 3] = value
    found = diagnose(evidence(out, truth))
    assert found.reason == "nan_output"
    assert "in row 2" in found.detail


def test_infinities_that_should_be_there() -> None:
    truth = draw(0)
    truth[0, 0] = -np.inf
    out = draw(0).astype(np.float32)
    assert reason(out, truth) == "wrong_output"


def seen(workload: str = "n=1", **values: float) -> Profile:
    counters = tuple(
        Counter(name=name, value=value, unit="fraction" if "fraction" in name else "1")
        for name, value in values.items()
    )
    return Profile(tool="perf", workload=workload, counters=counters)


def test_what_differs_most_comes_first_and_shares_have_both_ends() -> None:
    before = seen(instructions=1e6, l1_misses=2e4, vector_fraction=0.8, cycles=1e6)
    after = seen(instructions=1.3e6, l1_misses=4.2e4, vector_fraction=0.2, cycles=1.02e6)
    assert moved(before, after) == (
        "vector_fraction 80% to 20%", "l1_misses 2.10x", "instructions 1.30x"
    )  # fmt: skip


def test_what_is_rare_before_and_after_explains_nothing() -> None:
    before = seen(instructions=1e9, branch_misses=10.0, idle_fraction=0.001)
    assert moved(before, seen(instructions=1e9, branch_misses=90.0, idle_fraction=0.03)) == ()


def test_what_was_not_there_before_is_told() -> None:
    assert moved(seen(spills=0.0), seen(spills=5000.0)) == ("spills 0 to 5000",)


def test_profiles_of_different_workloads_are_not_compared() -> None:
    assert moved(seen(cycles=1.0), seen("n=2", cycles=9.0)) == ()
    assert moved(None, seen(cycles=1.0)) == ()
