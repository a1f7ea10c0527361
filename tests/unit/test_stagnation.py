"""The stagnation review: always a way out, and never one that just failed."""

from __future__ import annotations

import pytest
from campaign_builder import RoundKind, campaign_of, events_for
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.analysis.best_known import best_known
from roofsmith.analysis.bottleneck import IDLE_PROCESSORS
from roofsmith.analysis.stagnation import open_directions, stagnation_review
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.diagnosis import Reprofiled
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile
from roofsmith.domain.proposal import Category

ROLLED_BACK: tuple[RoundKind, ...] = (
    "regression", "tie", "inconclusive", "build_failed", "incorrect"
)  # fmt: skip
TRIED: tuple[Category, ...] = (
    "parallelism", "vectorisation", "tiling", "memory_access", "layout", "prefetch", "precision",
    "algebra", "fusion", "launch", "scheduling", "dispatch", "other",
)  # fmt: skip
BOTTLENECKS: tuple[BottleneckKind, ...] = (
    "memory", "compute", "latency", "occupancy", "launch", "tail", "unknown"
)  # fmt: skip


def campaign(*rounds: tuple[RoundKind, Category], device: str = "cpu") -> Campaign:
    """Rounds of a kind and a category each."""
    found = campaign_of(events_for([kind for kind, _ in rounds]))
    made = tuple(
        round_.model_copy(
            update={"hypothesis": round_.hypothesis.model_copy(update={"category": category})}
        )
        for round_, (_, category) in zip(found.rounds, rounds, strict=True)
    )
    started = found.started
    environment = started.environment
    on = environment.device.model_copy(update={"kind": device})
    environment = environment.model_copy(update={"device": on})
    started = started.model_copy(update={"environment": environment})
    return found.model_copy(update={"rounds": made, "started": started})


def seen(*kinds: BottleneckKind) -> list[Reprofiled]:
    return [
        Reprofiled(
            workload=f"w{number}",
            config_class="all",
            time_s=1.0,
            profile=Profile(tool="none", workload=f"w{number}"),
            bottleneck=Bottleneck(kind=kind, confidence=1, evidence=(), roofline_fraction=0.1),
        )
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.rule("diagnosis-2")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ROLLED_BACK), st.sampled_from(TRIED)), min_size=1, max_size=9
    ),
    st.lists(st.sampled_from(BOTTLENECKS), min_size=1, max_size=3),
    st.sampled_from(["cpu", "nvidia", "amd"]),
)
def test_there_are_always_three_other_directions(
    rounds: list[tuple[RoundKind, Category]], kinds: list[BottleneckKind], device: str
) -> None:
    review = stagnation_review(campaign(*rounds, device=device), seen(*kinds))
    dead = {end.category for end in review.dead_ends}
    found = [direction.category for direction in review.directions]
    assert dead == {category for _, category in rounds}
    assert len(found) >= 3
    assert len(set(found)) == len(found)
    if len(dead) <= 5:
        assert not dead & set(found)
    assert "other" not in found
    for direction in review.directions:
        tried = {n for n, (_, category) in enumerate(rounds, 2) if category == direction.category}
        assert set(direction.tried) == tried


@pytest.mark.parametrize(
    ("kind", "device", "first"),
    [
        ("memory", "cpu", "tiling"),
        ("compute", "cpu", "vectorisation"),
        ("latency", "cpu", "memory_access"),
        ("launch", "nvidia", "fusion"),
        ("occupancy", "nvidia", "launch"),
        ("tail", "amd", "parallelism"),
    ],
)
def test_the_bottleneck_chooses(kind: BottleneckKind, device: str, first: Category) -> None:
    review = stagnation_review(
        campaign(("tie", "other"), device=device), seen(kind, kind, "unknown")
    )
    assert review.bottlenecks == (kind,)
    assert review.directions[0].category == first
    assert kind in review.directions[0].because


def test_idle_processors_come_before_anything_else() -> None:
    (plain,) = seen("latency")
    one = plain.bottleneck.model_copy(update={"evidence": (f"{IDLE_PROCESSORS}: one of 2",)})
    tried = campaign(("tie", "other"))
    assert open_directions(tried, [one])[0].category == "parallelism"
    assert open_directions(tried, [plain.bottleneck])[0].category != "parallelism"


def test_what_was_never_tried_comes_first() -> None:
    review = stagnation_review(campaign(("kept", "tiling"), ("tie", "other")), seen("memory"))
    assert "tiling" not in [direction.category for direction in review.directions[:3]]


