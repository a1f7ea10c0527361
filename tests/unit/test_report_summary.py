"""What a campaign adds up to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from campaign_builder import (
    BASELINE_TIMES_S,
    NAIVE,
    PARALLEL,
    VECTOR_EXP,
    campaign_of,
    candidate,
    crippled,
    events_for,
    resumed,
    softmax_campaign,
    softmax_events,
    started,
)
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.api.views.records import lines_for
from roofsmith.domain.campaign import RolledBack
from roofsmith.domain.diagnosis import Attempt, Diagnosed, Disassembly, Material
from roofsmith.domain.target import StopPolicy
from roofsmith.report.diffs import BUILD_PATH, candidate_diff
from roofsmith.report.headline import in_full, rests_on
from roofsmith.report.markdown import final_report
from roofsmith.report.prospects import open_directions
from roofsmith.report.summarize import product, summarize
from roofsmith.report.summary import Ratio


def test_totals_follow_from_the_rounds() -> None:
    summary = summarize(softmax_campaign())
    assert (summary.totals.tried, summary.totals.kept) == (7, 3)
    assert (summary.totals.rejected, summary.totals.failed, summary.totals.screened) == (2, 2, 15)
    assert summary.totals.overhead == pytest.approx(1 - 106.7 / 110.0)
    assert [step.mark for step in summary.steps] == [
        "baseline", "kept", "kept", "rejected", "failed", "failed", "kept", "rejected",
    ]  # fmt: skip
    assert [step.status for step in summary.turned_down] == [
        "slower", "build failed", "incorrect", "inconclusive",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "found", "said"),
    [
        ("LDG.128", Disassembly(tool="cuobjdump", mnemonics={"LDG.E.128": 4}), "4 in the listing"),
        ("HMMA", Disassembly(tool="cuobjdump", mnemonics={"FFMA": 64}), "not in the listing"),
        ("HMMA", Disassembly(tool=None, missing=("no tool",)), "not looked for: no tool"),
        ("HMMA", None, "not looked for"),
        (None, None, ""),
    ],
)
def test_an_instruction_that_is_claimed_is_looked_for(
    claim: str | None, found: Disassembly | None, said: str
) -> None:
    campaign = softmax_campaign()
    first = campaign.rounds[0]
    hypothesis = first.hypothesis.model_copy(update={"expected_instruction": claim})
    first = first.model_copy(update={"hypothesis": hypothesis, "disassembly": found})
    campaign = campaign.model_copy(update={"rounds": (first, *campaign.rounds[1:])})
    summary = summarize(campaign)
    claimed = summary.steps[1].instruction or ""
    assert said in str(claimed)
    assert str(claimed) in final_report(campaign, summary)
    assert bool(claimed) == (claim is not None)


def test_a_gpu_has_no_threads_to_give() -> None:
    campaign = softmax_campaign()
    assert summarize(campaign).on == "AMD EPYC 7B13, 2 threads"
    environment = campaign.started.environment
    gpu = environment.device.model_copy(update={"kind": "nvidia", "name": "H100", "cores": 132})
    begun = campaign.started.model_copy(
        update={"environment": environment.model_copy(update={"device": gpu})}
    )
    summary = summarize(campaign.model_copy(update={"started": begun}))
    assert (summary.on, summary.threads) == ("H100", None)
    assert lines_for(begun, campaign, 120)[0] == [("device    ", "bold"), ("H100", "")]


def test_a_baseline_s_line_says_which_of_several_workloads_was_profiled() -> None:
    campaign = softmax_campaign()
    baseline = campaign.baseline
    assert len(baseline.timings) > 1
    ((_, (text, _)),) = lines_for(baseline, campaign, 120)
    assert text.endswith(f"; {baseline.bottleneck.kind}-bound on {baseline.profile.workload}")


def test_the_limit_is_where_every_workload_would_be_at_its_floor() -> None:
    summary = summarize(softmax_campaign())
    assert summary.baseline_fraction is not None
    assert summary.limit_speedup == pytest.approx(1 / summary.baseline_fraction)
    assert summary.fraction is not None
    assert summary.alone is not None
    assert summary.alone / summary.limit_speedup == pytest.approx(summary.fraction)
    assert summary.limiter == "memory"


def test_workloads_carry_their_way_from_baseline_to_final() -> None:
    campaign = softmax_campaign()
    for row, final in zip(
        summarize(campaign).workloads, campaign.stopped.final_timings, strict=True
    ):
        assert [point.number for point in row.path] == [1, 2, 3, 7]
        assert row.path[0].time_s == row.baseline_time_s
        assert row.path[-1].time_s == row.final_time_s == final.time_s
        assert row.baseline_time_s == pytest.approx(BASELINE_TIMES_S[row.label], rel=0.02)
        assert row.floor_time_s is not None
        assert row.fraction == row.floor_time_s / final.time_s
        assert row.speedup.ci[0] < row.speedup.value < row.speedup.ci[1]


def test_a_step_knows_what_it_was_compared_with() -> None:
    campaign = softmax_campaign()
    by_number = {step.number: step for step in summarize(campaign).steps}
    for round in campaign.rounds:
        assert by_number[round.round].incumbent_id == round.incumbent_id
    regression, sweep = by_number[4], by_number[7]
    assert regression.level.value == pytest.approx(
        regression.ratio.value * campaign.rounds[1].total_speedup
    )
    assert sweep.bottleneck_before == campaign.rounds[1].bottleneck
    assert sweep.profile_before == campaign.rounds[1].profile
    movement = by_number[2].movement
    assert (movement.name, movement.before, movement.after) == ("vector_fraction", 0.08, 0.71)


def test_a_win_that_was_not_kept_is_not_listed_as_faster() -> None:
    campaign = campaign_of(events_for(["kept"]))
    vetoed = campaign.rounds[0].model_copy(update={"decision": RolledBack(rule="N=64 got slower")})
    summary = summarize(campaign.model_copy(update={"rounds": (vetoed,)}))
    assert [(s.mark, s.status) for s in summary.turned_down] == [("rejected", "rolled back")]


@pytest.mark.parametrize("count", range(1, len(softmax_events()) + 1))
def test_every_stage_of_a_campaign_has_a_summary(count: int) -> None:
    summary = summarize(campaign_of(softmax_events()[:count]))
    assert (summary.state == "finished") == (count == len(softmax_events()))
    assert (summary.speedup is None) == (count == 1)


def test_states() -> None:
    assert summarize(campaign_of([started()])).state == "in_progress"
    interrupted = events_for(["kept"], stop="interrupted")
    assert summarize(campaign_of(interrupted)).state == "interrupted"
    assert summarize(campaign_of([*interrupted, resumed()])).state == "in_progress"
    assert summarize(campaign_of(events_for([], stop="budget"))).state == "finished"


def test_unknown_stays_unknown() -> None:
    summary = summarize(crippled())
    assert summary.fraction is None
    assert summary.limit_speedup is None
    assert summary.limiter == "unknown"
    assert summary.workloads[0].final_time_s is None


@pytest.mark.rule("what-next")
@pytest.mark.parametrize(
    ("kinds", "stop", "wanted"),
    [
        (["kept"], "goal_reached", "Take the kernel"),
        (["kept"], "max_iterations", "Allow more rounds"),
        (["kept"], "budget", "Allow more time"),
        (["regression"] * 5, "regressions", "Change direction"),
        (["kept"], "interrupted", "Go on"),
        (["kept"], "out_of_ideas", "Answer the compute bottleneck at 32% of the roofline"),
        (["inconclusive"], "out_of_ideas", "Judge round 2 again"),
        (["inconclusive", "inconclusive"], "out_of_ideas", "Judge round 3 again"),
        (["build_failed", "incorrect"], "out_of_ideas", "Repair rounds 2, 3"),
        (["kept"], None, "Let it finish"),
    ],
)
def test_what_to_try_next(kinds: list, stop: str | None, wanted: str) -> None:
    summary = summarize(campaign_of(events_for(kinds, stop=stop)))
    assert wanted in [step.title for step in summary.next_steps]


def test_an_undecided_change_of_an_older_kernel_is_not_judged_again() -> None:
    summary = summarize(campaign_of(events_for(["inconclusive", "kept"], stop="out_of_ideas")))
    assert not [step for step in summary.next_steps if step.title.startswith("Judge")]


def test_what_others_left_undecided_and_what_has_no_gain_say_so() -> None:
    """A quieter machine is advised where threads waited, with how much; no machine finds a gain
    that an interval rules out."""
    found = campaign_of(events_for(["inconclusive", "inconclusive"], stop="out_of_ideas"))
    waiting, none = found.rounds
    pairs = tuple(
        one.model_copy(update={"waited_s": (0.0, 0.4 * one.candidate_time_s[0])})
        for one in waiting.judgement.samples
    )
    disturbed = waiting.judgement.model_copy(update={"samples": pairs, "confirmation": ()})
    estimate = none.judgement.comparison.overall.model_copy(update={"ci": (0.97, 1.005)})
    comparison = none.judgement.comparison.model_copy(update={"overall": estimate})
    without = none.judgement.model_copy(update={"comparison": comparison})
    other = waiting.candidate.with_kernel_text("// another change")
    rounds = (
        waiting.model_copy(update={"judgement": disturbed, "candidate": other}),
        none.model_copy(update={"judgement": without}),
    )
    summary = summarize(found.model_copy(update={"rounds": rounds}))
    steps = {step.title: step.why for step in summary.next_steps}
    assert "typically for 40% of the time" in steps["Judge round 2 again"]
    assert "no gain" in steps["Leave round 3"]
    assert "40%" not in steps["Leave round 3"]


@pytest.mark.parametrize(("kind", "is_said"), [("nvidia", True), ("cpu", False)])
def test_tensor_cores_may_go_beyond_an_fma_ceiling(kind: str, is_said: bool) -> None:
    campaign = softmax_campaign()
    begun = campaign.started
    device = begun.environment.device.model_copy(update={"kind": kind})
    bounds = [bound.model_copy(update={"limiter": "compute"}) for bound in begun.bounds]
    changes = {
        "environment": begun.environment.model_copy(update={"device": device}),
        "bounds": tuple(bounds),
    }
    campaign = campaign.model_copy(update={"started": begun.model_copy(update=changes)})
    summary = summarize(campaign)
    assert "matrix cores" not in rests_on(campaign, summary)
    at_ceiling = tuple(replace(row, fraction=1.01) for row in summary.workloads)
    said = rests_on(campaign, replace(summary, workloads=at_ceiling))
    assert ("matrix cores" in said) is is_said


def test_a_quotient_that_isn_t_the_headline_is_explained() -> None:
    campaign = softmax_campaign()
    summary = summarize(campaign)
    assert summary.headline is not None
    value = summary.headline.value
    assert "Baseline over final" not in in_full(campaign, replace(summary, alone=value))
    said = in_full(campaign, replace(summary, alone=0.8 * value))
    assert "before the first round" in said.partition("Baseline over final is ")[2]
    disturbed = Ratio(0.9 * value, (0.5 * value, 3 * value))
    said = in_full(campaign, replace(summary, measured=disturbed, alone=0.8 * value))
    assert "In turns at the end they came to" in said


@pytest.mark.parametrize(
    ("code", "limits", "command"),
    [
        ("max_iterations", {"max_iterations": 7}, "roofsmith resume . --max-iterations 14"),
        ("budget", {"budget_s": 90.0}, "roofsmith resume . --budget-s 180"),
        ("tokens", {"max_tokens": 500}, "roofsmith resume . --max-tokens 1000"),
        ("cost", {"max_cost_usd": 2.5}, "roofsmith resume . --max-cost 5"),
    ],
)
def test_a_limit_that_ended_it_is_raised_by_a_resume(code: str, limits: dict, command: str) -> None:
    *before, stop = events_for(["kept"], stop=code)  # type: ignore[arg-type]
    stopped = stop.model_copy(update={"limits": StopPolicy(**limits)})
    assert command in [
        step.command for step in summarize(campaign_of([*before, stopped])).next_steps
    ]


def test_more_time_is_more_than_what_was_spent() -> None:
    *before, stop = events_for(["kept"], stop="budget")
    stopped = stop.model_copy(update={"limits": StopPolicy(budget_s=1.0), "spent_s": 4.2})
    steps = summarize(campaign_of([*before, stopped])).next_steps
    assert "roofsmith resume . --budget-s 9" in [step.command for step in steps]


def test_time_between_rounds_is_time_of_the_campaign() -> None:
    events = events_for(["kept"], stop="interrupted")
    (attempt,) = (Attempt.model_construct(round=2),)
    diagnosed = Diagnosed(
        after_round=2,
        level=1,
        material=Material.model_construct(attempts=(attempt,)),
        wall_s=5.0,
        kernel_s=4.0,
        at="2026-04-12 11:00:00",
    )
    plain, longer = (
        summarize(campaign_of([*events, *more])).totals
        for more in ([], [resumed(), diagnosed, events[-1]])
    )
    assert longer.wall_s == pytest.approx(plain.wall_s + 5.0 + events[-1].wall_s)
    assert longer.kernel_s == pytest.approx(plain.kernel_s + 4.0 + events[-1].kernel_s)


def test_a_disturbed_round_is_judged_again_not_repaired() -> None:
    found = campaign_of(events_for(["inconclusive"], stop="out_of_ideas"))
    disturbed = {"comparison": None, "samples": (), "verdict": "unverified"}
    judgement = found.rounds[0].judgement.model_copy(update=disturbed)
    rounds = (found.rounds[0].model_copy(update={"judgement": judgement}),)
    summary = summarize(found.model_copy(update={"rounds": rounds}))
    titles = [step.title for step in summary.next_steps]
    assert "Judge round 2 again" in titles
    assert "Repair round 2" not in titles
    (first, *_) = open_directions(summary.steps[-1])
    assert first.direction.startswith("judge it again on a quieter machine")


def test_an_unknown_roofline_asks_for_the_cost() -> None:
    stop = events_for([], stop="out_of_ideas")[-1]
    campaign = crippled().model_copy(update={"stopped": stop})
    assert "Make the roofline known" in [step.title for step in summarize(campaign).next_steps]


@given(st.lists(st.tuples(st.floats(0.5, 20), st.floats(0, 0.3), st.floats(0, 0.3)), max_size=8))
def test_a_product_stays_within_its_interval(parts: list[tuple[float, float, float]]) -> None:
    ratios = [Ratio(value, (value * (1 - b), value * (1 + a))) for value, b, a in parts]
    total = product(ratios)
    assert total.ci[0] <= total.value * (1 + 1e-9)
    assert total.value <= total.ci[1] * (1 + 1e-9)


def test_diffs_show_sources_and_build() -> None:
    source, build = candidate_diff(candidate(VECTOR_EXP), candidate(PARALLEL, "-fopenmp"))
    assert (source.path, source.added, source.removed) == ("softmax.c", 1, 0)
    assert "+    #pragma omp parallel for" in source.text
    assert (build.path, build.added, build.removed) == (BUILD_PATH, 1, 0)
    assert candidate_diff(candidate(NAIVE), candidate(NAIVE)) == ()


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_diff_adds_up(before: str, after: str) -> None:
    for file in candidate_diff(candidate(before), candidate(after)):
        assert file.added + file.removed > 0
        assert all(line.text[:1] in "+- @" for line in file.lines)
