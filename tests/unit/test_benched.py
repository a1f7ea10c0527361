"""What `roofsmith bench` and `benchmark.md` say of a time: both kinds of ceiling, and a profile."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from campaign_builder import WORKLOADS, bounds, softmax_campaign, timings
from typer.testing import CliRunner

from roofsmith.analysis.short_kernels import SHORT_S, judged_time_note
from roofsmith.api import Benched, judging
from roofsmith.api.benching import slowest_on_gpu
from roofsmith.api.subjects import target_of
from roofsmith.api.views.benched import CITED
from roofsmith.cli.root import cli
from roofsmith.cli.show import benched
from roofsmith.domain.bound import Bound, CeilingPair
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.kernel import Language
from roofsmith.domain.modes import TimingMode
from roofsmith.domain.options import Subject
from roofsmith.domain.outcome import Passed
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.target import KeepPolicy
from roofsmith.errors import UsageError
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.patience import LONGEST_S
from roofsmith.ports import Measured
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.rates import ceilings_used, has_datasheet, rates, stood_on
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import SilentObserver

PAGE = Citation(path="wiki/some-gpu.yaml", line=12)
TIMES_S = {workload.label: 1e-3 * (n + 1) for n, workload in enumerate(WORKLOADS)}
SEEN = Profile(
    tool="ncu",
    workload=WORKLOADS[-1].label,
    kernel="softmax_rows",
    counters=(
        Counter(name="sm_throughput", value=0.31, unit="fraction", category="speed of light"),
        Counter(name="achieved_occupancy", value=0.47, unit="fraction", category="occupancy"),
        Counter(name="registers_per_thread", value=40, unit="1", category="launch"),
    ),
    notes=("clocks not fixed",),
)


def with_datasheet(bound: Bound, *, leads: bool = False) -> Bound:
    """As if the product's page said twice what was measured; `leads`: the floor stands on it."""
    bandwidth, peak = (
        Fact(metric=f"cited {f.metric}", value=2 * (f.value or 0), unit=f.unit, citation=PAGE)
        for f in (bound.measured.bandwidth, bound.measured.peak)
    )
    cited = {"bandwidth": bandwidth, "peak": peak}
    pair = CeilingPair(**cited)
    return bound.model_copy(update={"datasheet": pair, **(cited if leads else {})})


def found(*, cited: bool = True, profile: Profile | None = None) -> Benched:
    return Benched(
        Measured(outcome=Passed(), timings=timings(TIMES_S), errors=()),
        tuple(with_datasheet(bound) if cited else bound for bound in bounds()),
        profile=profile,
    )


# -- ceilings -------------------------------------------------------------------------------


@pytest.mark.parametrize("leads", [False, True])
def test_both_kinds_of_ceiling_count_whichever_the_floor_stands_on(leads: bool) -> None:
    bound = with_datasheet(bounds()[0], leads=leads)
    reached = rates(bound, 10e-3)
    moved, measured = bound.cost.total_bytes, bound.measured
    assert moved is not None
    assert reached.rate_byte_per_s == pytest.approx(moved / 10e-3)
    assert reached.bandwidth_fraction == pytest.approx(moved / 10e-3 / measured.bandwidth.value)  # type: ignore[operator]
    assert reached.datasheet_bandwidth_fraction == pytest.approx(reached.bandwidth_fraction / 2)  # type: ignore[operator]
    assert reached.datasheet_peak_fraction == pytest.approx(reached.peak_fraction / 2)  # type: ignore[operator]


def test_an_older_record_has_measured_ceilings_alone() -> None:
    old = bounds()[0].model_copy(update={"measured": None})
    assert rates(old, 1e-3).bandwidth_fraction == rates(bounds()[0], 1e-3).bandwidth_fraction
    assert rates(old, 1e-3).datasheet_bandwidth_fraction is None
    assert not has_datasheet([old])


def test_a_ceiling_that_is_not_known_gives_no_share() -> None:
    unknown = Fact(metric="peak", value=None, unit="FLOP/s", reason="no page says so")
    bound = with_datasheet(bounds()[0])
    pair = bound.datasheet.model_copy(update={"peak": unknown})
    bound = bound.model_copy(update={"datasheet": pair})
    assert rates(bound, 1e-3).datasheet_peak_fraction is None
    assert unknown not in ceilings_used([bound])
    assert has_datasheet([bound])


def test_which_ceilings_floor_and_goal_stand_on_where_some_of_the_wanted_kind_are_missing() -> None:
    plain = bounds()[0]
    printed = with_datasheet(plain, leads=True)
    half = printed.model_copy(update={"peak": plain.peak})
    assert stood_on([plain], "measured") == "measured ceilings"
    assert stood_on([printed], "datasheet") == "datasheet ceilings"
    assert stood_on([plain], "datasheet") == "measured ceilings, since there is no datasheet one"
    mixed = "datasheet ceilings and, where there is none, on the measured one"
    assert stood_on([half], "datasheet") == mixed
    assert stood_on([plain, printed], "datasheet") == mixed


