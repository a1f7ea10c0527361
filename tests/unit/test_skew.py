"""Rows dealt unevenly: as many as before, one group empty, one with a single row."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.skew import dealt, skewed, spelled

seeds = st.integers(0, 2**31)


@given(st.integers(1, 10_000), st.integers(2, 64), seeds)
def test_no_row_is_lost_and_a_group_is_empty(rows, groups, seed):
    sizes = dealt(rows, groups, seed)
    assert len(sizes) == groups
    assert sum(sizes) == rows
    assert min(sizes) == 0
    if groups > 2 and rows > 4:
        assert 1 in sizes
        assert max(sizes) > rows // groups


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9).filter(any), seeds)
def test_offsets_agree_with_sizes(sizes, seed):
    begins = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    found = skewed({"m_sizes": sizes, "group_offsets": begins}, seed)
    assert [b - a for a, b in pairwise(found["group_offsets"])] == found["m_sizes"]


def test_ends_without_the_leading_zero_are_ends():
    found = skewed({"offsets": [8, 16, 24, 32]}, seed=1)["offsets"]
    assert found[-1] == 32
    assert found == sorted(found)
    assert found != [8, 16, 24, 32]


def test_other_integers_stay_as_they_are():
    assert skewed({"tokens": [1, 2, 3], "labels": [4, 4]}, seed=1) == {}


def test_numbers_that_are_no_sizes_stay_as_they_are():
    assert skewed({"m_sizes": [-1, 4], "offsets": [3, 1, 2]}, seed=1) == {}


def test_spelled_for_people():
    assert spelled({"m_sizes": [0, 1, 5]}) == "m_sizes: 0, 1, 5"
    assert spelled({"m_sizes": list(range(10))}).endswith("7, ...")
