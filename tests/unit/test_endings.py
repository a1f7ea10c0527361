"""Every end says which conditions held, and what was measurably slower before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from roofsmith.analysis.heard import first_look
from roofsmith.api.documents import headline_fields
from roofsmith.domain.campaign import Campaign, Event, Resumed, Started, Stopped, replay
from roofsmith.domain.command import CommandSpec, Direction, MetricReading
from roofsmith.domain.ending import EndCheck
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import Goal, KeepPolicy, StopPolicy, Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.stopping import conditions, stop_condition
from roofsmith.engine.verify import verify
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels

SLOWER = [1.5e-3, 1.6e-3, 1.7e-3, 1.8e-3, 1.9e-3, 2.0e-3, 2.1e-3]


def world(*times_s: float, target: Target | None = None, tokens: int = 0) -> FakeWorld:
    """A baseline of 1 ms, and ideas that take the given times."""
    target = target or fake_target()
    ideas: list[Proposal] = []
    kernels = FakeKernels()
    for number, time_s in enumerate(times_s):
        idea = fake_idea(target, f"idea {number}").model_copy(update={"tokens": tokens})
        kernels.add(idea.candidate, time_s=time_s)
        ideas.append(idea)
    return FakeWorld(target=target, kernels=kernels, ideas=ideas)


def run(world: FakeWorld, limits: StopPolicy | None = None) -> Campaign:
    campaign = Engine(world.parts(), "test", limits).run()
    assert verify(world.records) == ()
    return campaign


def checks(campaign: Campaign) -> dict[str, EndCheck]:
    return {check.code: check for check in campaign.stopped.checks}


def holding(campaign: Campaign) -> list[str]:
    return [code for code, check in checks(campaign).items() if check.holds]


# -- the conditions -------------------------------------------------------------------------


@pytest.mark.rule("goals", "stop-conditions")
def test_the_goal() -> None:
    campaign = run(world(0.5e-3, target=fake_target(goal=Goal(speedup=1.8))))
    assert holding(campaign) == ["goal_reached"]
    assert "x over the baseline; the goal is 1.80x" in checks(campaign)["goal_reached"].detail


@pytest.mark.rule("stop-conditions", "efficiency-goal")
def test_the_efficiency() -> None:
    campaign = run(world(1.05e-4))
    assert holding(campaign) == ["efficiency_reached"]
    assert "the goal is 90%" in checks(campaign)["efficiency_reached"].detail


@pytest.mark.rule("goals")
@pytest.mark.parametrize(("goal", "reached"), [(Goal(gbs=7.9), True), (Goal(gbs=8.1), False)])
def test_a_rate_may_be_the_goal(goal: Goal, reached: bool) -> None:
    """4 MB in 0.5 ms are 8 GB/s."""
    campaign = run(world(0.5e-3, target=fake_target(goal=goal)))
    assert (holding(campaign) == ["goal_reached"]) is reached
    assert f"; the goal is {goal.gbs:.4g} GB/s" in checks(campaign)["goal_reached"].detail
    files = render_campaign(campaign).files
    assert f"or {goal.gbs:g} GB/s (geometric mean" in files["README.md"]
    assert f">= {goal.gbs:g} GB/s" in files["manifest.yaml"]


def test_a_rate_that_nobody_knows_is_never_reached() -> None:
    campaign = run(world(0.5e-3, target=fake_target(goal=Goal(tflops=1e-9))))
    assert holding(campaign) == ["goal_reached"]
    unknown = campaign.started.model_copy(update={"bounds": ()})
    campaign = campaign.model_copy(update={"started": unknown})
    found = conditions(campaign, StopPolicy(), 0.0)[0]
    assert not found.holds
    assert "UNKNOWN; the goal is 1e-09 TFLOP/s" in found.detail


@pytest.mark.rule("goals", "most-rounds")
def test_without_a_limit_of_rounds_nor_a_goal_nothing_ends_it_but_want_of_ideas() -> None:
    stop = StopPolicy(max_iterations=None, max_consecutive_regressions=None)
    target = fake_target(goal=Goal(roofline_fraction=None), stop=stop)
    campaign = run(world(*SLOWER, 1.05e-4, *[0.9e-4] * 20, target=target))
    assert len(campaign.rounds) == len(SLOWER) + 21
    assert holding(campaign) == ["out_of_ideas"]
    files = render_campaign(campaign).files
    assert "- no limit of rounds" in files["README.md"]
    assert "performance_target: null" in files["manifest.yaml"]
    assert "max_iterations: null" in files["manifest.yaml"]


@pytest.mark.rule("stop-conditions")
def test_the_rounds() -> None:
    campaign = run(world(0.9e-3, 0.8e-3, target=fake_target(stop=StopPolicy(max_iterations=1))))
    assert holding(campaign) == ["max_iterations"]


@pytest.mark.rule("all-conditions-recorded")
def test_several_at_once() -> None:
    target = fake_target(goal=Goal(speedup=1.8), stop=StopPolicy(max_iterations=1))
    campaign = run(world(0.5e-3, target=target))
    assert campaign.stopped.code == "goal_reached"
    assert holding(campaign) == ["goal_reached", "max_iterations"]


@pytest.mark.rule("stop-conditions", "final-report")
def test_the_user() -> None:
    here = world(0.5e-3)
    here.interrupt_at = 0
    with pytest.raises(KeyboardInterrupt):
        run(here)
    campaign = Engine(here.parts(), "test").campaign
    assert holding(campaign) == ["interrupted"]
    assert verify(here.records) == ()
    assert "## Final Report" not in render_campaign(campaign).files["logs/optimize.md"]


@pytest.mark.rule("stop-conditions")
def test_the_tokens() -> None:
    target = fake_target(stop=StopPolicy(max_tokens=250))
    campaign = run(world(0.9e-3, 0.8e-3, 0.7e-3, 0.6e-3, target=target, tokens=100))
    assert [round_.tokens for round_ in campaign.rounds] == [100, 100, 100]
    assert holding(campaign) == ["tokens"]
    assert checks(campaign)["tokens"].detail == "300 of 250 tokens are spent"


@pytest.mark.rule("raised-limits")
def test_limits_that_a_resume_raised_are_recorded_and_stay() -> None:
    here = world(0.9e-3, 0.8e-3, 0.7e-3, target=fake_target(stop=StopPolicy(max_iterations=1)))
    run(here)
    raised = StopPolicy(max_iterations=2)
    campaign = run(here, raised)
    [event] = [event for event in here.records if isinstance(event, Resumed)]
    assert event.limits == raised
    assert event.note.endswith("; max_iterations is 2 from here on, in place of 1")
    files = render_campaign(campaign).files
    assert "- 2 rounds after the baseline" in files["README.md"]
    assert "max_iterations: 2\n" in files["manifest.yaml"]
    assert event.note in files["logs/optimize.md"].replace("\\_", "_")
    assert len(run(here).rounds) == 2  # still: nobody said otherwise
    assert limits_in_force(campaign) == raised


@pytest.mark.rule("never-asks")
def test_a_campaign_that_meets_none_of_them_goes_on_while_there_are_ideas() -> None:
    campaign = run(world(0.99e-3, 1.0e-3, 1.5e-3, 1.0e-3))
    assert len(campaign.rounds) == 4
    assert holding(campaign) == ["out_of_ideas"]


COMMAND = CommandSpec(
    editable=("kernel.c",), benchmark="./bench", metric="ms", unit="ms", classes=("n",)
)


def reported(name: str, *values: float) -> tuple[MetricReading, ...]:
    """What a repository's benchmark said, a row each."""
    return tuple(
        MetricReading(workload=f"n={row}", metric=name, value=value)
        for row, value in enumerate(values)
    )