def test_pages_say_so_where_there_is_no_datasheet_to_stand_on() -> None:
    started = softmax_campaign().started
    target = started.target.model_copy(update={"ceilings": "datasheet"})
    started = started.model_copy(update={"target": target})
    pages = render_campaign(softmax_campaign().model_copy(update={"started": started})).files
    for name in ("README.md", "benchmark.md"):
        assert "goal stand on measured ceilings, since there is no datasheet one." in pages[name]


def test_benchmark_md_holds_the_kernel_against_both() -> None:
    campaign = softmax_campaign()
    started = campaign.started
    cited = tuple(with_datasheet(bound, leads=True) for bound in started.bounds)
    target = started.target.model_copy(update={"ceilings": "datasheet"})
    update = {"bounds": cited, "target": target}
    text = render_campaign(
        campaign.model_copy(update={"started": started.model_copy(update=update)})
    ).files["benchmark.md"]
    section = text.partition("## Against the ceilings")[2].partition("##")[0]
    assert "| of the measured bandwidth | of the datasheet's |" in section
    assert "| 19.7 GB/s | 85% | 43% | 12.3 GFLOP/s | 6.2% | 3.1% |" in section
    assert "stand on datasheet ceilings" in section
    assert "<- wiki/some-gpu.yaml:12" in section


def test_benchmark_md_gives_times_with_their_intervals() -> None:
    campaign = softmax_campaign()
    assert "| 6.80 ms | [6.79 ms, 6.88 ms] |" in render_campaign(campaign).files["benchmark.md"]
    unfinished = campaign.model_copy(update={"stopped": None})
    row = next(
        line
        for line in render_campaign(unfinished).files["benchmark.md"].splitlines()
        if line.startswith("| N=4096,D=4096 |")
    )
    assert [cell.strip() for cell in row.split("|")][4:7:2] == ["[58.0 ms, 58.8 ms]", "-"]


# -- what is printed ------------------------------------------------------------------------


