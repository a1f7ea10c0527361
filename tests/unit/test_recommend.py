"""What earlier campaigns suggest: by likeness times effect; an order, never a decision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from campaign_builder import softmax_campaign
from test_cards import brief_of
from worlds import world

from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.recommend import (
    likeness,
    recommend,
    recommended_line,
    situation_of,
)
from roofsmith.asking.brief import document, markdown
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.profile import Bottleneck
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.recommendation import Recommendation, Situation
from roofsmith.engine.loop import Engine
from roofsmith.ports import Brief

HERE = Situation(
    operator="softmax", backend="cuda", device="NVIDIA H100 80GB HBM3", arch="sm_90",
    dtype="float32", dims={"N=64": {"N": 64}}, bottleneck="memory", counters={"ipc": 1.0},
)  # fmt: skip


def row(tactic: str, score: float, status: str = "kept", **update: object) -> Experiment:
    found = Experiment(
        id=f"{tactic}-{score}", campaign="past", round=2, operator_sig="softmax rows",
        family="softmax", backend="cuda", device="NVIDIA H100 80GB HBM3", arch="sm_90",
        dtype_sig="float32", dims={"N=64": {"N": 64}}, counters_before={"ipc": 1.0},
        bottleneck=Bottleneck(
            kind="memory", confidence=1.0, evidence=(), roofline_fraction=None
        ),
        hypothesis=Hypothesis(
            statement=f"Do {tactic}", rationale="", tactic=tactic, predicted_speedup=1.5
        ),
        status=status, score=score,
    )  # fmt: skip
    return found.model_copy(update=update)


def test_what_worked_and_what_failed_come_apart_with_their_rounds() -> None:
    rows = [row("small", 1.2), row("large", 3.0), row("loss", 0.9, "rolled_back"), row("large", 2)]
    found = recommend([*rows, row("wrong", 0.0, "incorrect", is_buggy=True)], HERE)
    assert [(one.tactic, one.worked) for one in found] == [
        ("large", True), ("small", True), ("loss", False), ("wrong", False),
    ]  # fmt: skip
    assert (found[0].rounds, found[0].kept, len(found[0].precedents)) == (2, 2, 2)
    assert found[0].interval[0] < found[0].speedup < found[0].interval[1]
    assert found[0].speedup < 2.5, "one round is little evidence"


def test_a_kept_round_is_never_told_as_no_gain() -> None:
    (kept,), (lost,) = (
        recommend([row("x", 1.03, status)], HERE) for status in ("kept", "rolled_back")
    )
    assert not kept.worked
    assert "no gain" not in recommended_line(kept)
    assert "no gain" in recommended_line(lost)


@pytest.mark.parametrize(
    "update",
    [
        {"masked": True}, {"bucket": "W2"}, {"bucket": "W3"}, {"backend": "c"},
        {"status": "refused"}, {"status": "baseline"}, {"verdict": "unverified"},
    ],
)  # fmt: skip
def test_what_may_not_be_told_or_says_nothing_never_is(update: dict[str, object]) -> None:
    assert recommend([row("only", 2.0, **update)], HERE) == ()


@pytest.mark.parametrize(
    "update",
    [
        {"family": "gemm", "operator_sig": "gemm"}, {"arch": "sm_80", "device": "A100"},
        {"dtype_sig": "float16"}, {"dims": {"N": {"N": 4096}}}, {"counters_before": {"ipc": 4.0}},
        {"bottleneck": row("", 1).bottleneck.model_copy(update={"kind": "compute"})},
    ],
)  # fmt: skip
def test_every_difference_makes_less_alike(update: dict[str, object]) -> None:
    assert 0 < likeness(row("x", 2.0, **update), HERE) < likeness(row("x", 2.0), HERE) == 1.0


def told(brief: Brief, *learned: Recommendation) -> Brief:
    started = brief.campaign.started.model_copy(update={"learned": learned})
    campaign = brief.campaign.model_copy(update={"started": started})
    return replace(brief, campaign=campaign)


def test_a_campaign_records_what_it_was_told_and_goes_on_with_that() -> None:
    past = experiments(softmax_campaign())
    one = world(0.5e-3)
    parts = replace(one.parts(), recommended=lambda started: recommend(past, situation_of(started)))
    first = Engine(parts, "told").run()
    assert first.started.learned
    again = Engine(one.parts(), "told").open()
    assert again.started.learned == first.started.learned


def test_a_brief_shows_what_earlier_campaigns_did() -> None:
    found = document(told(brief_of(), *recommend([row("recipe:x", 3.0)], HERE)))
    assert "recipe:x" in markdown(found)
    assert found["experience"][0]["precedents"][0]["round"] == 2
