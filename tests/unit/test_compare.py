from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_graphs import CASES
from test_schedules import signature_of

from roofsmith.analysis.compare import (
    LARGEST_RATIO,
    compare,
    estimate,
    is_disturbed,
    is_hopeless,
    is_win,
    verdict,
)
from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.graph import Affine, Graph
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.domain.comparison import ClassComparison, Comparison, Estimate, PairSample, Verdict
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.proposers.schedules.c_file import c_kernel

POLICY = KeepPolicy()
SMALL, LARGE = Workload(dims={"N": 1}), Workload(dims={"N": 2})
ONE_CLASS = (ConfigClass(name="all", workloads=("N=1", "N=2"), reason="test"),)
TWO_CLASSES = (
    ConfigClass(name="small", workloads=("N=1",), reason="test"),
    ConfigClass(name="large", workloads=("N=2",), reason="test"),
)
EDGE = math.log1p(POLICY.noise_band)


def pair(sweep: int, speedup: float, workload: str = "N=1", void: str | None = None) -> PairSample:
    return PairSample(
        workload=workload,
        sweep=sweep,
        instance=0,
        first="incumbent",
        incumbent_time_s=(1e-3 * speedup,) * 3,
        candidate_time_s=(0.5e-3, 1e-3, 1.5e-3),
        void=void,
    )


def pairs(speedup: float, workload: str = "N=1", count: int = 40) -> list[PairSample]:
    return [pair(sweep, speedup, workload) for sweep in range(count)]


def compared(
    samples: Sequence[PairSample],
    workloads: Sequence[Workload] = (SMALL,),
    classes: Sequence[ConfigClass] = TWO_CLASSES[:1],
) -> Comparison:
    found = compare(samples, workloads, classes, {"N=1": 5e-4}, POLICY)
    assert found is not None
    return found


@pytest.mark.rule("noise-band")
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (EDGE * 1.0001, 1.0, "faster"),
        (EDGE, 1.0, "inconclusive"),
        (-EDGE, EDGE, "tie"),
        (0.0, 0.0, "tie"),
        (-EDGE * 1.0001, EDGE, "inconclusive"),
        (-EDGE, EDGE * 1.0001, "inconclusive"),
        (-1.0, -EDGE * 1.0001, "slower"),
        (-1.0, -EDGE, "inconclusive"),
        (-math.inf, math.inf, "inconclusive"),
        (-1.0, 1.0, "inconclusive"),
    ],
)
def test_where_an_interval_lies(low: float, high: float, expected: str) -> None:
    assert verdict(low, high, POLICY.noise_band) == expected


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.4))
def test_swapping_the_kernels_swaps_the_verdict(low: float, width: float, band: float) -> None:
    swap = {"faster": "slower", "slower": "faster"}
    forward, backward = verdict(low, low + width, band), verdict(-low - width, -low, band)
    assert backward == swap.get(forward, forward)


def test_one_call_cannot_do_the_work_of_the_others() -> None:
    everything_first = [
        sample.model_copy(update={"candidate_time_s": (3e-3, 1e-9, 1e-9)}) for sample in pairs(1.0)
    ]
    assert compared(everything_first).overall.verdict == "tie"


@pytest.mark.parametrize(
    ("speedup", "expected"), [(1.2, "faster"), (0.8, "slower"), (1.005, "tie"), (1.0, "tie")]
)
def test_steady_pairs(speedup: float, expected: str) -> None:
    found = compared(pairs(speedup))
    assert found.overall.verdict == expected
    assert found.overall.speedup == pytest.approx(speedup)
    assert found.overall.ci == pytest.approx((speedup, speedup))
    assert found.overall.pairs == 40
    assert found.workloads[0].incumbent_time_s == pytest.approx(1e-3 * speedup)
    assert found.workloads[0].candidate_time_s == pytest.approx(1e-3)
    assert found.workloads[0].floor_time_s == 5e-4


def test_void_pairs_do_not_count() -> None:
    disturbed = [pair(100 + n, 9.0, void="another process ran") for n in range(30)]
    assert compared([*pairs(1.2), *disturbed]) == compared(pairs(1.2))


def test_too_few_pairs_leave_the_interval_open() -> None:
    found = compared(pairs(1.5, count=8)).overall
    assert found.ci == (1 / LARGEST_RATIO, LARGEST_RATIO)
    assert found.verdict == "inconclusive"
    assert found.speedup == pytest.approx(1.5)
    assert compared(pairs(1.5, count=9)).overall.verdict == "faster"


@pytest.mark.rule("geometric-mean")
def test_the_whole_is_the_geometric_mean_over_workloads() -> None:
    samples = [*pairs(4.0, "N=1"), *pairs(1.0, "N=2")]
    found = compared(samples, (SMALL, LARGE), ONE_CLASS)
    assert found.overall.speedup == pytest.approx(2.0)
    assert found.classes[0].estimate == found.overall
    assert [w.estimate.speedup for w in found.workloads] == pytest.approx([4.0, 1.0])


