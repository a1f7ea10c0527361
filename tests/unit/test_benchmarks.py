"""The benchmarks: their command lines, their result files, and figures that follow from samples."""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest
from campaign_builder import events_for
from hypothesis import given
from hypothesis import strategies as st
from repository_bench import without_ceilings

from kinds import another
from roofsmith.analysis import statistics
from roofsmith.analysis.compare import estimate
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.errors import UsageError
from roofsmith.judge import patience
from roofsmith.judge.version import judge_version
from roofsmith.machine.cpu import CpuSource
from roofsmith.selftest import record
from roofsmith.selftest.page import page
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))
SCRIPTS = (
    "judge_rates", "gpu_judge_rates", "campaigns", "sgemm_openblas", "simulated_campaigns",
    "workload_veto", "gain_power", "device_opening", "clock_scatter", "session_overhead",
    "proposers", "gpu", "search", "search_record", "pace", "busy",
)  # fmt: skip

sys.path.insert(0, str(BENCHMARKS))  # scripts import their neighbours, as when they are run

import busy  # noqa: E402
import campaigns  # noqa: E402
import clock_scatter  # noqa: E402
import device_opening  # noqa: E402
import experience  # noqa: E402
import gain_power  # noqa: E402
import gpu  # noqa: E402
import gpu_judge_rates  # noqa: E402
import gpu_lineup  # noqa: E402
import judge_rates  # noqa: E402
import pace  # noqa: E402
import problem_sets_record  # noqa: E402
import proposers  # noqa: E402
import readers  # noqa: E402
import result_file  # noqa: E402
import schedule_families  # noqa: E402
import search  # noqa: E402
import session_overhead  # noqa: E402
import sgemm_openblas  # noqa: E402
import simulated_bench  # noqa: E402
import simulated_campaigns  # noqa: E402
import unseen_record  # noqa: E402
import workload_veto  # noqa: E402
from naive_harness import NaivePair  # noqa: E402
from rate_kernels import KERNELS  # noqa: E402

SCHEMAS = {
    "judge_rates": judge_rates.JudgeRates,
    "gpu-": gpu.GpuBenchmark,
    "gpu_judge_rates": gpu_judge_rates.GpuJudgeRates,
    "campaigns": campaigns.Campaigns,
    "sgemm_openblas": sgemm_openblas.SgemmOpenblas,
    "gain_power": gain_power.GainPower,
    "retries": gain_power.GainPower,
    "device_opening": device_opening.DeviceOpening,
    "clock_scatter": clock_scatter.ClockScatter,
    "session_overhead": session_overhead.SessionOverhead,
    "selftest": record.SelftestRecord,
    "pace": pace.Pace,
    "busy": busy.Busy,
    "proposers": proposers.Proposers,
    "readers": readers.Readers,
    "experience": experience.ExperienceRecord,
    "search-": search.SearchFigure,
    "simulated_campaigns": simulated_campaigns.SimulatedCampaigns,
    "unseen-": unseen_record.Unseen,
    "problem-sets": problem_sets_record.ProblemSets,
    "schedule-families": schedule_families.ScheduleFamilies,
    "workload_veto": workload_veto.WorkloadVeto,
}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / f"{script}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def schema_of(path: Path):
    return next(schema for name, schema in SCHEMAS.items() if path.name.startswith(name))


def run_here(monkeypatch, script, *arguments):
    """The same without a process of its own, which takes seconds to import what it needs."""
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
    runpy.run_path(str(BENCHMARKS / f"{script}.py"), run_name="__main__")


