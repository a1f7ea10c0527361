"""Which rule tells the classes that gain from those that lose, and what a dispatch says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dispatching import holds, runs_new
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.compare import counts_twice, diverges
from roofsmith.analysis.dispatch import (
    Divergence,
    dispatch_of,
    divergence,
    gained_twice,
    promised_speedup,
    rule_for,
)
from roofsmith.domain.comparison import (
    ClassComparison,
    Comparison,
    Estimate,
    Verdict,
    WorkloadComparison,
)
from roofsmith.domain.dispatch import Dispatch, Listed, Threshold
from roofsmith.domain.workload import ConfigClass, Workload

SPEEDUPS: dict[Verdict, float] = {
    "faster": 1.5, "slower": 0.7, "tie": 1.0, "inconclusive": 1.02, "unverified": 1.0,
}  # fmt: skip


def estimate(verdict: Verdict) -> Estimate:
    at = SPEEDUPS[verdict]
    return Estimate(speedup=at, ci=(at - 0.01, at + 0.01), pairs=20, verdict=verdict)


def compared(overall: Verdict = "tie", **classes: Verdict) -> Comparison:
    """A comparison with one workload per class."""
    return Comparison(
        overall=estimate(overall),
        classes=tuple(
            ClassComparison(config_class=name, estimate=estimate(v)) for name, v in classes.items()
        ),
        workloads=tuple(
            WorkloadComparison(
                dims={"N": n}, workload=f"N={n}", config_class=name, estimate=estimate(v),
                candidate_time_s=1.0, incumbent_time_s=1.0, floor_time_s=None,
            )
            for n, (name, v) in enumerate(classes.items(), start=1)
        ),
    )  # fmt: skip


# -- who diverges ---------------------------------------------------------------------------


def test_classes_diverge_when_some_gain_and_others_lose() -> None:
    assert diverges(compared(small="slower", large="faster"))
    assert not diverges(compared(small="tie", large="faster"))
    assert not diverges(compared(small="slower", large="inconclusive"))


def test_a_divergence_is_measured_again_although_it_is_no_win() -> None:
    assert counts_twice(compared("slower", small="slower", large="faster"))
    assert counts_twice(compared("faster", small="tie", large="faster"))
    assert not counts_twice(compared("slower", small="slower", large="tie"))


def test_only_what_both_measurements_saw_counts() -> None:
    first = compared(a="faster", b="slower", c="faster", d="slower")
    second = compared(a="faster", b="slower", c="inconclusive", d="tie")
    assert divergence(first, second) == Divergence(winners=("a",), losers=("b",))


@pytest.mark.rule("divergence-not-kept")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (compared(a="faster", b="slower"), compared(a="faster", b="inconclusive")),
        (compared(a="inconclusive", b="slower"), compared(a="faster", b="slower")),
        (compared(a="faster", b="slower"), compared(a="slower", b="faster")),
        (compared(a="faster", b="slower"), None),
    ],
)
def test_what_one_measurement_alone_saw_is_no_divergence(
    first: Comparison, second: Comparison | None
) -> None:
    assert divergence(first, second) is None


# -- the rule -------------------------------------------------------------------------------


def points(*sizes: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip(("N", "D"), size, strict=False)) for size in sizes]


def test_a_threshold_on_one_dimension_lies_at_the_winners_edge() -> None:
    rule = rule_for(points((64, 4096), (64, 2048)), points((64, 64), (64, 512)), ("N", "D"))
    assert rule == Threshold(dims=("D",), side="at_least", bound=2048)


def test_small_ones_may_be_the_winners() -> None:
    rule = rule_for(points((32, 8), (16, 8)), points((512, 8)), ("N", "D"))
    assert rule == Threshold(dims=("N",), side="at_most", bound=32)


def test_of_several_thresholds_the_widest_margin_counts() -> None:
    rule = rule_for(points((1024, 4096)), points((512, 64)), ("N", "D"))
    assert rule == Threshold(dims=("D",), side="at_least", bound=4096)


def test_the_product_of_two_where_neither_alone_tells() -> None:
    gaining = points((1, 4096), (4096, 1), (64, 64))
    rule = rule_for(gaining, points((1, 512), (512, 1), (16, 16)), ("N", "D"))
    assert rule == Threshold(dims=("N", "D"), side="at_least", bound=4096)


def test_a_list_where_no_threshold_tells() -> None:
    gaining = points((128, 8), (512, 8))
    rule = rule_for(gaining, points((64, 8), (256, 8), (1024, 8)), ("N", "D"))
    assert rule == Listed(points=tuple(gaining))


@pytest.mark.rule("dispatch-dimensions")
def test_no_rule_over_dimensions_that_look_the_same() -> None:
    assert rule_for(points((64, 8)), points((64, 512)), ("N",)) is None
    assert rule_for(points((64, 8)), points((64, 512)), ()) is None


sizes = st.sampled_from([1, 2, 3, 8, 64, 100, 512, 4096])
point = st.fixed_dictionaries({"N": sizes, "D": sizes, "H": sizes})


@given(
    st.lists(point, min_size=2, max_size=12, unique_by=lambda p: tuple(sorted(p.items()))),
    st.data(),
)
def test_whatever_rule_is_found_tells_the_sides_apart(
    all_points: list[dict[str, int]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(all_points) - 1))
    gaining, others = all_points[:cut], all_points[cut:]
    rule = rule_for(gaining, others, ("N", "D", "H"))
    assert rule is not None  # the points differ, so at worst they are listed
    assert all(holds(rule, point) for point in gaining)
    assert not any(holds(rule, point) for point in others)


# -- the dispatch ---------------------------------------------------------------------------

WORKLOADS = tuple(Workload(dims={"N": 64, "D": size}) for size in (64, 256, 1024, 4096))
CLASSES = tuple(
    ConfigClass(name=name, workloads=(workload.label,), reason="declared")
    for name, workload in zip(("tiny", "small", "middling", "large"), WORKLOADS, strict=True)
)


def dispatch(winners: tuple[str, ...] = ("large",)) -> Dispatch:
    losers = ("tiny",)
    found = dispatch_of(5, Divergence(winners, losers), WORKLOADS, CLASSES, ("N", "D"))
    assert found is not None
    return found


def test_who_neither_gains_nor_loses_stays_with_the_old_kernel() -> None:
    found = dispatch()
    assert found.new == ("large",)
    assert found.old == ("tiny", "small", "middling")
    assert [runs_new(found, w.dims) for w in WORKLOADS] == [False, False, False, True]


def test_what_lies_between_the_sides_runs_the_old_kernel() -> None:
    assert not runs_new(dispatch(), {"N": 64, "D": 4095})


@pytest.mark.rule("dispatch-unjudged")
def test_what_lies_outside_of_the_judged_sizes_runs_the_old_kernel() -> None:
    found = dispatch()
    assert not runs_new(found, {"N": 64, "D": 4097})
    assert not runs_new(found, {"N": 65, "D": 4096})


def test_a_dispatch_says_who_runs_what() -> None:
    assert "round 5's where D >= 4096, else the one before it" in dispatch().sentence


def test_no_dispatch_over_dimensions_that_a_kernel_does_not_see() -> None:
    assert dispatch_of(5, Divergence(("large",), ("tiny",)), WORKLOADS, CLASSES, ("N",)) is None


def test_the_promise_is_what_the_winners_gained() -> None:
    seen = compared(a="faster", b="slower", c="tie", d="tie")
    promised = promised_speedup(Divergence(("a",), ("b",)), seen)
    assert promised == pytest.approx(1.5 ** (1 / 4))


def test_every_winner_has_to_win_twice() -> None:
    both = compared("faster", a="faster", b="faster", c="tie")
    one = compared("faster", a="faster", b="tie", c="tie")
    assert gained_twice(both, both) == ("a", "b")
    assert gained_twice(one, both) == gained_twice(both, one) == ("a",)
    assert gained_twice(both, None) == ()


def test_thresholds_read_as_conditions() -> None:
    texts = [
        Threshold(dims=("N", "D"), side="at_least", bound=8).text,
        Threshold(dims=("D",), side="at_most", bound=8).text,
        Listed(points=({"N": 1, "D": 2}, {"N": 3, "D": 4})).text,
    ]
    assert texts == ["N*D >= 8", "D <= 8", "N=1,D=2 or N=3,D=4"]
    assert all(one != other for one, other in pairwise(texts))