def of_a_repository(spec: CommandSpec, goal: Goal, *metrics: tuple[MetricReading, ...]) -> Campaign:
    """A campaign whose baseline and kept rounds reported these metrics."""
    campaign = run(world(*(0.5e-3 * 0.8**n for n in range(len(metrics) - 1))))
    target = campaign.started.target.model_copy(update={"command": spec, "goal": goal})
    rounds = tuple(
        r.model_copy(update={"judgement": r.judgement.model_copy(update={"metrics": found})})
        for r, found in zip(campaign.rounds, metrics[1:], strict=True)
    )
    return campaign.model_copy(
        update={
            "started": campaign.started.model_copy(update={"target": target}),
            "baseline": campaign.baseline.model_copy(update={"metrics": metrics[0]}),
            "rounds": rounds,
        }
    )


@pytest.mark.rule("goals")
@pytest.mark.parametrize(
    ("direction", "goal", "reached"),
    [("lower", 2.0, True), ("lower", 1.9, False), ("higher", 2.0, True), ("higher", 2.1, False)],
)
def test_a_metric_of_a_repository_may_be_the_goal(
    direction: Direction, goal: float, reached: bool
) -> None:
    spec = COMMAND.model_copy(update={"direction": direction})
    metrics = [reported("ms", 9.0, 9.0), (*reported("ms", 1.0, 4.0), *reported("GB", 90.0, 90.0))]
    campaign = of_a_repository(spec, Goal(metric=goal), *metrics)
    stop = stop_condition(campaign, StopPolicy(), 0.0)
    assert (stop is not None) is reached
    [found] = [c for c in conditions(campaign, StopPolicy(), 0.0) if c.code == "goal_reached"]
    assert found.detail == f"ms is 2 ms; the goal is {goal:.4g} ms"


