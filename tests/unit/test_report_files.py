"""The files of a campaign directory: which there are, what they promise, what never changes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from campaign_builder import (
    RoundKind,
    campaign_of,
    crippled,
    events_for,
    fact_sheet,
    resumed,
    softmax_campaign,
    softmax_events,
    started,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.ending import StopCode
from roofsmith.report.campaign_files import render_campaign

GOLDEN = Path(__file__).parent.parent / "golden" / "report_softmax"
GOLDEN_FILES = (
    "manifest.yaml",
    "README.md",
    "benchmark.md",
    "final_report.md",
    "performance.md",
    "logs/optimize.md",
    "logs/performance_trend.md",
    "memory/v0.json",
    "memory/v4.json",
    "plans/v6_plan.md",
    "baseline_report.md",
    "rounds/round-1/hypothesis.txt",
    "rounds/round-2/profile_summary.md",
    "rounds/round-2/profile_details.md",
    "rounds/round-5/summary.md",
    "rounds/round-5/correctness.md",
    "rounds/round-7/summary.md",
    "rounds/round-7/hypothesis.txt",
    "rounds/round-7/correctness.md",
)
LOGS = ("logs/optimize.md", "logs/performance_trend.md")
kinds = st.sampled_from(RoundKind.__args__)
stops = st.none() | st.sampled_from(StopCode.__args__)


def masked_ids(text: str) -> str:
    """Content hashes change with every field that a noun gains; what is rendered doesn't."""
    return re.sub(r"\b[0-9a-f]{16}\b", "<id>", text)