@pytest.mark.parametrize("script", [SCRIPTS[0], *map(another, SCRIPTS[1:])])
def test_refuses_to_run_without_a_place_for_the_result(script, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run_here(monkeypatch, script)
    assert ended.value.code == 2
    assert "--out" in capsys.readouterr().err


def before_large_effects(monkeypatch):
    """Intervals of judges that staked nothing on large effects: these records are theirs."""

    def uniform(n, s):
        return sum(math.comb(n + 1, k) for k in range(s + 1)) / ((n + 1) * math.comb(n, s))

    monkeypatch.setattr(statistics, "wealth", uniform)
    monkeypatch.setattr(statistics, "critical_count", statistics.critical_count.__wrapped__)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_committed_figures_follow_from_their_samples(path, monkeypatch):
    result = schema_of(path).model_validate_json(path.read_text(encoding="utf-8"))
    match result:
        case judge_rates.JudgeRates():
            assert judge_rates.summarize(result.trials) == result.summary
            if result.made.started < "2026-11-27":
                before_large_effects(monkeypatch)
            for trial in result.trials:
                assert trial.first_verdict == judge_rates.verdict_of(trial.first_ns, result.policy)
            for found in result.calibrations:
                again = estimate(result_file.log_ratios(found.pairs_ns), result.policy)
                assert (again.speedup, again.ci) == (found.speedup, found.ci)
        case gpu_judge_rates.GpuJudgeRates():
            assert gpu_judge_rates.summarize(result.trials) == result.groups
            before_large_effects(monkeypatch)
            for trial in result.trials:
                assert len(trial.instances) == len(trial.first_ns)
                if not trial.confirmation_ns:  # else the figures are those of that one
                    ratios = result_file.log_ratios(trial.first_ns)
                    again = estimate(ratios, result.policy, trial.instances)
                    assert again.speedup == pytest.approx(trial.speedup, rel=1e-4)
                    assert again.ci == pytest.approx(trial.ci, rel=1e-3)
        case sgemm_openblas.SgemmOpenblas():
            before_large_effects(monkeypatch)
            for row in result.sizes:
                again = sgemm_openblas.size_row(
                    row.size, row.pairs_ns, row.void, row.worst_error, row.calls
                )
                assert again == row
        case gpu.GpuBenchmark():
            for one in (c for case in result.cases for t in case.timed for c in t.contenders):
                assert one.median_us == (median(one.times_us) if one.times_us else None)
        case readers.Readers():
            again = readers.summarize(result.made, result.target, list(result.rounds))
            for name, found in again.ratios.items():
                assert found == pytest.approx(result.ratios[name])
        case search.SearchFigure():
            tables = {table.space: table for table in result.tables}
            for one in result.replays:
                assert max(one.looks) <= len(tables[one.space].rows)
                if one.search == "random":
                    again = [
                        search.looks_of("random", tables[one.space], n) for n in range(search.SEEDS)
                    ]
                    assert list(one.looks) == again
        case unseen_record.Unseen():
            assert unseen_record.means(result.kernels) == result.means
            for row in result.kernels:
                for one in row.workloads:
                    assert one.library == (row.library and row.library.best(one.workload))
        case campaigns.Campaigns():
            assert all(row.rounds for row in result.campaigns)
        case simulated_campaigns.SimulatedCampaigns():
            assert simulated_campaigns.summarize(result.campaigns) == result.summary
            drawn = (ROOT / "docs" / "simulated_campaigns.svg").read_text(encoding="utf-8")
            assert drawn == simulated_campaigns.plot(result)
        case workload_veto.WorkloadVeto():
            shown = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
            assert workload_veto.table(result) in shown
        case gain_power.GainPower():
            shown = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
            table = gain_power.table if result.cases else gain_power.retries_table
            assert table(result) in shown
        case device_opening.DeviceOpening():
            for one in result.openings:
                assert len(one.opened_s) == len(one.initialised_s) == one.processes
            assert device_opening.table(result).count("\n") == 3
        case clock_scatter.ClockScatter():
            assert {one.way for one in result.judgements} == set(clock_scatter.WAYS)
            assert clock_scatter.table(result).count("\n") + 1 == len(result.judgements)
            shown = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
            for one in result.judgements:
                assert f"{clock_scatter.scatter(one.pairs_ns)[1]:.1%}" in shown
        case busy.Busy():
            assert busy.summarize(result.trials) == result.cells
        case pace.Pace():
            assert pace.figures(result.samples) == result.figures
        case session_overhead.SessionOverhead():
            again = session_overhead.medians(result.tells, "overhead_s")
            assert result.median_overhead_s == again
        case proposers.Proposers():
            assert proposers.figures(result.samples) == result.figures
        case experience.ExperienceRecord():
            sums = experience.summarize(result.cases)
            assert sums == result.summary
            shown = (ROOT / "docs" / "experience.md").read_text(encoding="utf-8")
            assert f" {sums.rounds_without} | {sums.rounds_with} | {sums.least_rounds} |" in shown
        case record.SelftestRecord():
            assert (ROOT / "docs" / "selftest.md").read_text(encoding="utf-8") == page(result)


@pytest.mark.whole
@pytest.mark.slow
def test_an_identical_pair_is_judged_and_recorded(tmp_path, monkeypatch):
    without_ceilings(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(patience, "LONGEST_S", 3.0)  # whatever the verdicts are
    out = tmp_path / "rates.json"
    run_here(
        monkeypatch,
        "judge_rates", "--pairs", "1", "--gain", "0.03", "--gain-trials", "1",
        "--calibration-pairs", "1", "--budget-s", "0.1", "--out", str(out),
    )  # fmt: skip
    result = judge_rates.JudgeRates.model_validate_json(out.read_text(encoding="utf-8"))
    assert sorted(trial.kind for trial in result.trials) == ["gain", "identical"]
    assert {trial.outcome for trial in result.trials} == {"passed"}
    assert judge_rates.summarize(result.trials) == result.summary
    assert [c.extra_rows for c in result.calibrations] == [57]
    assert result.made.environment.device.kind == "cpu"


@pytest.mark.whole
@pytest.mark.slow
def test_a_product_is_checked_and_compared(tmp_path):
    out = tmp_path / "sgemm.json"
    kernel = str(ROOT / "examples/sgemm/kernel.c")
    done = run("sgemm_openblas", kernel, "--sizes", "48", "--threads", "1", "--turns", "3",
               "--out", str(out))  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = sgemm_openblas.SgemmOpenblas.model_validate_json(out.read_text(encoding="utf-8"))
    assert [row.size for row in result.sizes] == [48]
    assert len(result.sizes[0].pairs_ns) + result.sizes[0].void == 3
    assert 0 < result.sizes[0].worst_error < sgemm_openblas.MAX_ERROR


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_versions_of_a_kernel_differ_in_one_number(kernel):
    fast, slow = kernel.source(0, "note").text, kernel.source(kernel.extra_rows(0.03), "note").text
    differing = [
        (a, b) for a, b in zip(fast.splitlines(), slow.splitlines(), strict=True) if a != b
    ]
    extra = kernel.rows * 3 // 100
    assert differing == [("int extra_rows = 0;", f"int extra_rows = {extra};")]


def test_plain_loops_see_what_their_calls_say():
    steady, lucky = (100,) * 37, (90,) * 7 + (100,) * 30
    pair = NaivePair(incumbent_ns=steady, candidate_ns=lucky)
    assert pair.mean_of_7
    assert not pair.median_of_30


@given(happened=st.lists(st.booleans(), max_size=300))
def test_the_interval_of_a_rate_holds_the_rate(happened):
    found = result_file.rate(happened)
    low, high = found.wilson
    assert 0.0 <= low <= high <= 1.0
    if found.share is not None:
        assert low <= found.share <= high


def test_wilson_interval_of_a_published_example():
    """Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263."""
    found = result_file.rate([True] * 81 + [False] * 182)
    assert found.wilson == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_void_pairs_do_not_count():
    def sample(void: str | None) -> PairSample:
        return PairSample(
            workload="N=1", sweep=0, instance=0, first="incumbent",
            incumbent_time_s=(3e-3, 1e-3, 2e-3), candidate_time_s=(1e-3,), void=void,
        )  # fmt: skip

    assert result_file.pair_times([sample("disturbed"), sample(None)]) == ((2e6, 1e6),)


def test_records_get_a_line_each_and_are_read_back(tmp_path):
    result = sgemm_openblas.SgemmOpenblas(
        made=result_file.made_now(), kernel="", build_flags=(), threads=1, blas="none",
        sizes=tuple(sgemm_openblas.size_row(n, [(2.0, 1.0)], 0, 0.0, 1) for n in (8, 16)),
    )  # fmt: skip
    path = tmp_path / "new folder" / "result.json"
    result_file.write(result, path)
    text = path.read_text(encoding="utf-8")
    assert sum(line.startswith('{"size"') for line in text.splitlines()) == 2
    assert type(result).model_validate(json.loads(text)) == result
    assert [row.ratio for row in result.sizes] == [pytest.approx(2.0)] * 2
    assert result.sizes[0].kernel_gflop_per_s == 2 * 8**3


def test_chains_of_known_changes_add_up():
    noise = json.loads((BENCHMARKS / "results" / "judge_rates_1_thread.json").read_text())
    trials = simulated_bench.trials_of(noise)
    made = [simulated_campaigns.campaign(seed, trials, rounds=6) for seed in range(1, 9)]
    changes = [change for campaign in made for change in campaign.changes]
    assert any(change.kept for change in changes)
    assert not any(change.kept for change in changes if change.true <= 1)
    for campaign in made:
        assert campaign.claimed_total == pytest.approx(campaign.true_total, rel=0.02)


def test_trials_of_another_judge_are_not_gone_on_with(tmp_path, capsys):
    assert re.fullmatch("[0-9a-f]{12}", judge_version())
    path = BENCHMARKS / "results" / "gpu_judge_rates.json"
    known = gpu_judge_rates.GpuJudgeRates.model_validate_json(path.read_text()).trials[0]
    trial, ours = (
        known.model_copy(update={"judge": judge}) for judge in ("0" * 12, judge_version())
    )
    result = gpu_judge_rates.GpuJudgeRates(
        made=result_file.made_now(), policy=KeepPolicy(), groups=(), trials=(trial, ours)
    )
    out = tmp_path / "rates.json"
    result_file.write(result, out)
    assert gpu_judge_rates.earlier(out) == ([ours], [])
    assert "1 trials of other versions" in capsys.readouterr().err
    assert gpu_judge_rates.earlier(tmp_path / "none.json") == ([], [])
    assert gpu_judge_rates.elsewhere(out, result.made) == ([ours], [])
    with pytest.raises(UsageError, match="isn't there"):
        gpu_judge_rates.elsewhere(tmp_path / "none.json", result.made)
    device = result.made.environment.device.model_copy(update={"name": "another"})
    environment = result.made.environment.model_copy(update={"device": device})
    other = result.made.model_copy(update={"environment": environment})
    with pytest.raises(UsageError, match="not of another"):
        gpu_judge_rates.elsewhere(out, other)


def test_what_somebody_waits_for_is_a_table_beside_the_version_before(monkeypatch):
    samples = tuple(
        pace.Sample(row="rounds", version=version, repeat=n, values={"wrong": n + more, "kept": 9})
        for version, more in (("present", 1), ("before", 4))
        for n in range(3)
    )
    found = pace.Pace(
        made=result_file.made_now(), judge=judge_version(), kernel="softmax",
        samples=samples, figures=pace.figures(samples),
    )  # fmt: skip
    assert pace.table(found) == [
        "| softmax | before | present |",
        "|---|---|---|",
        "| rounds: wrong | 5 | 2 |",
        "| rounds: kept | 9 | 9 |",
    ]
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import measured

    records = {**measured.load(), "pace": found.model_dump(mode="json")}
    assert "wrong 2 s, kept 9 s" in measured.summary(records)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (8, 2.306), (29, 2.045)]
)
def test_student_quantiles_of_the_tables(freedom, expected):
    assert result_file.student_quantile(freedom) == pytest.approx(expected, abs=5e-4)