def test_a_metric_that_nobody_reported_is_not_reached() -> None:
    campaign = of_a_repository(COMMAND, Goal(metric=2.0), (), ())
    assert stop_condition(campaign, StopPolicy(), 0.0) is None
    assert conditions(campaign, StopPolicy(), 0.0)[0].detail.startswith("ms is UNKNOWN")


def test_a_kernel_has_no_metric_to_reach() -> None:
    with pytest.raises(ValueError, match=r"for a kernel, goal\.speedup"):
        fake_target(goal=Goal(metric=2.0))


# -- what verification says of them ---------------------------------------------------------


def with_stop(records: Sequence[Event], **update: object) -> list[Event]:
    return [e.model_copy(update=update) if isinstance(e, Stopped) else e for e in records]


def test_an_end_that_nothing_led_to_is_found() -> None:
    here = world(1.5e-3, 1.6e-3)
    run(here)
    found = verify(with_stop(here.records, code="regressions"))
    assert any("doesn't hold" in finding.what for finding in found)


@pytest.mark.rule("all-conditions-recorded")
def test_conditions_that_were_edited_are_found() -> None:
    here = world(1.5e-3)
    campaign = run(here)
    rosy = tuple(c.model_copy(update={"holds": True}) for c in checks(campaign).values())
    found = verify(with_stop(here.records, checks=rosy))
    assert any("holds no follows" in finding.what for finding in found)


def test_time_that_was_not_spent_is_found() -> None:
    here = world(1.5e-3)
    run(here)
    found = verify(with_stop(here.records, spent_s=0.0))
    assert any("took longer" in finding.what for finding in found)


def test_a_share_of_bytes_alone_is_called_that_and_ledgers_before_follow() -> None:
    here = world(1.5e-3)
    started = run(here).started
    costs = [b.cost.model_copy(update={"flops": None}) for b in started.bounds]
    bounds = [b.model_copy(update={"cost": c}) for b, c in zip(started.bounds, costs, strict=True)]
    bare = started.model_copy(update={"bounds": tuple(bounds)})
    older = [bare if isinstance(e, Started) else e for e in here.records]
    assert verify(older) == ()
    campaign = replay(older)
    assert campaign is not None
    stated = {check.code: check for check in conditions(campaign, StopPolicy(), 0.0)}
    assert "bytes only" in stated["efficiency_reached"].detail


@pytest.mark.parametrize("code", ["goal_reached", "regressions"])
def test_older_ledgers_say_less_and_follow(code: str) -> None:
    here = world(1.5e-3)
    run(here)
    older = with_stop(here.records, code=code, checks=(), limits=None, spent_s=None)
    assert verify(older) == ()


# -- performance.md and the log ---------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    """Cells of every table row that begins with a date."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| 20")
    ]


@pytest.mark.rule("performance-page")
def test_only_what_held_has_a_row() -> None:
    here = world(0.5e-3, 0.8e-3, 0.25e-3, 0.9e-3, 0.9e-3)
    here.kernels.add(here.ideas[4].candidate, outcome=Incorrect(reason="outside_budget"))
    page = render_campaign(run(here)).files["performance.md"]
    assert [(row[1], row[3]) for row in rows(page)] == [
        ("1", "baseline"), ("2", "keep"), ("4", "keep"),
    ]  # fmt: skip
    assert "idea 1" not in page
    assert [row[8] for row in rows(page)] == ["-", "-50%", "-50%"]


def regression_rows(text: str) -> list[list[str]]:
    table = text.split("Measurably slower, in a row up to here:")[1]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]


