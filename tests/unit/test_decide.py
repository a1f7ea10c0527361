from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.compare import leans_to_veto
from roofsmith.analysis.evidence import Evidence
from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.comparison import (
    ClassComparison,
    Comparison,
    Estimate,
    Judgement,
    PairSample,
    Verdict,
    WorkloadComparison,
)
from roofsmith.domain.outcome import (
    BuildFailed,
    Cheated,
    Crashed,
    Incorrect,
    Outcome,
    Passed,
    TimedOut,
    Unstable,
)
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import KeepPolicy
from roofsmith.engine.deciding import decide

POLICY = KeepPolicy(veto_slowdown=0.05)
SAMPLE = PairSample(
    workload="N=1", sweep=0, instance=1, first="incumbent",
    incumbent_time_s=(1.0,), candidate_time_s=(0.5,),
)  # fmt: skip
SPEEDUPS: dict[Verdict, float] = {"faster": 1.2, "slower": 0.8, "tie": 1.0, "inconclusive": 1.1}


def aimed_at(target_class: str = "global") -> Hypothesis:
    return Hypothesis(statement="s", rationale="r", tactic="t", target_class=target_class)


def reading(verdict: Verdict, speedup: float | None = None) -> Estimate:
    middle = SPEEDUPS[verdict] if speedup is None else speedup
    return Estimate(speedup=middle, ci=(middle * 0.99, middle * 1.01), pairs=20, verdict=verdict)


def judged(
    overall: Verdict = "faster",
    *,
    classes: dict[str, Verdict] | None = None,
    workloads: dict[str, Estimate] | None = None,
    verdict: Verdict | None = None,
    confirmed: bool = True,
    clocked: bool = True,
) -> Judgement:
    comparison = Comparison(
        overall=reading(overall),
        classes=tuple(
            ClassComparison(config_class=name, estimate=reading(found))
            for name, found in (classes or {"all": overall}).items()
        ),
        workloads=tuple(
            WorkloadComparison(
                dims={"N": 1}, workload=label, config_class="all", estimate=found,
                candidate_time_s=1.0, incumbent_time_s=1.0, floor_time_s=None,
            )
            for label, found in (workloads or {}).items()
        ),
    )  # fmt: skip
    return Judgement(
        verdict=verdict or overall,
        comparison=comparison,
        confirmation=(SAMPLE,) if confirmed else (),
        clock=(SAMPLE,) if confirmed and clocked else (),
        wall_s=1.0,
    )


@pytest.mark.rule("judges-clock")
def test_a_gain_that_only_the_workers_clocks_saw_is_rolled_back() -> None:
    decision = decided(judged(clocked=False), aimed_at())
    assert isinstance(decision, RolledBack)
    assert "the judge's own clock" in decision.rule


def decided(
    judgement: Judgement, hypothesis: Hypothesis, first: Comparison | None = None
) -> Kept | RolledBack:
    """The decision when the first measurement said the same as the second, or something else."""
    return decide(Evidence(judgement, first or judgement.comparison, hypothesis, POLICY))


def test_faster_confirmed_and_nobody_slower_is_kept() -> None:
    decision = decided(judged(classes={"a": "faster", "b": "tie"}), aimed_at())
    assert isinstance(decision, Kept)
    assert "1.200x [1.188, 1.212]" in decision.rule
    assert "1% noise band" in decision.rule
    policy = POLICY.model_copy(update={"noise_band": 0.005})
    found = judged(classes={"a": "faster", "b": "tie"})
    kept = decide(Evidence(found, found.comparison, aimed_at(), policy))
    assert isinstance(kept, Kept)
    assert " 0.5% noise band" in kept.rule


@pytest.mark.rule("kept-if-right")
@pytest.mark.parametrize(
    "outcome",
    [kind(reason="some_reason", detail="d")
     for kind in (BuildFailed, Incorrect, Crashed, TimedOut, Cheated, Unstable)],
)  # fmt: skip
def test_what_does_not_pass_is_rolled_back_whatever_its_times(outcome: Outcome) -> None:
    fast = judged().model_copy(update={"outcome": outcome})
    decision = decided(fast, aimed_at())
    assert isinstance(decision, RolledBack)
    assert not decision.regression
    assert decision.rule == f"{outcome.kind.replace('_', ' ')}: some_reason"