def test_gpu_cases_name_what_is_there_and_finished_ones_are_kept(tmp_path, monkeypatch):
    for name, case in gpu.CASES.items():
        found = gpu.CaseResult(case=name, floor=case.floor)
        for one in gpu.lineups(load_target(ROOT / case.target), case, found, tmp_path):
            assert one.reference.exists()
            assert one.kernels["naive"].exists()
    timed = gpu_lineup.Timed(
        dims={"N": 1}, bytes=2_000_000, flops=4_000_000, copy_bytes_per_s=1e12,
        flops_per_s={"bfloat16": 1e12}, contenders=(gpu_lineup.Contender(name="naive"),),
    )  # fmt: skip
    assert (timed.floor_us(None), timed.floor_us("bfloat16")) == pytest.approx((2.0, 4.0))
    monkeypatch.setattr(gpu, "source_for", lambda language: CpuSource())
    out = tmp_path / "gpu-x.json"
    done = gpu.earlier(out).with_case(found).with_case(found.model_copy(update={"timed": (timed,)}))
    result_file.write(done, out)
    monkeypatch.setattr(gpu, "optimized", lambda *arguments: pytest.fail("it is done already"))
    arguments = SimpleNamespace(case=[found.case], budget=9, out=out, limit_s=None, keep=tmp_path)
    assert gpu.run(arguments) == done


