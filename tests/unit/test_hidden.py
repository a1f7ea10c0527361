"""Workloads near the given ones keep what those have in common."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.hidden_workloads import (
    SMALL_ELEMENTS,
    UNIT,
    _choices,
    hidden,
    is_alike,
    reductions,
    rows_of,
)

SIZES = st.one_of(st.integers(1, 5000), st.sampled_from([2**i for i in range(14)]))
GIVEN = st.lists(
    st.fixed_dictionaries({"m": SIZES, "n": SIZES}), min_size=1, max_size=3,
    unique_by=lambda dims: (dims["m"], dims["n"]),
)  # fmt: skip


def near(given_: list[dict[str, int]], seed: int = 0, count: int = 5) -> list[dict[str, int]]:
    workloads = [Workload(dims=dims) for dims in given_]
    return [
        w.dims for w in hidden(workloads, random.Random(seed), count=count, rows=set(given_[0]))
    ]


@given(GIVEN, st.integers(0, 999))
def test_what_given_workloads_share_is_kept(given_: list[dict[str, int]], seed: int) -> None:
    smallest = min(given_, key=lambda dims: dims["m"] * dims["n"])
    for dims in near(given_, seed):
        assert dims not in given_
        assert is_alike(dims, given_)
        for name, size in dims.items():
            assert 1 <= size <= smallest[name]
            shared = math.gcd(UNIT, *(g[name] for g in given_))
            powers = all(g[name] & (g[name] - 1) == 0 for g in given_)
            assert size % shared == 0 or powers
            assert not powers or size & (size - 1) == 0


def test_odd_lengths_are_met_by_odd_lengths() -> None:
    found = near([{"n": 1000}, {"n": 1003}], count=40)
    assert len(found) > 20
    assert any(dims["n"] % 2 for dims in found)


def test_multiples_stay_multiples() -> None:
    assert {dims["n"] % 64 for dims in near([{"n": 960}, {"n": 1984}])} == {0}


def test_powers_of_two_stay_powers_of_two() -> None:
    assert {dims["n"] for dims in near([{"n": 4096}])} <= {2048, 1024, 512, 256}


def test_small_dimensions_and_equal_ones_stay_so() -> None:
    for dims in near([{"n": 1024, "d": 1024, "h": 16}]):
        assert dims["n"] == dims["d"]
        assert dims["h"] == 16
    assert near([{"d": 64}]) == []


def test_a_size_that_is_always_the_same_may_be_relied_on() -> None:
    assert {dims["d"] for dims in near([{"n": 1000, "d": 96}, {"n": 1500, "d": 96}])} == {96}


def test_only_rows_vary_where_a_single_workload_is_given() -> None:
    arrays = [
        ArraySpec("x", "input", "float32", (300, 700)),
        ArraySpec("scale", "input", "float32", (700,)),
    ]
    dims = {"n": 300, "d": 700}
    assert rows_of(dims, arrays) == {"n"}
    found = hidden([Workload(dims=dims)], random.Random(0), count=9, rows={"n"})
    assert found
    assert {workload.dims["d"] for workload in found} == {700}
    assert rows_of({"n": 64}, [ArraySpec("x", "input", "float32", (64,))]) == {"n"}


def test_reductions_end_at_a_given_workload() -> None:
    small, given_ = reductions(
        [Workload(dims={"n": 4096, "d": 1000}), Workload(dims={"n": 8192, "d": 2000})]
    )
    assert given_ == {"n": 4096, "d": 1000}
    assert small["n"] * small["d"] <= SMALL_ELEMENTS
    assert list(reductions([Workload(dims={"n": 12})])) == [{"n": 12}]


def test_a_workload_is_explored_that_has_something_to_see() -> None:
    sizes = [Workload(dims={"n": n}) for n in (1, 100003, 300, 5)]
    assert list(reductions(sizes)) == [{"n": 300}]
    assert list(reductions(sizes[::3])) == [{"n": 5}]


def test_odd_sizes_are_reduced_as_well_and_stay_odd() -> None:
    """Exploring a reference at five million elements takes seconds, and tells no more."""
    small, given_ = reductions([Workload(dims={"n": 16777216}), Workload(dims={"n": 5000011})])
    assert given_ == {"n": 5000011}
    assert small["n"] % 2 == 1
    assert 32 <= small["n"] <= SMALL_ELEMENTS


def test_divisors_are_given_up_last_and_not_for_good() -> None:
    least, divided, given_ = reductions([Workload(dims={"n": 1021, "d": 8 * 4099})])
    assert given_ == {"n": 1021, "d": 8 * 4099}
    assert divided == {"n": 1021, "d": 4099}
    assert least["n"] * least["d"] <= SMALL_ELEMENTS


def test_looking_for_sizes_near_large_ones_makes_no_list_of_them() -> None:
    """48 lists of five million numbers took ten seconds, and half a gigabyte."""
    choices = _choices("n", 5_000_011, [{"n": 16777216}, {"n": 5_000_011}], ())
    assert isinstance(choices, range)
    assert choices[0] == 5_000_011