@pytest.mark.rule("class-spared")
@pytest.mark.parametrize(("speedup", "kept"), [(0.993, False), (0.997, True), (1.2, True)])
def test_a_class_that_seems_to_pay_has_to_be_shown_to_be_spared(speedup: float, kept: bool) -> None:
    judgement = judged(classes={"a": "faster", "b": "tie"})
    comparison = judgement.comparison
    b = ClassComparison(config_class="b", estimate=reading("inconclusive", speedup))
    unsure = comparison.model_copy(update={"classes": (comparison.classes[0], b)})
    decision = decided(judgement.model_copy(update={"comparison": unsure}), aimed_at())
    assert isinstance(decision, Kept) is kept
    if isinstance(decision, RolledBack):
        assert not decision.regression
        assert "it may be slower on b (0.993x" in decision.rule


def test_no_comparison_proves_nothing() -> None:
    empty = Judgement(outcome=Passed(), verdict="unverified", wall_s=1.0)
    decision = decided(empty, aimed_at())
    assert decision == RolledBack(rule="no undisturbed sample was had, so nothing is proven")


def test_unverified_times_prove_nothing() -> None:
    decision = decided(judged("faster", verdict="unverified"), aimed_at())
    assert isinstance(decision, RolledBack)
    assert "could not be verified" in decision.rule
    assert not decision.regression


@pytest.mark.rule("noise-band")
@pytest.mark.parametrize(
    ("verdict", "regression", "word"),
    [("tie", False, "a tie"), ("inconclusive", False, "after 20 pairs"), ("slower", True, "below")],
)
def test_anything_but_faster_is_rolled_back(verdict: Verdict, regression: bool, word: str) -> None:
    decision = decided(judged(verdict), aimed_at())
    assert isinstance(decision, RolledBack)
    assert decision.regression is regression
    assert word in decision.rule


@pytest.mark.rule("no-class-slower", "divergence-not-kept")
def test_a_slower_class_vetoes() -> None:
    decision = decided(judged(classes={"a": "faster", "b": "slower"}), aimed_at())
    assert isinstance(decision, RolledBack)
    assert decision.regression
    assert decision.rule.startswith("vetoed")
    assert "b (0.800x" in decision.rule


@pytest.mark.rule("workload-veto")
@pytest.mark.parametrize(
    ("found", "vetoed"),
    [
        (reading("slower", 0.94), True),
        (reading("slower", 0.95), True),
        (reading("slower", 0.965), False),
        (reading("tie", 0.995), False),
        (reading("faster", 2.0), False),
    ],
)
def test_a_workload_vetoes_when_it_is_slower_by_the_limit(found: Estimate, vetoed: bool) -> None:
    decision = decided(judged(workloads={"N=8": found}), aimed_at())
    assert isinstance(decision, RolledBack) is vetoed
    if isinstance(decision, RolledBack):
        assert decision.regression
        assert "N=8" in decision.rule


def around(speedup: float, half: float, verdict: Verdict = "inconclusive") -> Estimate:
    return Estimate(speedup=speedup, ci=(speedup - half, speedup + half), pairs=22, verdict=verdict)


NOISY = around(1.0, 0.2)


@pytest.mark.rule("workload-spared")
@pytest.mark.parametrize(
    ("before", "found", "vetoed"),
    [
        pytest.param(NOISY, around(0.5, 0.2), True, id="half as fast, and nobody is sure"),
        pytest.param(NOISY, around(0.96, 0.1), False, id="noise in one of two"),
        pytest.param(around(0.96, 0.1), around(0.96, 0.1), True, id="not shown to be spared"),
        pytest.param(around(0.96, 0.1), around(0.96, 0.02, "slower"), True, id="perhaps 5%"),
        pytest.param(around(0.96, 0.1), around(0.96, 0.005, "slower"), False, id="4% for certain"),
        pytest.param(around(0.96, 0.005, "slower"), around(0.96, 0.1), True, id="4% before"),
        pytest.param(around(0.98, 0.1), around(0.98, 0.1), False, id="less than half of it"),
    ],
)
def test_a_workload_that_seems_to_lose_has_to_be_shown_to_be_spared(
    before: Estimate, found: Estimate, vetoed: bool
) -> None:
    first = judged(workloads={"N=8": before}).comparison
    decision = decided(judged(workloads={"N=8": found}), aimed_at(), first)
    assert isinstance(decision, RolledBack) is vetoed
    if isinstance(decision, RolledBack):
        assert not decision.regression
        assert decision.rule.startswith("vetoed: it may be slower by 5% on N=8 (0.")


