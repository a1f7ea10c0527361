"""Grouped operators: whose groups are uneven, and that a gain is there on one of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.analysis.representatives import representatives
from roofsmith.analysis.skew import dealt, skewed, spelled, uneven_workloads, unevenness
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.campaign import Kept, RolledBack, Round
from roofsmith.domain.comparison import Timing
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.testing.engine import ELEMENTS, FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels, FakeOracle


@pytest.mark.parametrize(
    ("arrays", "ratio"),
    [
        ({"m_sizes": [8, 8, 8, 8]}, 1.0),
        ({"m_sizes": [0, 1, 31, 0]}, 31 / 8),
        ({"group_offsets": [0, 8, 16, 24]}, 1.0),
        ({"group_offsets": [8, 16, 24, 120]}, 96 / 30),
        ({"m_sizes": [4, 4], "tokens_per_expert": [1, 7]}, 7 / 4),
        ({"m_sizes": [0, 0]}, None),
        ({"group_offsets": [9, 3]}, None),  # no offsets: they go back
        ({"indices": [0, 1, 31]}, None),
        ({}, None),
    ],
)
def test_how_uneven_groups_are(arrays: dict[str, list[int]], ratio: float | None) -> None:
    assert unevenness(arrays) == (None if ratio is None else pytest.approx(ratio))


@given(st.integers(8, 5000), st.integers(3, 40), st.integers(0, 2**20))
def test_offsets_are_as_uneven_as_their_sizes(rows: int, groups: int, seed: int) -> None:
    sizes = dealt(rows, groups, seed)
    by_sizes, by_ends = (
        unevenness({"m_sizes": sizes}),
        unevenness({"group_offsets": [0, *accumulate(sizes)]}),
    )
    assert by_sizes == pytest.approx(by_ends)
    assert by_sizes is not None
    assert 1.0 <= by_sizes <= groups


@pytest.mark.rule("representatives")
def test_the_most_uneven_one_stands_for_all() -> None:
    """However oblong others are: it is what a grouped operator meets outside of a benchmark."""
    shapes = ((1, 1), (2, 2), (4, 4), (9, 1), (5, 5), (6, 6), (7, 7))
    workloads = tuple(Workload(dims={"n": n, "d": d}) for n, d in shapes)
    timings = [
        Timing(workload=w.label, dims=w.dims, config_class="all", time_s=1.0 + n, ci=(1, 1),
               samples_s=(1.0,))
        for n, w in enumerate(workloads)
    ]  # fmt: skip
    whole = ConfigClass(name="all", workloads=tuple(w.label for w in workloads), reason="")
    target = fake_target(workloads=workloads)
    assert "n=5,d=5" not in representatives(target, [whole], timings)
    uneven = {w.label: 1.0 for w in workloads} | {"n=5,d=5": 3.5}
    assert "n=5,d=5" in representatives(target, [whole], timings, uneven)
    even = dict.fromkeys(uneven, 1.0)
    assert "n=9,d=1" in representatives(target, [whole], timings, even)


# -- in a campaign --------------------------------------------------------------------------------

TARGET = fake_target(
    workloads=tuple(Workload(dims={"n": ELEMENTS, "skew": skew}) for skew in (1, 2, 3))
)
EVEN, SKEWED = [TARGET.workloads[0].label], [w.label for w in TARGET.workloads[1:]]


class GroupedOracle(FakeOracle):
    """Rows of four groups: equal ones, uneven ones and very uneven ones."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        sizes = ArraySpec(name="m_sizes", role="input", dtype="int32", shape=(4,))
        described = super().describe(workload)
        moved = 8.0 * workload.dims["n"]  # as without them
        return replace(described, arrays=(*described.arrays, sizes), bytes=moved)

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        dealt = {1: [8, 8, 8, 8], 2: [0, 16, 8, 8], 3: [0, 32, 0, 0]}[workload.dims["skew"]]
        return super().inputs(workload, seed) | {"m_sizes": np.array(dealt, dtype=np.int32)}


def judged(on: dict[str, float]) -> Round:
    kernels = FakeKernels()
    idea = fake_idea(TARGET, "idea")
    kernels.add(idea.candidate, on=on)
    here = FakeWorld(TARGET, kernels, [idea])
    campaign = Engine(replace(here, oracle=GroupedOracle()).parts(), "fake").run()
    assert campaign.started.unevenness == dict(
        zip((w.label for w in TARGET.workloads), (1.0, 2.0, 4.0), strict=True)
    )
    assert uneven_workloads(campaign.started.unevenness) == set(SKEWED)
    assert not verify(here.records)
    return campaign.rounds[0]


@pytest.mark.rule("uneven-groups-gain")
def test_a_gain_on_even_groups_alone_is_not_kept() -> None:
    decision = judged(dict.fromkeys(EVEN, 0.5e-3)).decision
    assert isinstance(decision, RolledBack)
    assert decision.rule.startswith(
        "the gain is not there where groups are uneven: n=500000,skew=2"
    )
    assert not decision.regression


def test_a_gain_on_one_uneven_workload_is_enough() -> None:
    assert isinstance(judged(dict.fromkeys([*EVEN, SKEWED[0]], 0.5e-3)).decision, Kept)


def test_nothing_is_drawn_of_what_has_no_groups() -> None:
    here = FakeWorld(TARGET, FakeKernels(), [])
    assert Engine(here.parts(), "fake").run().started.unevenness == {}


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