@pytest.mark.rule("five-regressions", "end-block")
def test_five_regressions_stop_it_and_are_recounted() -> None:
    campaign = run(world(0.9e-3, *SLOWER))
    assert campaign.stopped.code == "regressions"
    files = render_campaign(campaign).files
    for name in ("performance.md", "logs/optimize.md", "final_report.md"):
        found = regression_rows(files[name])
        assert [row[0] for row in found] == ["3", "4", "5", "6", "7"]
        assert [row[3] for row in found] == [f"idea {n}" for n in range(1, 6)]
        assert found[0][4] == "kernel.c"
        assert found[0][5].endswith(" µs -> 1.50 ms")
        assert found[0][7].startswith("+6")
        assert "slower" in found[0][8]
    assert "## Stop Summary" in files["performance.md"]


@pytest.mark.rule("regressions-told")
def test_the_window_holds_five() -> None:
    target = fake_target(stop=StopPolicy(max_consecutive_regressions=7))
    page = render_campaign(run(world(*SLOWER, target=target))).files["performance.md"]
    assert [row[0] for row in regression_rows(page)] == ["4", "5", "6", "7", "8"]
    assert "7 rounds" in page


@pytest.mark.rule("count-reset")
@pytest.mark.parametrize("last_s", [1.0e-3, 0.5e-3])
def test_a_tie_or_a_keep_empties_the_window(last_s: float) -> None:
    page = render_campaign(run(world(1.5e-3, 1.6e-3, last_s))).files["performance.md"]
    assert "Measurably slower" not in page


@pytest.mark.rule("end-block")
def test_the_log_keeps_every_stop() -> None:
    here = world(1.5e-3, 0.5e-3, target=fake_target(stop=StopPolicy(max_iterations=1)))
    first = render_campaign(run(here)).files["logs/optimize.md"]
    assert "## Stop: max iterations" in first
    assert "| T3 rounds | yes | 1 round was judged, as many as allowed |" in first
    campaign = run(here, StopPolicy(max_iterations=2))
    assert any(isinstance(event, Resumed) for event in here.records)
    later = render_campaign(campaign).files["logs/optimize.md"]
    assert later.startswith(first)
    assert later.count("## Stop: max iterations") == 2


# -- what was claimed, measured at once -------------------------------------------------------


@pytest.mark.rule("total-measured-again", "final-report")
def test_baseline_and_final_kernel_are_paired_once_more_at_the_end() -> None:
    here = world(0.8e-3, 0.5e-3)
    campaign = run(here)
    found = campaign.stopped.against_baseline
    assert found.comparison.overall.speedup == pytest.approx(2.0, rel=0.02)
    for final, seen in zip(campaign.stopped.final_timings, found.comparison.workloads, strict=True):
        assert final.time_s == seen.candidate_time_s
        assert final.ci[0] <= final.time_s <= final.ci[1]
    summary = summarize(campaign)
    assert summary.alone is None, "its pairs say it"
    low, high = summary.measured.ci
    assert low < 2.0 < high
    assert summary.headline == summary.measured
    document = headline_fields(summary)
    assert document["speedup"] == summary.measured.value
    assert document["speedup_product"]["speedup"] == campaign.total_speedup
    said = f"| measured | baseline and final kernel in turns, once it was over | {low:.2f}"
    page = render_campaign(campaign).files["final_report.md"]
    assert said.rpartition("|")[0] in page
    assert "Claimed more" not in page
    log = render_campaign(campaign).files["logs/optimize.md"].partition("## Final Report\n")[2]
    assert "- best version: round 3, " in log
    assert "x, W_real 1.00x, R_real 1.00x; inflation gap 0%" in log
    assert f"baseline and final kernel in turns: {summary.measured.value:.2f}x" in log
    assert verify(here.records) == ()


def test_disturbed_pairs_at_the_end_do_not_lead() -> None:
    campaign = run(world(0.8e-3, 0.5e-3))
    found = campaign.stopped.against_baseline
    wide = found.comparison.overall.model_copy(update={"ci": (0.001, 1000.0)})
    comparison = found.comparison.model_copy(update={"overall": wide})
    disturbed = found.model_copy(update={"comparison": comparison})
    stopped = campaign.stopped.model_copy(update={"against_baseline": disturbed})
    summary = summarize(campaign.model_copy(update={"stopped": stopped}))
    assert summary.headline == summary.speedup


def test_one_kept_change_was_measured_against_the_baseline_already() -> None:
    campaign = run(world(0.8e-3, 1.1e-3))
    assert campaign.stopped.against_baseline is None