estimates = st.builds(
    around, st.floats(0.6, 1.5), st.floats(0.001, 0.3),
    st.sampled_from(["inconclusive", "slower", "tie", "faster"]),
)  # fmt: skip


@pytest.mark.rule("workload-spared")
@given(estimates, estimates, st.floats(0.5, 1.0))
def test_who_loses_more_is_doubted_at_least_as_much(
    before: Estimate, found: Estimate, factor: float
) -> None:
    def doubted(*pair: Estimate) -> bool:
        one, two = (judged(workloads={"N=8": e}).comparison for e in pair)
        return leans_to_veto(two.workloads[0], one.workloads[0], POLICY)

    low, high = found.ci
    worse = found.model_copy(
        update={"speedup": found.speedup * factor, "ci": (low * factor, high * factor)}
    )
    if doubted(before, found):
        assert doubted(before, worse)
        assert min(before.speedup, found.speedup) < 1 - POLICY.veto_slowdown / 2
    if low > 1 - POLICY.veto_slowdown:
        assert not doubted(before, found)


verdicts = st.sampled_from(["faster", "slower", "tie", "inconclusive"])


@pytest.mark.rule("any-slower-is-regression")
@given(verdicts, verdicts, verdicts, st.sampled_from(["global", "a", "b"]))
def test_a_round_is_a_regression_if_anything_is_slower(
    overall: Verdict, a: Verdict, b: Verdict, aim: str
) -> None:
    decision = decided(judged(overall, classes={"a": a, "b": b}), aimed_at(aim))
    someone = "slower" in (overall, a, b)
    assert getattr(decision, "regression", False) is someone
    assert not (someone and isinstance(decision, Kept))


@pytest.mark.rule("kept-if-class-gains")
def test_a_regression_elsewhere_says_where() -> None:
    decision = decided(judged("tie", classes={"a": "tie", "b": "slower"}), aimed_at("a"))
    assert isinstance(decision, RolledBack)
    assert decision.rule.startswith("a a tie: 1.000x")
    assert decision.rule.endswith("slower beyond the noise band on b (0.800x [0.792, 0.808])")


@pytest.mark.rule("measured-twice", "commit-after-second")
def test_a_gain_measured_once_is_not_kept() -> None:
    decision = decided(judged(confirmed=False), aimed_at())
    assert decision == RolledBack(rule="the gain was not measured a second time")


def test_a_class_that_is_not_there() -> None:
    decision = decided(judged(), aimed_at("wide"))
    assert decision == RolledBack(rule="there is no config class called 'wide'")


@pytest.mark.rule("kept-if-class-gains")
@pytest.mark.parametrize(
    ("classes", "kept"),
    [
        ({"a": "faster", "b": "tie"}, True),
        ({"a": "tie", "b": "faster"}, False),
        ({"a": "slower", "b": "faster"}, False),
        ({"a": "faster", "b": "slower"}, False),
        ({"a": "inconclusive", "b": "faster"}, False),
    ],
)
def test_a_hypothesis_is_held_to_the_class_it_names(
    classes: dict[str, Verdict], kept: bool
) -> None:
    decision = decided(judged("tie", classes=classes), aimed_at("a"))
    assert isinstance(decision, Kept) is kept
    if kept:
        assert decision.rule.startswith("a faster")


def test_verdicts_of_the_whole_do_not_stand_in_for_a_class() -> None:
    decision = decided(judged("faster", classes={"a": "tie"}), aimed_at("a"))
    assert isinstance(decision, RolledBack)


@pytest.mark.rule("measured-twice")
@pytest.mark.parametrize("before", ["tie", "slower", "inconclusive"])
def test_a_class_must_gain_in_both_measurements(before: Verdict) -> None:
    second = judged("tie", classes={"a": "faster", "b": "faster"})
    first = judged("tie", classes={"a": before, "b": "faster"}).comparison
    decision = decided(second, aimed_at("a"), first)
    assert isinstance(decision, RolledBack)
    assert decision.rule.startswith("a only the second measurement gained")
    assert isinstance(decided(second, aimed_at("b"), first), Kept)


def test_samples_that_say_nothing_are_no_first_measurement() -> None:
    decision = decide(Evidence(judged(), None, aimed_at(), POLICY))
    assert decision == RolledBack(rule="overall only the second measurement gained")


