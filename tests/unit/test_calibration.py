"""Predictions are held against measurements, per round and per tactic."""

from __future__ import annotations

import math

import pytest
from campaign_builder import RoundKind, campaign_of, events_for
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.calibration import FACTOR, calibrations, landing, round_score, scores
from roofsmith.analysis.compare import LARGEST_RATIO
from roofsmith.domain.calibration import Calibration, Landing
from roofsmith.domain.campaign import Campaign, Masked, Round, replay
from roofsmith.domain.category import Category
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.proposal import Proposal
from roofsmith.testing.proposer import advance, brief_for

BAND = 0.01
RATIOS = st.floats(0.05, 20.0)


@pytest.mark.parametrize(
    ("predicted", "measured", "found"),
    [
        (1.5, 1.5, "hit"),
        (1.5, 1.33, "hit"),
        (1.5, 1.25, "short"),
        (40.0, 12.7, "short"),
        (40.0, 30.0, "hit"),
        (1.5, 1.0, "short"),
        (1.5, 0.995, "short"),
        (1.5, 0.9, "contrary"),
        (1.5, 1.8, "hit"),
        (1.5, 1.9, "beyond"),
        (0.25, 0.3, "hit"),
        (0.25, 0.9, "short"),
        (0.25, 1.1, "contrary"),
        (1.0, 1.004, "hit"),
        (1.0, 1.2, "beyond"),
        (1.005, 0.8, "contrary"),
    ],
)
def test_where_a_measurement_lands(predicted: float, measured: float, found: Landing) -> None:
    assert landing(predicted, measured, BAND) == found


@given(RATIOS, RATIOS)
def test_turning_both_around_changes_nothing(predicted: float, measured: float) -> None:
    """A counter that falls to a quarter is judged as one that rises fourfold."""
    sides = landing(predicted, measured, BAND), landing(1 / predicted, 1 / measured, BAND)
    share = math.log(measured) / math.log(predicted) if predicted != 1 else 0.0
    edges = (0.0, 1 / FACTOR, 1.0, FACTOR)
    if all(abs(share - edge) > 1e-9 for edge in edges) and abs(math.log(predicted)) > 1e-6:
        assert sides[0] == sides[1]


def test_what_lies_in_the_measured_interval_is_a_hit() -> None:
    assert landing(1.03, 1.015, BAND) == "short"
    assert landing(1.03, 1.015, BAND, (1.012, 1.031)) == "hit"
    assert landing(1.05, 1.015, BAND, (1.012, 1.031)) == "short"


@pytest.mark.rule("predictions-scored")
@given(RATIOS)
def test_what_comes_true_is_a_hit(ratio: float) -> None:
    assert landing(ratio, ratio, BAND) == "hit"


# -- of a round -----------------------------------------------------------------------------


def profile(workload: str = "N=1024", **counters: float) -> Profile:
    found = tuple(Counter(name=name, value=v, unit="1") for name, v in counters.items())
    return Profile(tool="perf", workload=workload, counters=found)


def judged(after: Profile | None, **hypothesis: object) -> Round:
    """A kept round at 1.2x, whose candidate has the given profile."""
    target = campaign_of(events_for([])).started.target
    brief = brief_for(target.baseline)
    first = campaign_of(events_for(["kept"])).rounds[0]
    base = first.hypothesis.model_copy(
        update={"expected_counter": "ipc", "expected_change": None, **hypothesis}
    )
    proposal = Proposal(hypothesis=base, candidate=first.candidate)
    (made,) = advance(brief, proposal, kept=True, speedup=1.2).campaign.rounds
    return made.model_copy(update={"profile": after})