def test_a_processor_has_no_launches() -> None:
    review = stagnation_review(campaign(("tie", "other")), seen("launch"))
    assert "launch" not in [direction.category for direction in review.directions]


def test_where_nearly_all_was_tried_the_longest_ago_comes_back() -> None:
    rounds = [("tie", category) for category in TRIED if category != "layout"]
    review = stagnation_review(campaign(*rounds), seen("memory"))  # type: ignore[arg-type]
    assert [d.category for d in review.directions] == ["layout", "parallelism", "vectorisation"]
    assert review.directions[0].because.endswith("never tried here")
    assert "last tried in round 2, rolled back at 1.00x" in review.directions[1].because


def test_dead_ends_are_those_since_the_last_kept_change() -> None:
    found = campaign(
        ("regression", "layout"), ("kept", "vectorisation"), ("regression", "tiling"),
        ("build_failed", "tiling"), ("tie", "algebra"),
    )  # fmt: skip
    review = stagnation_review(found, seen("memory"))
    assert review.fruitless == 3
    assert [end.category for end in review.dead_ends] == ["tiling", "algebra"]
    tiling = review.dead_ends[0]
    assert (tiling.rounds, tiling.came_to) == ((4, 5), "1 slower, 1 build failed")
    assert tiling.best is not None
    assert tiling.best < 1


def test_what_nobody_could_measure_is_no_dead_end() -> None:
    found = campaign(("tie", "tiling"), ("tie", "prefetch"))
    judgement = found.rounds[1].judgement.model_copy(
        update={"verdict": "unverified", "comparison": None}
    )
    disturbed = found.rounds[1].model_copy(update={"judgement": judgement})
    found = found.model_copy(update={"rounds": (found.rounds[0], disturbed)})
    review = stagnation_review(found, seen("latency"))
    assert review.fruitless == 2
    assert [end.category for end in review.dead_ends] == ["tiling"]


def test_the_benefit_curve_has_every_round() -> None:
    found = campaign(("kept", "vectorisation"), ("build_failed", "tiling"))
    curve = stagnation_review(found, seen("memory")).curve
    assert [(point.round, point.kept) for point in curve] == [(2, True), (3, False)]
    assert curve[0].gain == found.rounds[0].judgement.comparison.overall.speedup  # type: ignore[union-attr]
    assert curve[1].gain is None
    assert curve[1].total_speedup == found.rounds[1].total_speedup


# -- the best known -------------------------------------------------------------------------


def test_good_implementations_are_pointed_to_by_family_and_device() -> None:
    found = best_known(campaign(("tie", "other")))
    names = [pointer.name for pointer in found.pointers]
    assert found.gaps[0].floor_time_s is not None
    assert "PyTorch's softmax on processors" in names
    assert "Triton's fused softmax" not in names
    on_gpu = best_known(campaign(("tie", "other"), device="nvidia"))
    assert "Triton's fused softmax" in [pointer.name for pointer in on_gpu.pointers]
    assert "no yardstick was measured beside this kernel" in on_gpu.missing


def test_the_widest_gap_comes_first() -> None:
    gaps = best_known(campaign(("tie", "other"))).gaps
    shares = [gap.floor_time_s / gap.time_s for gap in gaps if gap.floor_time_s is not None]
    assert len(shares) == 3
    assert shares == sorted(shares)


def test_a_family_nobody_wrote_about_is_said() -> None:
    found = campaign(("tie", "other"))
    target = found.started.target.model_copy(update={"family": "fft"})
    started = found.started.model_copy(update={"target": target})
    missing = best_known(found.model_copy(update={"started": started})).missing
    assert "nothing is written down here for the family fft" in missing


def test_what_may_still_pay_is_no_dead_end() -> None:
    """A disturbed machine: 4.64x after 5 pairs, and no interval yet."""
    others = tuple(category for category in TRIED if category not in ("tiling", "layout"))
    found = campaign(("inconclusive", "tiling"), *[("tie", category) for category in others])
    undecided, *ties = found.rounds
    comparison = undecided.judgement.comparison
    overall = comparison.overall.model_copy(update={"speedup": 4.64, "ci": (0.001, 1000.0)})
    judgement = undecided.judgement.model_copy(
        update={"comparison": comparison.model_copy(update={"overall": overall})}
    )
    rounds = (undecided.model_copy(update={"judgement": judgement}), *ties)
    review = stagnation_review(found.model_copy(update={"rounds": rounds}), seen("memory"))
    assert tuple(end.category for end in review.dead_ends) == others
    (again,) = [found for found in review.directions if found.category == "tiling"]
    assert again.because.endswith("round 2 tried it, and nobody could say what it brings")