@pytest.mark.rule("performance-columns", "utc")
@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_golden(name: str) -> None:
    """Run with ROOFSMITH_UPDATE_GOLDEN=1 to accept what is rendered now, and read the diff."""
    text = masked_ids(render_campaign(softmax_campaign()).files[name])
    path = GOLDEN / name
    if os.environ.get("ROOFSMITH_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.rule("notes", "round-folder", "layout")
def test_every_round_has_its_folder_memory_and_plan() -> None:
    files = render_campaign(softmax_campaign()).files
    texts = (
        "summary.md",
        "hypothesis.txt",
        "correctness.md",
        "profile_summary.md",
        "profile_details.md",
    )
    for number in range(1, 9):
        for name in texts:
            assert f"rounds/round-{number}/{name}" in files
        assert f"memory/v{number - 1}.json" in files
        assert (f"plans/v{number - 1}_plan.md" in files) == (number > 1)
    fixed = {
        "manifest.yaml", "README.md", "benchmark.md", "performance.md", "final_report.md",
        "baseline_report.md", "report.html", "final.diff", "ref.py", "state.md",
        "quick_test_bench.py", *LOGS,
    }  # fmt: skip
    assert fixed <= files.keys()
    assert len(files) == len(fixed) + 8 * 6 + 8 + 7


@pytest.mark.rule("errors-recorded")
def test_every_round_says_how_right_it_was() -> None:
    files = render_campaign(softmax_campaign()).files
    found = [json.loads(files[f"memory/v{n}.json"])["correctness"] for n in range(8)]
    right = ("PASS", 1.4e-07)
    assert [(one["status"], one["rel_err"]) for one in found] == [
        ("PASS", 9.3e-08), right, right, right, ("NOT_RUN", None), ("FAIL", None), right, right,
    ]  # fmt: skip
    for number, one in enumerate(found, start=1):
        page = files[f"rounds/round-{number}/correctness.md"]
        assert ("\nPASS: " in page) == (one["status"] == "PASS")


@pytest.mark.rule("round-folder")
def test_snapshots_are_the_sources_as_they_are() -> None:
    campaign = softmax_campaign()
    files = render_campaign(campaign).files
    for round in campaign.rounds:
        for source in round.candidate.sources:
            path = f"rounds/round-{round.round}/kernel_snapshot/{source.path}"
            assert files[path] == source.text


@pytest.mark.rule("cited-numbers")
def test_the_readme_cites_every_fact_in_the_form_that_audits_look_for() -> None:
    readme = render_campaign(softmax_campaign()).files["README.md"].splitlines()
    for fact in fact_sheet().facts():
        assert str(fact) in readme
    assert "boost clock: UNKNOWN (the kernel doesn't export it)" in readme


@pytest.mark.rule("notes")
def test_memory_can_be_masked_and_names_pitfalls() -> None:
    files = render_campaign(softmax_campaign()).files
    memories = [json.loads(files[f"memory/v{version}.json"]) for version in range(8)]
    assert all(memory["masked"] is False for memory in memories)
    decisions = ["baseline", "kept", "kept", *["rolled_back"] * 3, "kept", "rolled_back"]
    assert [memory["decision"] for memory in memories] == decisions
    assert "UNKNOWN" in memories[0]["pitfalls_and_fixes"][0]["error_message"]
    assert "compiler_error" in memories[4]["pitfalls_and_fixes"][0]["error_message"]
    assert memories[1]["optimization"]["tactic"] == "recipe:vector-exp"
    assert memories[1]["ci"][0] < memories[1]["speedup"] < memories[1]["ci"][1]


def test_an_undecided_round_teaches_nothing_against_its_change() -> None:
    files = render_campaign(softmax_campaign()).files
    (pitfall,) = json.loads(files["memory/v7.json"])["pitfalls_and_fixes"]
    assert pitfall["error_type"] == "measurement"
    assert pitfall["lesson"].startswith("nobody knows yet whether this pays")
    (slower,) = json.loads(files["memory/v3.json"])["pitfalls_and_fixes"]
    assert "doesn't pay" in slower["lesson"]


def test_the_readme_has_the_classes_that_decisions_are_made_on() -> None:
    campaign = softmax_campaign()
    found = tuple(c.model_copy(update={"name": f"{c.name}, found"}) for c in campaign.classes)
    baseline = campaign.baseline.model_copy(update={"classes": found})
    readme = render_campaign(campaign.model_copy(update={"baseline": baseline})).files["README.md"]
    assert f"- {found[0].name}: " in readme


def test_a_plan_does_not_list_what_it_does_as_open() -> None:
    plans = [
        text for name, text in render_campaign(softmax_campaign()).files.items() if "plan" in name
    ]
    for text in plans:
        answered = text.partition("- answers: the ")[2].partition(" ")[0]
        assert f"- answer the {answered} bottleneck" not in text.partition("What else was open")[2]


@pytest.mark.rule("manifest-before-round-1")
def test_the_manifest_is_yaml_with_the_contract_s_fields() -> None:
    """All but what follows from the baseline is there before round 1."""
    expected = {
        "target_op": "softmax", "target_backend": "C", "target_lang": "C", "target_gpu": None,
        "target_shapes": ["N=4096,D=4096", "N=1024,D=1024", "N=64,D=32768"],
        "execution_mode": "workspace", "self_reported": False,
        "performance_target": "90% of the roofline",
        "primary_metric": "geometric mean over workloads of the paired time ratio",
        "kernel_source": "softmax.c", "editable": ["softmax.c"], "reference_source": "reference.py",
        "build_command": "OMP_NUM_THREADS=2 cc -O3 -march=native -lm",
        "test_command": "roofsmith kernel check target.yaml",
        "benchmark_command": "roofsmith kernel bench target.yaml",
        "quick_command": "python3 quick_test_bench.py",
        "profile_command": "roofsmith kernel profile target.yaml",
        "gate": "every output within its error budget, on every workload",
        "git_branch": "optimize/softmax_c_epyc7b13_20260412",
        "max_iterations": 20, "max_consecutive_regressions": 5, "max_repairs": 3,
        "budget_s": None, "max_tokens": None, "threads": 2, "created": "2026-04-12 10:00",
    }  # fmt: skip
    for campaign in (campaign_of([started()]), softmax_campaign()):
        manifest = yaml.safe_load(render_campaign(campaign).files["manifest.yaml"])
        assert {name: manifest[name] for name in expected} == expected
    assert (manifest["git_commit"], manifest["representative_shapes"]) == (True, "all")


@pytest.mark.parametrize("name", ["benchmark.md", "final_report.md", "report.html", "README.md"])
def test_unfinished_campaigns_say_so(name: str) -> None:
    unfinished = [
        campaign_of(softmax_events()[:4]),
        campaign_of(events_for(["kept"], stop="interrupted")),
        campaign_of([*softmax_events(), resumed()]),
        campaign_of([started()]),
    ]
    assert all("Not finished" in render_campaign(campaign).files[name] for campaign in unfinished)
    assert "Not finished" not in render_campaign(softmax_campaign()).files[name]


@pytest.mark.parametrize(
    "campaign", [crippled(), campaign_of([started()])], ids=["crippled", "new"]
)
def test_the_least_campaign_renders(campaign: Campaign) -> None:
    files = render_campaign(campaign).files
    assert all(text.strip() for text in files.values())
    assert "None" not in "".join(text for name, text in files.items() if name.endswith(".md"))


@settings(max_examples=15, deadline=None)
@given(st.lists(kinds, max_size=5), stops, st.booleans())
@pytest.mark.slow
def test_what_was_written_stays(
    rounds: list[RoundKind], stop: StopCode | None, again: bool
) -> None:
    """Logs only grow and rounds never change, whatever event comes next."""
    events = [*events_for(rounds, stop=stop), *([resumed()] if again else [])]
    before: dict[str, str] = {}
    for count in range(1, len(events) + 1):
        files = render_campaign(campaign_of(events[:count])).files
        for name in LOGS:
            assert files[name].startswith(before.get(name, ""))
        kept = {n: t for n, t in before.items() if n.startswith(("rounds/", "memory/", "plans/"))}
        assert kept.items() <= files.items()
        before = files


@settings(max_examples=10, deadline=None)
@given(st.lists(kinds, max_size=4), stops)
def test_every_text_can_be_written(rounds: list[RoundKind], stop: StopCode | None) -> None:
    for name, text in render_campaign(campaign_of(events_for(rounds, stop=stop))).files.items():
        text.encode()
        assert not name.startswith("/")
        assert ".." not in name.split("/")


@pytest.mark.rule("rendered-again")
def test_rendering_is_a_function_of_the_campaign() -> None:
    assert render_campaign(softmax_campaign()).files == render_campaign(softmax_campaign()).files


@pytest.mark.rule("unknown-stays")
def test_missing_facts_are_pitfalls_of_readme_and_memory() -> None:
    campaign = crippled()
    files = render_campaign(campaign).files
    pitfalls = files["README.md"].partition("## Pitfalls\n")[2].partition("\n## ")[0]
    assert "copy bandwidth: UNKNOWN (not measured)" in pitfalls
    assert "is claimed" in pitfalls
    noted = json.loads(files["memory/v0.json"])["pitfalls_and_fixes"]
    assert any("copy bandwidth: UNKNOWN" in pitfall["error_message"] for pitfall in noted)


def test_a_campaign_that_lacks_nothing_says_so() -> None:
    campaign = softmax_campaign()
    sheet = fact_sheet()
    whole = sheet.model_copy(update={"other": sheet.other[:1]})
    first = campaign.started.model_copy(update={"facts": whole})
    readme = render_campaign(campaign.model_copy(update={"started": first})).files["README.md"]
    assert "None: every fact that a bound needs is known." in readme
