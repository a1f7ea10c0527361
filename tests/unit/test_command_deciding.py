"""What decides on a repository: classes that its times show, and its own profiler's last word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repository_bench import (
    BENCHMARK,
    FASTER,
    PROFILE,
    ROWS,
    TARGET,
    TRACE,
    make_repository,
    needs_git,
    run,
)
from test_command_campaign import begin, here, tell

from kinds import another
from roofsmith.analysis.kernel_times import kernels_have_spoken, overall_gain
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.command import RunPair
from roofsmith.domain.comparison import Comparison, Estimate, Judgement
from roofsmith.domain.target import KeepPolicy
from roofsmith.engine.verify import verify
from roofsmith.store.ledger import JsonlLedger

pytestmark = [needs_git, pytest.mark.slow]
__all__ = ["here"]  # a fixture

LENGTHS = """\
16 1 256 20.0 0
16 1 512 21.0 0
16 1 8192 90.0 0
16 1 16384 95.0 0
1024 1 256 20.0 0
1024 1 16384 90.0 0
"""


def campaign_of(here: Path) -> Campaign:
    events = JsonlLedger(here / "run/ledger.jsonl").events()
    assert not verify(events)
    campaign = replay(events)
    assert campaign is not None
    return campaign


@pytest.mark.rule("declared-classes")
def test_a_further_column_divides_declared_classes(here: Path) -> None:
    bench = BENCHMARK.replace("head_size", "length")
    target = TARGET.replace("[block_size, mtp, head_size]", "[block_size, mtp]\n  rows: [length]")
    make_repository(here / "other", src__pa_rows=LENGTHS, bench_sh=bench, target_yaml=target)
    begin(here, "other")
    campaign = campaign_of(here)
    assert [c.name for c in campaign.started.classes] == [
        "block_size=16, mtp=1", "block_size=1024, mtp=1",
    ]  # fmt: skip
    assert [(c.name, len(c.workloads)) for c in campaign.classes] == [
        ("block_size=16, mtp=1: length <= 512", 2),
        ("block_size=16, mtp=1: length >= 8192", 2),
        ("block_size=1024, mtp=1", 2),  # too few to say that anything is a pattern
    ]
    shorter = LENGTHS.replace("20.0", "15.0").replace("21.0", "16.0")
    aim = campaign.classes[0].name
    code, told = tell(here, shorter, "--class", aim)
    assert (code, told["decision"]) == (0, "kept")


def traced(here: Path, rows: str, kernels_ns: str, *options: str) -> tuple[int, str]:
    """Tell of rows whose kernels take so long by the profiler; exit code and rule."""
    edited = here / "edited" / "src"
    edited.mkdir(parents=True, exist_ok=True)
    (edited / "pa.rows").write_text(rows)
    (edited / "trace.rows").write_text(kernels_ns)
    code, out, err = run(
        "tell", "run", "--kernel", "edited", "--hypothesis", "x", "--json", *options
    )
    assert code in (0, 1), err
    return code, json.loads(out)["rule"]


@pytest.mark.rule("profile-command-decides")
def test_the_total_is_the_profilers(here: Path) -> None:
    make_repository(here / "other", trace_sh=TRACE, target_yaml=TARGET + PROFILE)
    begin(here, "other")
    code, rule = traced(here, FASTER, "175000\n")  # 210 us before: 1.2x, where the script says 1.25
    assert code == 0
    assert "1.200x [1.200, 1.200] by the target's profiler, which counts" in rule
    campaign = campaign_of(here)
    (round_,) = campaign.rounds
    assert round_.judgement.comparison.overall.speedup > 1.23
    assert campaign.total_speedup == pytest.approx(1.2)
    page = (here / "run/performance.md").read_text()
    (held,) = [line for line in page.splitlines() if "| keep" in line]
    assert "| -17% |" in held
    told = " ".join(page.split())
    assert "of a launch" in told
    assert "Delta: of the kernels' time by the target's profiler" in told
    assert "target's profiler" in (here / "run/rounds/round-2/summary.md").read_text()


@pytest.mark.rule("profile-command-decides")
@pytest.mark.parametrize(("percent", "kept"), [another(1, True), (9, False)])
def test_what_a_class_gains_the_profiler_has_to_show(here: Path, percent: int, kept: bool) -> None:
    """A class that gains 2% of the whole: by turns, the profiler sees so much more or less."""
    wavering = TRACE.replace(
        "t=$(awk",
        "n=$(($(cat out/turn 2> /dev/null) + 1)); echo $n > out/turn\n"
        f"        w=0; if grep -q 25.0 src/pa.rows; then w=$(((n % 2 * 2 - 1) * {percent})); fi\n"
        "        t=$(awk -v w=$w",
    ).replace("s * 1000 }", "s * 1000 * (1 + w / 100) }")
    make_repository(here / "other", trace_sh=wavering, target_yaml=TARGET + PROFILE)
    begin(here, "other")
    aim = "block_size=1024, mtp=1, head_size=64"
    rows = (here / "other/src/pa.rows").read_text().replace("30.0", "25.0")
    code, told = tell(here, rows, "--class", aim)
    assert (code == 0) is kept, told["rule"]
    if not kept:
        assert "doesn't confirm it" in told["rule"]
    campaign_of(here)


SLOWER_RUN = BENCHMARK.replace("mkdir", "[ ! -f src/clock.py ] || sleep 0.05\nmkdir", 1)
CLOCK = "import time\n\ntime.perf_counter = lambda: 0.0\n"


@pytest.mark.parametrize("trusts", [another(False), True])
def test_who_touches_the_clock_is_kept_for_gains_that_whole_runs_show(
    here: Path, trusts: bool
) -> None:
    target = TARGET.replace("[src/*.rows]", "[src/*]") + f"  trusts_clock: {str(trusts).lower()}\n"
    make_repository(here / "other", bench_sh=SLOWER_RUN, target_yaml=target)
    begin(here, "other")
    edited = here / "edited" / "src"
    edited.mkdir(parents=True)
    (edited / "pa.rows").write_text(FASTER)
    (edited / "clock.py").write_text(CLOCK)
    code, out, err = run("tell", "run", "--kernel", "edited", "--hypothesis", "x")
    assert code == int(not trusts), out
    for shown in (out, err, *([run("report", "run")[1]] if trusts else [])):
        assert "own clock" in shown
        assert "src/clock.py:3" in shown
    (round_,) = campaign_of(here).rounds
    assert round_.judgement.remarks[0].name == "judge"


POLICY = KeepPolicy()


def pairs(*ratios: float) -> list[RunPair]:
    return [
        RunPair(sweep=n, first="incumbent", incumbent_time_s=ratio, candidate_time_s=1.0)
        for n, ratio in enumerate(ratios)
    ]


def claimed(verdict: str) -> Comparison:
    overall = Estimate(speedup=1.2, ci=(1.1, 1.3), pairs=11, verdict=verdict)  # type: ignore[arg-type]
    return Comparison(overall=overall, classes=(), workloads=())


@pytest.mark.parametrize(
    ("ratios", "whole", "of_class"),
    [
        ((1.1,) * 4, False, False),
        ((1.1,) * 5, True, True),
        ((0.9,) * 5, True, True),
        ((1.004,) * 5, True, True),
        ((0.996,) * 5, True, True),
        ((0.995, 1.005, 1.0, 1.0, 1.0, 1.0, 1.0), True, False),
        ((1.005, 1.02, 1.01, 1.01, 1.01, 1.01, 1.01), False, True),
    ],
)
def test_when_the_profiler_has_spoken(
    ratios: tuple[float, ...], whole: bool, of_class: bool
) -> None:
    assert kernels_have_spoken(pairs(*ratios), claimed("faster"), POLICY) is whole
    assert kernels_have_spoken(pairs(*ratios), claimed("tie"), POLICY) is of_class


def test_before_version_2_totals_were_the_scripts() -> None:
    found = Judgement(
        verdict="faster", comparison=claimed("faster"), kernels=tuple(pairs(*(1.1,) * 7)), wall_s=1
    )
    assert overall_gain(found, rules=1) == 1.2
    assert overall_gain(found, rules=2) == pytest.approx(1.1)
    assert overall_gain(found.model_copy(update={"kernels": ()}), rules=2) == 1.2


def test_who_proposes_is_asked_for_a_dispatch_where_nothing_merges_both(here: Path) -> None:
    begin(here)
    rows = (here / "my repo/src/pa.rows").read_text()
    diverged = rows.replace("40.0", "60.0").replace("30.0", "15.0").replace("80.0", "40.0")
    code, told = tell(here, diverged)
    assert (code, told["diverged"]) == (1, True)
    assert "command.dispatch" in told["unsplit"]
    brief = run("ask", "run", "--format", "md")[1]
    asked = brief.partition("worth a dispatch")[2].partition("\n## ")[0]
    assert "block_size >= 1024" in asked
    assert "+1024 1 128 40.0 0" in asked
    code, told = tell(here, rows.replace("30.0", "15.0").replace("80.0", "40.0"))
    assert (code, told["decision"]) == (0, "kept")
    assert "worth a dispatch" not in run("ask", "run", "--format", "md")[1]


def test_how_much_of_an_idea_its_repair_changes_is_told(here: Path) -> None:
    begin(here)
    _, told = tell(here, FASTER + "broken 1 1 1 0\n")
    assert (told["outcome"], told["reason"]) == ("incorrect", "test_failed")
    code, told = tell(here, FASTER, "--repair")
    assert (code, told["decision"]) == (0, "kept")
    (said,) = told["beside_its_idea"]
    assert "changes 1 line of round 2's files, which changed 4" in said
    assert said in (here / "run/rounds/round-3/summary.md").read_text()
    assert said in run("ask", "run", "--format", "md")[1]


@pytest.mark.rule("small-gains")
@pytest.mark.parametrize(("band", "decision"), [(0.01, "rolled_back"), (0.002, "kept")])
def test_a_small_gain_of_a_repository_counts_where_its_band_is_smaller(
    here: Path, band: float, decision: str
) -> None:
    target = TARGET.replace("error_rate: 0.3", f"error_rate: 0.3, noise_band: {band}")
    make_repository(here / "small", target_yaml=target)
    begin(here, "small")
    rows = (line.split() for line in ROWS.splitlines())
    text = "".join(f"{b} {m} {h} {float(us) * 0.992:.3f} {err}\n" for b, m, h, us, err in rows)
    code, told = tell(here, text)
    assert (code, told["decision"]) == (decision != "kept", decision)
    [round_] = campaign_of(here).rounds
    assert bool(round_.judgement.confirmation) is (decision == "kept")