@pytest.mark.parametrize(
    ("said", "value", "found", "predicted"),
    [
        ({"expected_delta": 0.25}, 0.3, "hit", 0.25),
        ({"expected_delta": 0.25}, 0.8, "short", 0.25),
        ({"expected_delta": 0.25}, 1.5, "contrary", 0.25),
        ({"expected_change": "down by half"}, 0.9, "hit", None),
        ({"expected_change": "down"}, 0.99, "short", None),
        ({"expected_change": "down"}, 1.5, "contrary", None),
        ({"expected_change": "up, with fewer instructions"}, 1.5, "hit", None),
        ({"expected_change": "from 8% to above 60%"}, 1.5, "unpredicted", None),
        ({"expected_counter": None, "expected_delta": 0.5}, 0.5, "unpredicted", None),
    ],
)
def test_a_counter_is_scored_by_ratio_or_by_direction(
    said: dict[str, object], value: float, found: Landing, predicted: float | None
) -> None:
    score = round_score(judged(profile(ipc=value), **said), profile(ipc=1.0), BAND)
    assert score.movement.landing == found
    assert score.movement.predicted == predicted
    assert score.movement.measured == (None if found == "unpredicted" else value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, profile(ipc=1.0)),
        (profile(ipc=1.0), None),
        (profile(ipc=1.0), profile(cycles=1.0)),
        (profile(ipc=1.0), profile("N=64", ipc=1.0)),
        (profile(ipc=1.0), profile(ipc=1.0).model_copy(update={"tool": "valgrind"})),
        (profile(ipc=0.0), profile(ipc=1.0)),
    ],
    ids=["no profile before", "none after", "no counter", "workload", "tool", "nothing before"],
)
def test_counters_that_say_different_things_are_not_compared(
    before: Profile | None, after: Profile | None
) -> None:
    score = round_score(judged(after, expected_delta=0.5), before, BAND)
    assert score.movement.landing == "unmeasured"
    assert score.movement.measured is None


def test_a_speedup_is_that_of_what_the_hypothesis_targets() -> None:
    campaign = campaign_of(events_for(["inconclusive"]))
    (round_,) = campaign.rounds
    assert round_.hypothesis.target_class == "memory-resident"
    comparison = round_.judgement.comparison
    of_class = next(c for c in comparison.classes if c.config_class == "memory-resident")
    (score,) = scores(campaign)
    assert score.speedup.measured == of_class.estimate.speedup != comparison.overall.speedup


def test_what_failed_was_not_measured() -> None:
    (score,) = scores(campaign_of(events_for(["build_failed"])))
    assert score.speedup.landing == "unmeasured"
    assert score.speedup.predicted == 1.4


def test_pairs_too_few_for_an_interval_count_neither_way() -> None:
    campaign = campaign_of(events_for(["regression", "regression"]))
    first, second = campaign.rounds
    comparison = second.judgement.comparison
    overall = comparison.overall.model_copy(
        update={"ci": (1 / LARGEST_RATIO, LARGEST_RATIO), "pairs": 2, "verdict": "inconclusive"}
    )
    few = comparison.model_copy(update={"overall": overall})
    judgement = second.judgement.model_copy(update={"comparison": few})
    undecided = second.model_copy(update={"judgement": judgement})
    assert second.hypothesis.target_class == "global"
    campaign = campaign.model_copy(update={"rounds": (first, undecided)})
    assert [score.speedup.landing for score in scores(campaign)][1] == "undecided"
    (found,) = calibrations(campaign)
    assert (found.rounds, found.measured) == (2, 1)


@pytest.mark.parametrize(
    ("verdict", "measured", "ci", "predicted", "found"),
    [
        ("faster", 32.6, (3.21, 22330.0), 461.0, "undecided"),
        ("faster", 32.6, (3.21, 22330.0), 1.5, "beyond"),
        ("inconclusive", 0.44, (0.115, 419.0), 6.6, "undecided"),
        ("inconclusive", 0.98, (0.9, 1.07), 1.4, "short"),
        ("slower", 0.71, (0.66, 0.78), 6.6, "contrary"),
    ],
)
def test_an_interval_says_no_more_than_it_knows(
    verdict: str, measured: float, ci: tuple[float, float], predicted: float, found: Landing
) -> None:
    campaign = campaign_of(events_for(["kept"]))
    (round_,) = campaign.rounds
    comparison = round_.judgement.comparison
    overall = comparison.overall.model_copy(
        update={"speedup": measured, "ci": ci, "verdict": verdict}
    )
    comparison = comparison.model_copy(update={"overall": overall})
    round_ = round_.model_copy(
        update={
            "judgement": round_.judgement.model_copy(update={"comparison": comparison}),
            "hypothesis": round_.hypothesis.model_copy(
                update={"predicted_speedup": predicted, "target_class": "global"}
            ),
        }
    )
    score = round_score(round_, None, BAND)
    assert (score.speedup.measured, score.speedup.landing) == (measured, found)
    (told,) = calibrations(campaign.model_copy(update={"rounds": (round_,)}))
    assert told.measured == (found != "undecided")


