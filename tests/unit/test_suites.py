"""Campaigns over a folder of targets: a row each, whatever becomes of one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from brief_targets import make_brief
from typer.testing import CliRunner

from roofsmith.api.suites import TOO_SHORT
from roofsmith.cli.root import cli
from roofsmith.domain.suite import Suite, SuiteRow
from roofsmith.store.campaign_dir import held

SOFTMAX = Path(__file__).parents[2] / "examples" / "softmax"


def copied(place: Path) -> None:
    """The example, on a workload of kilobytes."""
    shutil.copytree(SOFTMAX, place)
    make_brief(place / "target.yaml", workloads=[{"N": 64, "D": 32}])


def row(problem: str, speedup: float | None, repeat: int = 1, **said: object) -> SuiteRow:
    verdict = "failed" if speedup is None else "gained"
    return SuiteRow(
        problem=problem, repeat=repeat, verdict=verdict, speedup=speedup, seconds=1,
        campaign=problem, **said,
    )  # type: ignore[arg-type]  # fmt: skip


def scores(*rows: SuiteRow) -> dict[str, tuple[float | None, tuple[float, float] | None]]:
    suite = Suite(proposer="auto", budget_s=1, repeats=1, problems=len(rows), rows=rows)
    return {one.name.partition(",")[0]: (one.value, one.spread) for one in suite.scores}


def test_what_failed_counts_as_no_gain() -> None:
    assert scores(row("a", 4.0), row("b", None))["speedup"] == (pytest.approx(2), None)


def test_importance_weighs() -> None:
    found = Suite(
        proposer="auto", budget_s=1, repeats=1, problems=2,
        rows=(row("a", 4.0, weight=3), row("b", 1.0, weight=1)),
    ).scores[1]  # fmt: skip
    assert found.value == pytest.approx(4**0.75)


def test_repeats_have_a_spread() -> None:
    value, spread = scores(row("a", 2.0), row("a", 8.0, 2))["speedup"]
    assert value == pytest.approx(4)
    assert spread == pytest.approx((2, 8))


def test_what_nobody_measured_is_unknown() -> None:
    found = scores(row("a", 2.0))
    assert found["over PyTorch"] == (None, None)
    assert found["fast_1 (over PyTorch)"] == (None, None)
    assert scores(row("a", 2.0, over_pytorch=1.2), row("b", 3.0, over_pytorch=0.9))[
        "fast_1 (over PyTorch)"
    ] == (0.5, None)


def test_what_failed_isnt_fast() -> None:
    found = scores(row("a", 2.0, over_pytorch=1.2), row("b", None))
    assert found["fast_1 (over PyTorch)"] == (0.5, None)


def test_a_suite_is_one_processs(tmp_path: Path) -> None:
    copied(tmp_path / "target")
    with held(tmp_path, ".suite.lock"):
        words = ["campaign", "suite", str(tmp_path / "target"), "--output", str(tmp_path)]
        ran = CliRunner().invoke(cli, words)
    assert ran.exit_code == 2
    assert "another process is working in" in ran.stderr
    assert "pytest" in ran.stderr


@pytest.mark.timing
def test_a_budget_that_is_too_short_is_said(tmp_path: Path) -> None:
    copied(tmp_path / "target")
    words = ["campaign", "suite", str(tmp_path / "target"), "--output", str(tmp_path / "suite")]
    ran = CliRunner().invoke(cli, [*words, "--budget-s", "1", "--json"])
    (found,) = json.loads(ran.stdout)["rows"]
    assert found["rounds"] == 0
    assert "too short" in found["reason"]


@pytest.mark.timing
def test_a_repeat_is_no_other_problems_campaign(tmp_path: Path) -> None:
    for name in ("a", "a-2"):
        copied(tmp_path / "targets" / name)
        (tmp_path / "targets" / name / "kernel.c").unlink()
    output = tmp_path / "suite"
    words = ["campaign", "suite", str(tmp_path / "targets"), "--output", str(output), "--json"]
    ran = CliRunner().invoke(cli, [*words, "--proposer", "none", "--repeats", "2"])
    rows = json.loads(ran.stdout)["rows"]
    assert len({one["campaign"] for one in rows}) == len(rows) == 4


@pytest.mark.timing
def test_a_suite_runs_and_goes_on(tmp_path: Path) -> None:
    place, output = tmp_path / "targets", tmp_path / "a suite"
    copied(place / "good")
    copied(place / "broken")
    (place / "broken" / "kernel.c").unlink(missing_ok=True)
    for source in (place / "broken").glob("*.c"):
        source.unlink()
    words = ["campaign", "suite", str(place), "--output", str(output), "--proposer", "none"]
    ran = CliRunner().invoke(cli, [*words, "--budget-s", "40", "--json"])
    rows = {one["problem"]: one for one in json.loads(ran.stdout)["rows"]}
    assert ran.exit_code == 1
    assert rows["broken"]["verdict"] == "failed"
    assert "doesn't exist" in rows["broken"]["reason"]
    assert rows["good"]["verdict"] == "nothing kept"
    ledger = (output / "good" / "ledger.jsonl").read_bytes()
    again = CliRunner().invoke(cli, [*words, "--budget-s", "40", "--json"])
    assert json.loads(again.stdout)["rows"] == json.loads(ran.stdout)["rows"]
    assert (output / "good" / "ledger.jsonl").read_bytes() == ledger
    shown = CliRunner().invoke(cli, ["campaign", "suite", str(output), "--against", str(output)])
    assert "good" in shown.stdout
    other = CliRunner().invoke(cli, [*words, "--budget-s", "50"])
    assert other.exit_code == 2
    assert "can't be compared" in other.stderr


def test_nothing_to_run_is_said(tmp_path: Path) -> None:
    copied(tmp_path / "targets" / "softmax")
    for place, said in (
        (tmp_path, "holds no folder"),
        (tmp_path / "nowhere", "isn't there"),
        (tmp_path / "targets", "softmax"),
    ):
        ran = CliRunner().invoke(cli, ["campaign", "suite", str(place), "--only", "else"])
        assert ran.exit_code == 2
        assert said in ran.stderr


def test_who_takes_a_suite_for_a_campaign_is_told(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text("{}")
    ran = CliRunner().invoke(cli, ["resume", str(tmp_path)])
    assert ran.exit_code == 2
    assert f"roofsmith suite {tmp_path}" in ran.stderr


def test_again_takes_short_budgets_which_may_be_larger_now(tmp_path: Path) -> None:
    """A campaign that can't begin stands for one that ran: what matters is its command and row."""
    place, output = tmp_path / "targets", tmp_path / "suite"
    for name in ("done", "short", "new"):
        (place / name).mkdir(parents=True)
        (place / name / "target.yaml").write_text("kernel: absent.c\n")
    rows = (row("done", 2.0), row("short", 1.0, reason=f"{TOO_SHORT}: 3 s are spent"))
    suite = Suite(proposer="none", budget_s=3, repeats=1, problems=3, rows=rows)
    output.mkdir()
    (output / "suite.json").write_text(suite.model_dump_json())
    words = ["campaign", "suite", str(place), "--output", str(output), "--proposer", "none"]
    refused = CliRunner().invoke(cli, [*words, "--budget-s", "90"])
    assert (refused.exit_code, "--again" in refused.stderr) == (2, True)
    ran = CliRunner().invoke(cli, [*words, "--budget-s", "90", "--again", "--json"])
    found = {one["problem"]: one for one in json.loads(ran.stdout)["rows"]}
    assert [found[name]["verdict"] for name in ("done", "short", "new")] == [
        "gained", "failed", "failed",
    ]  # fmt: skip
    assert [found[name]["budget_s"] for name in ("done", "short", "new")] == [None, 90, None]
    assert [line for line in ran.stderr.splitlines() if "begins" in line] == [
        "new begins, 2 of 3", "short begins, 3 of 3",
    ]  # fmt: skip


def test_what_has_not_run_and_what_had_more_time_is_said(tmp_path: Path) -> None:
    rows = (row("a", 2.0), row("b", 1.5, budget_s=90.0), row("a", 3.0, 2))
    suite = Suite(
        proposer="none", budget_s=3, repeats=2, problems=3, names=("a", "b", "c"), rows=rows
    )
    assert suite.waiting == ("b, repeat 2", "c")
    (tmp_path / "suite.json").write_text(suite.model_dump_json())
    said = CliRunner().invoke(cli, ["campaign", "suite", str(tmp_path)]).stdout.split()
    assert {"c", "90"} <= set(said)


def test_a_command_is_run_where_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets" / "broken").mkdir(parents=True)
    (tmp_path / "targets" / "broken" / "target.yaml").write_text("kernel: absent.c\n")
    notify = tmp_path / "notify.sh"
    notify.write_text("#!/bin/sh\ncat >> told\nexit 3\n")
    notify.chmod(0o755)
    words = ["campaign", "suite", "targets", "--output", "suite", "--on-event", "./notify.sh"]
    ran = CliRunner().invoke(cli, words)
    assert json.loads((tmp_path / "told").read_text())["event"] == "needs_you"
    assert "the command exited with 3" in ran.stderr
