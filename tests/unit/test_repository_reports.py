"""What is rendered of a campaign on a repository: who measured, and what was agreed before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from repository_bench import (
    FASTER,
    KERNEL,
    PROFILE,
    ROWS,
    TARGET,
    TRACE,
    git,
    make_repository,
    needs_git,
    run,
)
from test_command_campaign import begin, here, tell

from roofsmith.domain.campaign import replay
from roofsmith.domain.command import EditableShare
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.ledger import JsonlLedger

pytestmark = [needs_git, pytest.mark.slow]

__all__ = ["here"]  # a fixture


@pytest.mark.rule("self-reported")
def test_reports_say_who_measured(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is rendered, but for the kernels themselves and what doctor found."""
    monkeypatch.setenv("ROOFSMITH_EXPERIENCE", str(here / "experience.db"))
    begin(here)
    assert tell(here, FASTER)[1]["decision"] == "kept"
    assert tell(here, ROWS)[1]["verdict"] == "slower"
    run("ask", "run")
    assert tell(here, FASTER + "broken 1 1 1 0\n")[1]["outcome"] == "incorrect"
    assert run("resume", "run", "--proposer", "none")[0] == 0
    campaign = replay(JsonlLedger(here / "run/ledger.jsonl").events())
    assert campaign is not None
    files = render_campaign(campaign).files
    sources = {"env_check.md", "final.diff", "quick_test_bench.py"}
    unmeasured = {n for n in files if "/kernel_snapshot/" in n or n in sources}
    assert {"rounds/round-3/diagnosis-1.md", "performance.md", "plans/v1_plan.md"} < files.keys()
    for name in files.keys() - unmeasured:
        said = '"self_reported": true' if name.endswith(".json") else "self-reported"
        said = "self_reported: true" if name == "manifest.yaml" else said
        assert said in files[name].replace("Self-reported", "self-reported"), name
        assert (here / "run" / name).read_text() == files[name], name
    assert (
        "| time, self-reported | profiler's time | delta, self-reported |"
        in (files["performance.md"])
    )
    assert (
        "| ratio, self-reported | time, self-reported | total, self-reported |"
        in (files["logs/performance_trend.md"])
    )
    log = files["logs/optimize.md"]
    assert "- measured, self-reported: 1.24x" in log
    for line in log.splitlines():  # of rounds and ends
        if "over the baseline" in line or line.startswith("- block_size="):
            assert line.endswith(", self-reported"), line
    row = "| block_size=16,mtp=1,head_size=64 | us_flydsl_ps | 40 | 30 |"
    assert row in files["rounds/round-2/summary.md"]
    message = git(here / "my repo", "log", "-1", "--format=%B", "optimize/run")
    assert "Total: self-reported, 1.241x over the baseline" in message
    tips = json.loads(run("tips", "list", "--json")[1])["tips"]
    assert len(tips) == 2  # what paid, and what cost
    assert all("self-reported" in tip["signal"] for tip in tips)
    kept = json.loads(run("experience", "list", "--json")[1])["experiments"]
    assert [row["status"] for row in kept] == ["baseline", "kept", "rolled_back", "incorrect"]
    assert "self-reported" in kept[1]["change_summary"]
    for command in (("report",), ("memory", "summary"), ("memory", "list")):
        assert "self-reported" in run(*command, "run")[1]
        document = json.loads(run(*command, "run", "--json")[1])
        assert all(row["self_reported"] is True for row in document.get("notes", [document]))


@pytest.mark.rule("manifest-before-round-1")
def test_the_manifest_holds_what_was_agreed_before_round_1(tmp_path: Path, here: Path) -> None:
    other = make_repository(tmp_path / "other", trace_sh=TRACE, target_yaml=TARGET + PROFILE)
    begin(here, "other")
    campaign = replay(JsonlLedger(here / "run/ledger.jsonl").events()[:1])
    assert campaign is not None
    found = yaml.safe_load(render_campaign(campaign).files["manifest.yaml"])
    expected = {
        "target_op": "pa", "target_lang": "COMMAND", "target_gpu": None,
        "execution_mode": "repo", "self_reported": True,
        "performance_target": "90% of the roofline",
        "primary_metric": "mean kernel time by profile_command, after us_flydsl_ps (us), lower is"
        " better; geometric mean over rows",
        "kernel_source": KERNEL, "editable": ["src/*.rows"],
        "repository": str(other), "repository_commit": git(other, "rev-parse", "HEAD").strip(),
        "workspace": [], "extracted_files": [], "carry": [], "volatile": [],
        "build_command": "sh build.sh", "test_command": "sh test.sh",
        "benchmark_command": "sh bench.sh", "quick_command": "python3 quick_test_bench.py",
        "profile_command": "sh trace.sh", "results": "out/*.csv", "gate": "err_flydsl_ps == 0",
        "metric": "us_flydsl_ps", "direction": "lower", "unit": "us",
        "row_columns": ["block_size", "mtp", "head_size"],
        "class_columns": ["block_size", "mtp", "head_size"],
        "representative_shapes": None, "git_commit": None, "git_branch": "optimize/run",
        "max_iterations": 20, "max_tokens": None, "budget_s": None, "max_repairs": 3,
        "editable_share": None, "editable_share_unknown": "of .rows files nobody can tell",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert len(found["target_shapes"]) == 4
    assert len(found["frozen_sha256"]) == 64
    finished = yaml.safe_load((here / "run/manifest.yaml").read_text())
    assert finished["representative_shapes"] == "all"
    assert finished["git_commit"] is True
    readme = (here / "run/README.md").read_text()
    assert "- execution mode: repo, always in the whole repository" in readme
    assert "- profiler, which has the last word: sh trace.sh" in readme


def test_a_repository_of_several_files_goes_by_its_name_and_a_row_by_what_changed(
    tmp_path: Path, here: Path
) -> None:
    make_repository(tmp_path / "other", src__also_rows="never read\n")
    begin(here, "other")
    assert tell(here, FASTER)[1]["decision"] == "kept"
    assert "\npa on " in (here / "run/README.md").read_text()
    table = (here / "run/performance.md").read_text()
    assert table.count("| global | src/also.rows |") == 1  # the baseline
    assert table.count("| global | src/pa.rows |") == 1


def test_how_much_may_be_edited_is_said_wherever_a_gain_is(here: Path) -> None:
    begin(here)
    run("ask", "run")
    (brief,) = (here / "run/asks").glob("*/brief.md")
    assert "What can be gained: how much of the benchmark" in brief.read_text()
    campaign = replay(JsonlLedger(here / "run/ledger.jsonl").events())
    assert campaign is not None
    known = EditableShare(samples=100, editable=20)
    assert campaign.started.editable != known
    started = campaign.started.model_copy(update={"editable": known})
    campaign = campaign.model_copy(update={"started": started})
    files = render_campaign(campaign).files
    for name in ("README.md", "performance.md", "final_report.md", "report.html"):
        assert "no change gains more than 1.25x" in files[name], name
    found = yaml.safe_load(files["manifest.yaml"])
    assert (found["editable_share"], found["editable_share_bound"]) == (0.2, 1.25)
    older = campaign.model_copy(update={"started": started.model_copy(update={"editable": None})})
    assert "editable_share" not in render_campaign(older).files["manifest.yaml"]
