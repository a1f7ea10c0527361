"""Two levels of judgement: quick ones reject, full ones keep."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from roofsmith.analysis.representatives import FEW, representatives
from roofsmith.domain.campaign import Baseline, Kept, RolledBack, Round
from roofsmith.domain.comparison import Timing
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.report.campaign_files import render_campaign
from roofsmith.testing.engine import ELEMENTS, FakeWorld, fake_idea, fake_repair, fake_target
from roofsmith.testing.judge import FakeKernels

VARIANTS = range(1, 9)


def target_of(**changes: object) -> Target:
    """Eight workloads in two declared classes; the first one is the quickest."""
    workloads = tuple(
        Workload(dims={"n": ELEMENTS, "variant": v}, config_class="low" if v <= 4 else "high")
        for v in VARIANTS
    )
    return fake_target(**({"workloads": workloads} | changes))


TARGET = target_of()
LABELS = {w.dims["variant"]: w.label for w in TARGET.workloads}
BASE_S = {v: 1e-3 * (1 + v / 100) for v in VARIANTS}


def on(ratios: Mapping[int, float] | float) -> dict[str, float]:
    """Times by label: a ratio over the baseline, for all or by variant (1 for the others)."""
    by = dict.fromkeys(VARIANTS, ratios) if isinstance(ratios, float) else ratios
    return {LABELS[v]: BASE_S[v] / by.get(v, 1.0) for v in VARIANTS}


def world(
    *ideas: tuple[Proposal, Mapping[int, float] | float], target: Target = TARGET
) -> FakeWorld:
    kernels = FakeKernels()
    kernels.add(target.baseline, on=on(1.0))
    for idea, ratios in ideas:
        kernels.add(idea.candidate, on=on(ratios))
    return FakeWorld(target, kernels, [idea for idea, _ in ideas])


def idea(name: str = "idea", **hypothesis: object) -> Proposal:
    made = fake_idea(TARGET, name)
    return made.model_copy(update={"hypothesis": made.hypothesis.model_copy(update=hypothesis)})


def only_round(here: FakeWorld) -> Round:
    campaign = Engine(here.parts(), "fake").run()
    assert not verify(here.records)
    (round_,) = campaign.rounds
    return round_


def labels_of(round_: Round) -> set[str]:
    return {sample.workload for sample in round_.judgement.samples}


# -- who stands for all ---------------------------------------------------------------------------


def timing(label: str, time_s: float, **dims: int) -> Timing:
    return Timing(
        workload=label, dims=dims, config_class="", time_s=time_s, ci=(time_s, time_s),
        samples_s=(time_s,),
    )  # fmt: skip


def chosen(sizes: list[tuple[int, int]], times_s: list[float], *cuts: int) -> tuple[str, ...]:
    workloads = tuple(Workload(dims={"n": n, "d": d}) for n, d in sizes)
    labels = [w.label for w in workloads]
    edges = [0, *cuts, len(labels)]
    classes = [
        ConfigClass(name=str(a), workloads=tuple(labels[a:b]), reason="")
        for a, b in pairwise(edges)
    ]
    timings = [timing(w.label, t, **w.dims) for w, t in zip(workloads, times_s, strict=True)]
    return representatives(target_of(workloads=workloads), classes, timings)


@pytest.mark.rule("representatives")
def test_small_medium_large_and_skewed_ones_stand_for_all() -> None:
    sizes = [(8, 8), (16, 8), (32, 32), (4096, 2), (64, 64), (128, 128), (256, 256)]
    found = chosen(sizes, [1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0])
    assert found == ("n=8,d=8", "n=4096,d=2", "n=256,d=256")  # the middle one is the skewed one
    found = chosen(sizes, [1.0, 2.0, 3.0, 2.5, 4.0, 5.0, 6.0])
    assert found == ("n=8,d=8", "n=32,d=32", "n=4096,d=2", "n=256,d=256")


def test_every_class_is_represented_as_far_as_five_go() -> None:
    sizes = [(n, n) for n in range(1, 11)]
    times_s = [float(n) for n in range(1, 11)]
    assert "n=3,d=3" in chosen(sizes, times_s, 1, 3, 5)
    assert len(chosen(sizes, times_s, *range(1, 10))) == FEW


def test_few_workloads_need_nobody() -> None:
    assert chosen([(n, n) for n in range(1, FEW + 1)], [1.0] * FEW) == ()


# -- rounds ---------------------------------------------------------------------------------------


def test_the_baseline_says_who_stands_for_all() -> None:
    here = world()
    campaign = Engine(here.parts(), "fake").open()
    found = campaign.baseline.representative
    assert 3 <= len(found) <= FEW
    assert {LABELS[1], LABELS[8]} <= set(found)
    text = render_campaign(campaign).files["rounds/round-1/summary.md"]
    assert f"| quick judgements look at | {'; '.join(found)} |" in text


@pytest.mark.parametrize(("ratio", "regression"), [(0.8, True), (1.0, False)])
def test_what_is_slower_or_a_tie_there_is_rejected_at_once(
    ratio: float, *, regression: bool
) -> None:
    here = world((idea(), ratio))
    round_ = only_round(here)
    campaign = Engine(here.parts(), "fake").campaign
    assert round_.judgement.validation == "quick"
    assert labels_of(round_) == set(campaign.baseline.representative)
    assert isinstance(round_.decision, RolledBack)
    assert round_.decision.regression == regression
    text = render_campaign(campaign).files["rounds/round-2/summary.md"]
    assert "| judged on these alone |" in text


@pytest.mark.rule("full-validation")
@pytest.mark.parametrize("ratio", [1.3, 1.03])
def test_what_would_be_kept_is_judged_in_full(ratio: float) -> None:
    round_ = only_round(world((idea(), ratio)))
    assert isinstance(round_.decision, Kept), round_.decision.rule
    assert round_.judgement.validation == "full"
    assert labels_of(round_) == set(LABELS.values())
    assert {s.workload for s in round_.judgement.quick} < set(LABELS.values())


@pytest.mark.rule("full-validation")
def test_a_gain_that_only_the_representative_ones_have_is_not_kept() -> None:
    here = world()
    campaign = Engine(here.parts(), "fake").open()
    gaining = campaign.baseline.representative
    ratios = {v: 1.1 if LABELS[v] in gaining else 0.7 for v in VARIANTS}
    round_ = only_round(world((idea(), ratios)))
    assert round_.judgement.validation == "full"
    assert isinstance(round_.decision, RolledBack)


def test_what_is_wrong_there_is_rejected_at_once() -> None:
    here = world((idea(), 1.0))
    here.kernels.add(
        here.ideas[0].candidate, outcome=Incorrect(reason="wrong_output", detail="y[0]")
    )
    round_ = only_round(here)
    assert round_.judgement.validation == "quick"
    assert round_.judgement.outcome.kind == "incorrect"


@pytest.mark.rule("full-validation")
def test_classes_that_diverge_there_are_judged_in_full() -> None:
    here = world((idea(), {v: 1.3 if v <= 4 else 0.7 for v in VARIANTS}))
    round_ = only_round(here)
    assert round_.judgement.validation == "full"
    assert isinstance(round_.decision, RolledBack)
    assert round_.decision.diverged


@pytest.mark.rule("risky-in-full")
@pytest.mark.parametrize("risky", [{"category": "precision"}, {"bucket": "W1"}])
def test_risky_changes_are_judged_in_full_at_once(risky: dict[str, object]) -> None:
    round_ = only_round(world((idea(**risky), 0.8)))
    assert round_.judgement.validation == "full"
    assert not round_.judgement.quick


def test_repairs_are_judged_in_full_at_once() -> None:
    first = idea()
    here = world((first, 1.0), (fake_repair(first, 1), 0.8))
    here.kernels.add(first.candidate, outcome=Incorrect(reason="wrong_output", detail="y[0]"))
    campaign = Engine(here.parts(), "fake").run()
    assert [r.judgement.validation for r in campaign.rounds] == ["quick", "full"]
    assert not verify(here.records)


@pytest.mark.rule("risky-in-full")
def test_the_regression_that_would_end_a_campaign_is_measured_in_full() -> None:
    target = target_of(stop=StopPolicy(max_consecutive_regressions=3))
    here = world(*((idea(f"worse {n}"), 0.8) for n in range(4)), target=target)
    campaign = Engine(here.parts(), "fake").run()
    assert [r.judgement.validation for r in campaign.rounds] == ["quick", "quick", "full"]
    assert campaign.stopped.code == "regressions"
    assert not verify(here.records)


def test_a_class_without_a_representative_is_judged_in_full() -> None:
    names = [f"c{v}" for v in VARIANTS]
    workloads = tuple(
        w.model_copy(update={"config_class": name})
        for w, name in zip(TARGET.workloads, names, strict=True)
    )
    here = world(target=target_of(workloads=workloads))
    campaign = Engine(here.parts(), "fake").open()
    assert campaign.baseline is not None
    left = next(
        c.name for c in campaign.classes if c.workloads[0] not in campaign.baseline.representative
    )
    aimed, anyhow, worse = idea("aimed", target_class=left), idea("anyhow"), idea("worse")
    here = world((aimed, 1.0), (anyhow, 1.0), (worse, 0.8), target=here.target)
    campaign = Engine(here.parts(), "fake").run()
    assert [bool(r.judgement.quick) for r in campaign.rounds] == [False, True, True]
    # where not all classes were looked at, one of the others may gain
    assert [r.judgement.validation for r in campaign.rounds] == ["full", "full", "full"]
    assert not verify(here.records)


def test_few_workloads_are_judged_in_full_at_once() -> None:
    target = target_of(workloads=TARGET.workloads[:FEW])
    round_ = only_round(world((idea(), 0.8), target=target))
    assert round_.judgement.validation == "full"
    assert not round_.judgement.quick


# -- verification ---------------------------------------------------------------------------------


def lied(here: FakeWorld, **judgement: object) -> list[str]:
    """What verification says of the last round, with another judgement."""
    Engine(here.parts(), "fake").run()
    at = next(i for i, event in enumerate(here.records) if event.kind == "round")
    round_ = here.records[at]
    assert isinstance(round_, Round)
    told = round_.judgement.model_copy(update=judgement)
    lie = round_.model_copy(update={"judgement": told})
    return [f.what for f in verify([*here.records[:at], lie, *here.records[at + 1 :]])]


def test_a_full_judgement_that_says_it_was_quick_is_found() -> None:
    assert any("quick" in what for what in lied(world((idea(), 1.3)), validation="quick"))


def test_a_quick_one_that_says_it_was_full_is_found() -> None:
    assert lied(world((idea(), 0.8)), validation="full")


def test_a_full_one_after_a_quick_one_that_was_enough_is_found() -> None:
    slower = Engine(world((idea("slower"), 0.8)).parts(), "fake").run().rounds[0]
    what = lied(world((idea(), 1.3)), quick=slower.judgement.samples)
    assert any("quick judgement" in line for line in what)


@pytest.mark.rule("fixed-representatives")
def test_other_representatives_than_the_times_give_are_found() -> None:
    here = world()
    Engine(here.parts(), "fake").open()
    at = next(i for i, event in enumerate(here.records) if event.kind == "baseline")
    baseline = here.records[at]
    assert isinstance(baseline, Baseline)
    lie = baseline.model_copy(update={"representative": (LABELS[2], LABELS[3], LABELS[4])})
    findings = verify([*here.records[:at], lie, *here.records[at + 1 :]])
    assert any("representative recorded as" in finding.what for finding in findings)