def test_shares_of_the_datasheet_are_printed_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    benched(found(), as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "<- wiki/some-gpu.yaml:12" in shown
    assert all(name in shown for name in CITED)
    benched(found(cited=False), as_json=False)
    plain = " ".join(capsys.readouterr().out.split())
    assert "of the measured bandwidth" in plain
    assert not any(name in plain for name in CITED)


def test_occupancy_and_speed_of_light_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    benched(found(profile=SEEN), as_json=False)
    shown = capsys.readouterr().out
    assert f"what ncu saw of softmax_rows on {WORKLOADS[-1].label}" in shown
    assert "achieved_occupancy" in shown
    assert "47%" in shown
    assert "31%" in shown
    assert "registers_per_thread" not in shown
    assert "note: clocks not fixed" in shown


def test_without_a_profiler_the_reason_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    blind = Profile(tool="none", workload="N=1", notes=("ncu may not count: ask for it",))
    benched(found(profile=blind), as_json=False)
    shown = capsys.readouterr().out
    assert "nobody saw occupancy or speed of light on N=1" in shown
    assert "note: ncu may not count" in shown


def test_all_of_it_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    benched(found(profile=SEEN), as_json=True)
    document = json.loads(capsys.readouterr().out)
    timing = document["timings"][0]
    assert timing["datasheet_peak_fraction"] == pytest.approx(timing["peak_fraction"] / 2)
    assert document["profile"]["tool"] == "ncu"
    assert {fact["citation"]["path"] for fact in document["ceilings"]} >= {PAGE.path}
    benched(found(), as_json=True)
    assert json.loads(capsys.readouterr().out)["profile"] is None


# -- which workload is looked at ------------------------------------------------------------


@pytest.mark.parametrize(("language", "looks"), [("cuda", True), ("triton", True), ("c", False)])
def test_the_slowest_workload_is_profiled_on_a_gpu(language: Language, looks: bool) -> None:
    target = fake_target(workloads=WORKLOADS).model_copy(update={"language": language})
    seen = slowest_on_gpu(target, found().measured)
    slowest = target.workload(max(TIMES_S, key=TIMES_S.__getitem__))
    assert seen == (slowest if looks else None)


@pytest.mark.parametrize(
    ("sweeps", "times_s", "spent_s", "over"),
    [
        (4, [1.0] * 4, 0.1, False),
        (5, [1.0, 1.01, 1.02, 1.03, 1.04], 0.1, True),
        (8, [1.0, 1.01, 1.02, 1.03, 1.2], 0.1, False),
        (9, [1.0, 1.01, 1.02, 1.03, 1.2], 0.1, True),
        (9, [], 0.1, False),
        (900, [], 11.9, False),
        (900, [], 12.1, True),
        (3, [1.0] * 3, LONGEST_S + 1, True),
    ],
)
def test_it_goes_on_until_samples_agree_or_there_are_enough_of_every_workload(
    sweeps: int, times_s: list[float], spent_s: float, over: bool
) -> None:
    target = fake_target(keep=KeepPolicy(judge_budget_s=6.0, error_rate=0.005))
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    judge = ProcessJudge(target, cast(Any, bench), (), ())
    assert judge._rules().alone_until(SilentObserver())(sweeps, [times_s, times_s], spent_s) is over


CUDA = 'extern "C" void solve(const float *x, float *y, int n) {}\n'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(CUDA)
    (tmp_path / "r.py").write_text("def reference(x, y, n): y.copy_(x)\n")
    return tmp_path


def subject(here: Path, timing: TimingMode | None) -> Subject:
    return Subject(here / "k.cu", here / "r.py", ("n=8",), timing=timing)


@pytest.mark.parametrize(
    ("timing", "says", "other"),
    [
        ("kernel", "the device's time alone", "--timing launch"),
        ("launch", "as the host launches them, launch overhead included", "--timing kernel"),
    ],
)
def test_a_short_kernel_has_a_note(timing: TimingMode, says: str, other: str) -> None:
    note = judged_time_note([("n=8", 5e-6), ("n=9", 1.0)], timing)
    assert note.startswith("on n=8 it takes less than 20 us: judged")
    assert says in note
    assert other in note


def test_the_shortest_is_named_and_the_others_counted() -> None:
    times_s = [("n=3", 7e-6), ("n=1", 5e-6), ("n=2", 6e-6)]
    assert (judged_time_note(times_s, "kernel") or "").startswith("on n=1 and on 2 more workloads")
    assert (judged_time_note(times_s[:2], "kernel") or "").startswith("on n=1 and on another")


def test_a_longer_one_has_none() -> None:
    assert judged_time_note([("n=8", SHORT_S)], "kernel") is None
    assert judged_time_note([], "launch") is None


def test_it_can_be_chosen_for_a_kernel_file(here: Path) -> None:
    assert target_of(subject(here, None)).timing == "kernel"
    assert target_of(subject(here, "launch")).timing == "launch"


def test_a_target_says_itself_what_counts(here: Path) -> None:
    (here / "target.yaml").write_text("kernel: k.cu\nreference: r.py\nworkloads: [n=8]\n")
    with pytest.raises(UsageError, match="--timing goes with a kernel"):
        target_of(Subject(here / "target.yaml", timing="launch"))


@pytest.mark.parametrize("command", ["judge", "bench"])
def test_the_commands_take_it(here: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    seen: list[Subject] = []

    def stop(*arguments: object, **_: object) -> None:
        seen.extend(given for given in arguments if isinstance(given, Subject))
        raise UsageError("enough")

    monkeypatch.setattr(f"roofsmith.api.{command}", stop)
    words = [command, str(here / "k.cu"), "--ref", str(here / "r.py"), "-w", "n=8"]
    against = ["--against", str(here / "k.cu")] if command == "judge" else []
    done = CliRunner().invoke(cli, [*words, *against, "--timing", "launch"])
    assert done.exit_code == 2
    assert [given.timing for given in seen] == ["launch"]


def judged(time_s: float, language: Language) -> tuple[str, ...]:
    target = SimpleNamespace(language=language, timing="kernel")
    one = SimpleNamespace(workload="n=8", candidate_time_s=time_s)
    found: Any = SimpleNamespace(comparison=SimpleNamespace(workloads=(one,)))
    return judging._short(found, target)


def test_a_judgement_says_so_on_a_gpu() -> None:
    assert "--timing launch" in judged(5e-6, "cuda")[0]
    assert judged(5e-6, "c") == ()
    assert judged(5e-5, "cuda") == ()
    target: Any = SimpleNamespace(language="cuda")
    nothing = Judgement(outcome={"kind": "passed"}, verdict="unverified", wall_s=0.0)  # type: ignore[arg-type]
    assert judging._short(nothing, target) == ()


def short_campaign(*, gpu: bool) -> Campaign:
    """The softmax campaign at the end of which every workload takes 5 us."""
    campaign = softmax_campaign()
    started, stopped = campaign.started, campaign.stopped
    kind = {"kind": "nvidia"} if gpu else {}
    device = started.environment.device.model_copy(update=kind)
    environment = started.environment.model_copy(update={"device": device})
    timings = tuple(t.model_copy(update={"time_s": 5e-6}) for t in stopped.final_timings)
    return campaign.model_copy(
        update={
            "started": started.model_copy(update={"environment": environment}),
            "stopped": stopped.model_copy(update={"final_timings": timings}),
        }
    )


def test_benchmark_md_says_so_on_a_gpu() -> None:
    text = render_campaign(short_campaign(gpu=True)).files["benchmark.md"]
    assert "Note: on N=" in text
    assert "`timing: launch`" in text
    assert "Note: on" not in render_campaign(short_campaign(gpu=False)).files["benchmark.md"]