def test_proposers_take_turns_and_are_compared(tmp_path, monkeypatch):
    asked = []

    def campaign(arguments, environment):
        if arguments[0] == "specs":
            return
        who, place = arguments[arguments.index("--proposer") + 1], Path(arguments[-1])
        target = Path(arguments[1])
        text = (target / "target.yaml" if target.is_dir() else target).read_text()
        asked.append((text, who))
        place.mkdir()
        kinds = ["kept", "kept"] if who == "sweep" else ["kept", "tie"]
        ledger = JsonlLedger(place / "ledger.jsonl")
        for event in events_for(kinds, stop="out_of_ideas"):
            ledger.append(event)

    monkeypatch.setattr(proposers, "run_command", campaign)
    out, targets = tmp_path / "result.json", [tmp_path / "x", tmp_path / "y" / "target.yaml"]
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "target.yaml").write_text(folder)
    words = ["--a", "auto", "--b", "sweep", "--targets", *map(str, targets), "--repeats", "2"]
    result = proposers.run(proposers.parser().parse_args([*words, "--out", str(out)]))
    assert asked == [
        ("x", "auto"), ("x", "sweep"), ("y", "sweep"), ("y", "auto"),
        ("x", "sweep"), ("x", "auto"), ("y", "auto"), ("y", "sweep"),
    ]  # fmt: skip
    assert proposers.Proposers.model_validate_json(out.read_text()) == result
    found = {(one.quantity, one.target): one for one in result.figures}
    speedup = found["speedup", "all"]
    assert (speedup.pairs, found["speedup", words[5]].pairs) == (4, 2)
    assert speedup.a < speedup.b
    assert 1 < speedup.ci[0] <= speedup.estimate <= speedup.ci[1]
    assert found["rounds", words[6]].estimate == 0
    half = proposers.figures(result.samples[:3])
    assert all(one.ci is None and one.pairs == 1 for one in half)
    assert "out_of_ideas" in {sample.stopped for sample in result.samples}
    assert proposers.table(result).count("\n") == 2 + len(result.figures)


def test_a_gain_is_found_where_there_is_one():
    noise = json.loads((BENCHMARKS / "results" / "judge_rates_1_thread.json").read_text())
    trials = simulated_bench.trials_of(noise)
    none, some = (gain_power.case(trials, 1, g, patience.LEANING_PATIENCE, 20) for g in (0.0, 0.05))
    assert none.faster.count == 0
    assert some.faster.count >= 19
    assert some.most_pairs <= 2 * 110


@pytest.mark.parametrize("scale", [1, 3])
def test_noise_alone_makes_no_workload_veto(scale):
    noise = json.loads((BENCHMARKS / "results" / "judge_rates_1_thread.json").read_text())
    trials = simulated_bench.trials_of(noise)
    spared = workload_veto.case(trials, scale, 1.0, times=60)
    loser = workload_veto.case(trials, scale, 0.93, times=60)
    assert spared.rule.count <= 1
    assert loser.rule.count >= 59