@pytest.mark.rule("decided-by-class")
def test_classes_are_estimated_on_their_own() -> None:
    samples = [*pairs(2.0, "N=1"), *pairs(0.5, "N=2")]
    found = compared(samples, (SMALL, LARGE), TWO_CLASSES)
    assert found.overall.verdict == "tie"
    assert {c.config_class: c.estimate.verdict for c in found.classes} == {
        "small": "faster",
        "large": "slower",
    }
    assert [w.config_class for w in found.workloads] == ["small", "large"]


def test_incomplete_sweeps_count_for_their_workload_only() -> None:
    samples = [*pairs(2.0, "N=1", count=30), *pairs(2.0, "N=2", count=20)]
    found = compared(samples, (SMALL, LARGE), ONE_CLASS)
    assert found.overall.pairs == 20
    assert [w.estimate.pairs for w in found.workloads] == [30, 20]


@pytest.mark.parametrize(
    "samples",
    [
        [],
        pairs(1.0, "N=1"),
        [*pairs(1.0, "N=1"), *(pair(n, 1.0, "N=2", void="busy") for n in range(9))],
        [pair(0, 1.0, "N=1"), pair(1, 1.0, "N=2")],
    ],
    ids=["nothing", "one workload only", "the other is void", "no sweep is complete"],
)
def test_nothing_is_said_without_a_complete_sweep(samples: list[PairSample]) -> None:
    assert compare(samples, (SMALL, LARGE), ONE_CLASS, {}, POLICY) is None


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=60))
def test_the_estimate_lies_in_its_interval(logs: list[float]) -> None:
    found = estimate(logs, POLICY)
    assert found.ci[0] <= found.speedup * (1 + 1e-12)
    assert found.speedup <= found.ci[1] * (1 + 1e-12)
    assert Comparison(overall=found, classes=(), workloads=())  # holds no infinity


@given(st.lists(st.floats(0.5, 2.0), min_size=11, max_size=40))
def test_swapping_the_kernels_inverts_the_ratios(speedups: list[float]) -> None:
    there = compared([pair(n, s) for n, s in enumerate(speedups)]).overall
    back = compared([pair(n, 1 / s) for n, s in enumerate(speedups)]).overall
    assert back.speedup == pytest.approx(1 / there.speedup)
    assert back.ci == pytest.approx((1 / there.ci[1], 1 / there.ci[0]))


@pytest.mark.parametrize(
    ("overall", "classes", "win"),
    [
        ("faster", ["tie", "slower"], True),
        ("tie", ["faster", "tie"], True),
        ("inconclusive", ["faster", "inconclusive"], True),
        ("tie", ["faster", "slower"], False),
        ("slower", ["faster", "inconclusive"], False),
        ("tie", ["tie", "inconclusive"], False),
        ("tie", [], False),
    ],
)
def test_a_win_is_of_the_whole_or_of_a_class_at_nobodys_expense(
    overall: Verdict, classes: list[Verdict], win: bool
) -> None:
    def found(verdict: Verdict) -> Estimate:
        return Estimate(speedup=1.0, ci=(0.9, 1.1), pairs=20, verdict=verdict)

    named = tuple(
        ClassComparison(config_class=str(number), estimate=found(verdict))
        for number, verdict in enumerate(classes)
    )
    assert is_win(Comparison(overall=found(overall), classes=named, workloads=())) is win


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_hopeless_is_what_stays_disturbed_if_nothing_more_is_void(
    disturbed: list[tuple[bool, bool]],
) -> None:
    most = 40
    samples = [
        pair(sweep, 1.0, workload, "disturbed" if is_void else None)
        for sweep, sides in enumerate(disturbed[:most])
        for workload, is_void in zip(("N=1", "N=2"), sides, strict=True)
    ]
    rest = [pair(n, 1.0, w) for n in range(len(samples) // 2, most) for w in ("N=1", "N=2")]
    assert is_hopeless(samples, most) == is_disturbed([*samples, *rest])


D = Size.of("D")


def of_view(count: Size, offset: Size, stride: Size = ONE, *, size: Size = D) -> Graph:
    b = Builder()
    x = b.input("x", "float32", size)
    return b.graph(y=b.view(x, shape_of(count), [Affine(offset, (stride,))]))


@pytest.mark.parametrize(
    ("graph", "needed"),
    [
        (of_view(Size.of(3), D - 3), ("D >= 3",)),
        (of_view(Size.of(3), ZERO), ("D >= 3",)),
        (of_view(ONE, ONE), ("D >= 2",)),
        (of_view(Size.of(3), ZERO, size=D * 2), ("D >= 2",)),
        (of_view(D - 3, Size.of(3)), ()),
        (of_view(D, D - 1, -ONE), ()),
        (of_view(D // 2, ONE, Size.of(2)), ()),
    ],
)
def test_the_least_size_follows_from_the_indices(graph: Graph, needed: tuple[str, ...]) -> None:
    assert needed_sizes(graph) == needed
    if needed:
        text = c_kernel(graph, signature_of(graph), language="c", threads=1).text
        assert needed[0] in text.partition("#include")[0]


@pytest.mark.parametrize("name", CASES)
def test_what_is_right_at_a_size_does_not_need_more(name: str) -> None:
    case = CASES[name]()
    for condition in needed_sizes(case.graph):
        dim, _, least = condition.partition(" >= ")
        assert all(dims[dim] >= int(least) for dims in case.dims)