def test_counters_are_compared_with_the_kernel_that_held() -> None:
    """Of two kept rounds, the second is held against the first."""
    campaign = campaign_of(events_for(["kept", "sweep"]))
    changed = [
        round_.model_copy(
            update={
                "hypothesis": round_.hypothesis.model_copy(
                    update={"expected_counter": "ipc", "expected_delta": 1.5}
                )
            }
        )
        for round_ in campaign.rounds
    ]
    campaign = campaign.model_copy(update={"rounds": tuple(changed)})
    profiles = [campaign.baseline.profile, *(r.profile for r in campaign.rounds if r.profile)]
    ipc = [value for seen in profiles if (value := seen.get("ipc")) is not None]
    found = [score.movement.measured for score in scores(campaign)]
    assert found == pytest.approx([ipc[1] / ipc[0], ipc[2] / ipc[1]])


# -- of a proposer --------------------------------------------------------------------------


def of_category(campaign: Campaign, category: Category) -> Calibration:
    return next(found for found in calibrations(campaign) if found.category == category)


@pytest.mark.rule("calibration-shown")
def test_a_proposer_is_calibrated_by_kind_of_change() -> None:
    kinds: list[RoundKind] = ["kept", "regression", "build_failed", "regression"]
    campaign = campaign_of(events_for(kinds))
    algebraic = {"category": "algebra", "tactic": "recipe:online-softmax"}
    rounds = [
        r.model_copy(update={"hypothesis": r.hypothesis.model_copy(update=algebraic)})
        if r.decision.kind == "rolled_back" and r.judgement.outcome.kind == "passed"
        else r
        for r in campaign.rounds
    ]
    campaign = campaign.model_copy(update={"rounds": tuple(rounds)})
    online = of_category(campaign, "algebra")
    assert (online.proposer, online.rounds, online.kept) == ("recipe", 2, 0)
    assert (online.measured, online.hits) == (2, 0)
    ratios = [
        s.speedup.measured / 1.15
        for s in scores(campaign)
        if s.category == "algebra" and s.speedup.measured is not None
    ]
    assert online.ratio == pytest.approx(math.sqrt(ratios[0] * ratios[1]))
    assert online.ratio is not None
    assert online.ratio < 1, "it promises too much"
    assert online.hit_share == 0.0


def test_what_was_never_measured_has_no_ratio() -> None:
    campaign = campaign_of(events_for(["build_failed"]))
    (failed,) = calibrations(campaign)
    assert (failed.rounds, failed.measured, failed.ratio, failed.hit_share) == (1, 0, None, None)


def test_proposers_are_told_apart() -> None:
    first, second = campaign_of(events_for(["regression", "regression"])).rounds
    campaign = campaign_of(events_for(["regression"]))
    named = (first.model_copy(update={"proposer": "tell"}), second)
    found = calibrations(campaign.model_copy(update={"rounds": named}))
    assert [(one.proposer, one.rounds) for one in found] == [("recipe", 1), ("tell", 1)]


def test_masked_rounds_do_not_count() -> None:
    events = events_for(["regression", "regression"])
    mask = Masked(rounds=(2,), by="command", reason="a test", at="now")
    masked = replay([*events, mask])
    assert masked is not None
    assert [found.rounds for found in calibrations(masked)] == [1]