@pytest.mark.rule("one-class-alone")
def test_a_class_may_not_gain_what_the_whole_pays_for() -> None:
    second = judged("slower", classes={"a": "faster", "b": "inconclusive"})
    decision = decided(second, aimed_at("a"))
    assert isinstance(decision, RolledBack)
    assert decision.regression
    assert decision.rule.startswith("vetoed: slower overall")


@pytest.mark.rule("trend-never-falls")
def test_totals_of_kept_rounds_never_fall() -> None:
    """A tie overall, whose estimate lies below 1: the trend of accepted rounds would go down."""
    second = judged("tie", classes={"a": "faster", "b": "tie"})
    assert second.comparison is not None
    for speedup, kept in ((0.999, False), (1.0, True), (1.001, True)):
        comparison = second.comparison.model_copy(update={"overall": reading("tie", speedup)})
        again = second.model_copy(update={"comparison": comparison})
        decision = decided(again, aimed_at("a"))
        assert isinstance(decision, Kept) is kept, speedup
        assert kept or decision.rule.startswith("vetoed: the total would fall (0.999x")


# -- slower within the band, twice ----------------------------------------------------------------


def within_the_band(high: float) -> Estimate:
    """A tie whose interval ends at `high`."""
    return Estimate(speedup=high - 0.002, ci=(high - 0.004, high), pairs=40, verdict="tie")


def two_classes(gained: str, other: Estimate) -> Judgement:
    """A gain of one class, and something else of the other."""
    found = judged("faster", classes={gained: "faster", "other": "tie"})
    classes = tuple(
        c.model_copy(update={"estimate": other}) if c.config_class == "other" else c
        for c in found.comparison.classes
    )
    comparison = found.comparison.model_copy(update={"classes": classes})
    return found.model_copy(update={"comparison": comparison})


@pytest.mark.rule("slower-twice")
@pytest.mark.parametrize("aim", ["wide", "global"])
@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(0.998, 0.999, False), (1.001, 0.999, True), (0.998, 1.001, True), (1.000, 0.999, True)],
)
def test_a_little_slower_counts_if_it_is_seen_twice(
    aim: str, first: float, second: float, kept: bool
) -> None:
    before = two_classes("wide", within_the_band(first)).comparison
    decision = decided(two_classes("wide", within_the_band(second)), aimed_at(aim), before)
    assert isinstance(decision, Kept) is kept
    if isinstance(decision, RolledBack):
        assert decision.rule.startswith("vetoed: slower in both measurements on other (0.996x")
        assert not decision.regression


def test_the_class_that_should_gain_is_judged_by_its_gain_alone() -> None:
    before = two_classes("wide", within_the_band(0.999)).comparison
    decision = decided(two_classes("wide", within_the_band(0.999)), aimed_at("other"), before)
    assert isinstance(decision, RolledBack)
    assert "a tie" in decision.rule


@pytest.mark.parametrize(("pairs", "words"), [(1, "1 pair,"), (5, "5 pairs,")])
def test_an_interval_that_is_still_open_is_not_spelled_out(pairs: int, words: str) -> None:
    judgement = judged("inconclusive")
    overall = Estimate(speedup=4.637, ci=(0.001, 1000.0), pairs=pairs, verdict="inconclusive")
    comparison = judgement.comparison.model_copy(update={"overall": overall})
    rule = decided(judgement.model_copy(update={"comparison": comparison}), aimed_at()).rule
    assert rule == f"overall inconclusive: 4.637x after {words} too few for an interval"


def test_a_round_whose_classes_diverged_says_so_and_keeps_its_rule() -> None:
    decision = decided(judged(classes={"a": "faster", "b": "slower"}), aimed_at())
    assert isinstance(decision, RolledBack)
    assert decision.rule.startswith("vetoed: slower beyond the noise band on b")
    assert decision.diverged


@pytest.mark.rule("dispatch-judged")
@pytest.mark.parametrize(("b", "kept"), [("faster", True), ("tie", False)])
def test_a_dispatch_is_kept_only_if_every_winner_wins(b: Verdict, kept: bool) -> None:
    found = judged(classes={"a": "faster", "b": b})
    decision = decide(Evidence(found, found.comparison, aimed_at(), POLICY, winners=("a", "b")))
    assert isinstance(decision, Kept) is kept
    if not kept:
        assert decision.rule == "the dispatch doesn't gain twice on b"