@pytest.mark.rule("total-measured-again")
def test_a_total_that_was_not_measured_at_the_end_is_named() -> None:
    here = world(0.8e-3, 0.5e-3)
    found = run(here).stopped
    slower = tuple(
        pair.model_copy(update={"candidate_time_s": tuple(1.2 * t for t in pair.candidate_time_s)})
        for pair in found.against_baseline.samples
    )
    edited = found.against_baseline.model_copy(update={"samples": slower, "confirmation": ()})
    records = with_stop(here.records, against_baseline=edited)
    assert any("with the baseline" in finding.what for finding in verify(records))
    campaign = run(here)
    honest = edited.model_copy(update={"comparison": first_look(edited, campaign.grounds())})
    stopped = found.model_copy(update={"against_baseline": honest})
    page = render_campaign(campaign.model_copy(update={"stopped": stopped})).files[
        "final_report.md"
    ]
    assert "**Claimed more than was measured**: " in page


# -- the profiler's own times -----------------------------------------------------------------


@dataclass
class TimingProfiler:
    """Says how long kernels take; another answer each time it is asked, the last one for ever."""

    times_s: dict[str, list[float]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def profile(self, built: Built, workload: Workload) -> Profile:
        self.asked.append(built.candidate_id)
        times_s = self.times_s.get(built.candidate_id, [1e-3])
        time_s = times_s.pop(0) if len(times_s) > 1 else times_s[0]
        counter = Counter(name="kernel_time_s", value=time_s, unit="s")
        return Profile(tool="ncu", workload=workload.label, counters=(counter,))


@pytest.mark.rule("profiler-agrees")
@pytest.mark.parametrize(
    ("before_s", "seen_s", "kept", "looks"),
    [
        ([1e-3], [0.5e-3], True, 1),
        ([1e-3], [1.5e-3], False, 2),
        ([1e-3], [1.5e-3, 0.5e-3], True, 2),
        ([1e-3, 2e-3], [1.5e-3], True, 2),
    ],
)
def test_a_gain_that_the_profiler_contradicts_twice_is_not_kept(
    before_s: list[float], seen_s: list[float], kept: bool, looks: int
) -> None:
    here = world(0.5e-3)
    candidate, incumbent = here.ideas[0].candidate.id, here.target.baseline.id
    last_s = seen_s[-1]
    profiler = TimingProfiler({incumbent: before_s, candidate: seen_s})
    here.profiler = profiler
    campaign = run(here)
    [round_] = campaign.rounds
    assert (round_.decision.kind == "kept") is kept
    assert profiler.asked.count(candidate) == looks
    assert profiler.asked.count(incumbent) == looks
    assert (round_.incumbent_profile is not None) is (looks == 2)
    assert ("the profiler contradicts the gain" in round_.decision.rule) is not kept
    times = [row[7] for row in rows(render_campaign(campaign).files["performance.md"])]
    assert times == ["1.00 ms", *([{0.5e-3: "500 µs", 1.5e-3: "1.50 ms"}[last_s]] if kept else [])]


SIZES = {"small": 1000, "large": 500_000}


@dataclass
class SizedProfiler:
    """Says how long kernels take on a workload, always the same."""

    times_s: dict[tuple[str, int], float]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def profile(self, built: Built, workload: Workload) -> Profile:
        what = (built.candidate_id, workload.dims["n"])
        self.asked.append(what)
        counter = Counter(name="kernel_time_s", value=self.times_s[what], unit="s")
        return Profile(tool="ncu", workload=workload.label, counters=(counter,))


@pytest.mark.rule("profiler-sees-class")
@pytest.mark.parametrize(("seen_s", "kept"), [(0.7e-4, True), (1e-4, False)])
def test_the_class_that_should_gain_is_profiled(seen_s: float, kept: bool) -> None:
    """The large one takes longest, and is as it was: there is nothing to be seen of the gain."""
    target = fake_target(
        workloads=tuple(Workload(dims={"n": n}, config_class=name) for name, n in SIZES.items())
    )
    idea = fake_idea(target, "idea")
    hypothesis = idea.hypothesis.model_copy(update={"target_class": "small"})
    kernels = FakeKernels()
    times_s = {}
    for found, small_s in ((target.baseline, 1e-4), (idea.candidate, 0.7e-4)):
        kernels.add(found, time_s=2e-3, on={target.workloads[0].label: small_s})
        times_s |= {(found.id, SIZES["small"]): small_s, (found.id, SIZES["large"]): 2e-3}
    times_s[idea.candidate.id, SIZES["small"]] = seen_s
    here = FakeWorld(target, kernels, [idea.model_copy(update={"hypothesis": hypothesis})])
    here.profiler = profiler = SizedProfiler(times_s)
    [round_] = run(here).rounds
    assert (round_.decision.kind == "kept") is kept, round_.decision.rule
    assert ("the profiler doesn't see the gain" in round_.decision.rule) is not kept
    assert round_.aimed_profiles is not None
    assert {p.workload for p in round_.aimed_profiles} == {target.workloads[0].label}
    looks = profiler.asked.count((idea.candidate.id, SIZES["small"]))
    assert looks == (1 if kept else 2)
    assert not verify(here.records)
    forgotten = [
        e.model_copy(update={"aimed_profiles": None}) if e.kind == "round" else e
        for e in here.records
    ]
    assert bool(verify(forgotten)) is not kept


def test_a_profile_that_was_left_out_is_found() -> None:
    here = world(0.5e-3)
    here.profiler = TimingProfiler({here.ideas[0].candidate.id: [1.5e-3]})
    run(here)
    edited = [
        e.model_copy(update={"profile": None}) if e.kind == "round" else e for e in here.records
    ]
    assert any("decision" in finding.what for finding in verify(edited))


@pytest.mark.rule("regressions-told")
def test_the_state_after_every_round_shows_the_regressions_so_far() -> None:
    campaign = run(world(0.5e-3, *SLOWER[:2], target=fake_target(goal=Goal(gbs=100.0))))
    state = render_campaign(campaign).files["state.md"]
    held = campaign.rounds[0]
    assert f"round 2, candidate `{held.candidate.id}`" in state
    assert "REGRESSIONS: 2 of 5" in state
    rows = [line for line in state.splitlines() if line.startswith(("| 3 |", "| 4 |"))]
    assert ["idea 1" in rows[0], "idea 2" in rows[1]] == [True, True]
    assert all(campaign.rounds[at].candidate.id in rows[at - 1] for at in (1, 2))
    assert "GB/s at the baseline, 7.995 GB/s now" in state
    assert "all: slower in 2 of 3 rounds" in state
    kept = run(world(*SLOWER[:2], 0.5e-3))
    assert "REGRESSIONS: 0 of 5" in render_campaign(kept).files["state.md"]


@pytest.mark.rule("stagnation-direction")
def test_a_round_after_a_review_says_whether_it_leaves_its_dead_ends() -> None:
    here = world(*SLOWER[:4])
    kinds = ("tiling", "tiling", "tiling", "layout")
    here.ideas = [
        idea.model_copy(
            update={"hypothesis": idea.hypothesis.model_copy(update={"category": kind})}
        )
        for idea, kind in zip(here.ideas, kinds, strict=True)
    ]
    files = render_campaign(run(here)).files
    said = [files[f"rounds/round-{number}/summary.md"] for number in (3, 4, 5)]
    assert "dead end" not in said[0]
    assert "goes on with tiling, which the review calls a dead end" in said[1]
    assert "turns to layout, away from tiling" in said[2]
    assert "Experience: 4 attempts left" in files["final_report.md"]


@pytest.mark.rule("stagnation-direction")
@pytest.mark.parametrize(("why", "after"), [("", [3, 4]), ("on one stage alone", [3])])
def test_a_model_that_goes_on_with_a_dead_end_is_sent_back_once_a_round_unless_it_says_why(
    why: str, after: list[int]
) -> None:
    here = world(*SLOWER[:5])
    reasons = ("", "", "", "", why)
    here.ideas = [
        idea.model_copy(
            update={
                "proposer": "model:a",
                "hypothesis": idea.hypothesis.model_copy(
                    update={"category": "tiling", "again": again}
                ),
            }
        )
        for idea, again in zip(here.ideas, reasons, strict=True)
    ]
    campaign = run(here)
    assert {one.reason for one in campaign.refusals} == {"dead_end"}
    assert [one.after_round for one in campaign.refusals] == after
    assert verify(here.records) == ()


@pytest.mark.rule("small-gains")
@pytest.mark.parametrize(("band", "kept"), [(0.01, False), (0.002, True)])
def test_a_gain_below_one_percent_counts_where_the_band_says_so_and_it_is_seen_twice(
    band: float, kept: bool
) -> None:
    campaign = run(world(0.992e-3, target=fake_target(keep=KeepPolicy(noise_band=band))))
    [round_] = campaign.rounds
    assert (round_.decision.kind == "kept") is kept
    assert bool(round_.judgement.confirmation) is kept
