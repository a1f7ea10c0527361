"""Campaigns on a repository, through the command line, with a real git and a real shell.

The benchmark reports what stands in the editable file, so verdicts don't depend on the machine.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository_bench import (
    BENCHMARK,
    FASTER,
    KERNEL,
    ROWS,
    TARGET,
    git,
    make_repository,
    needs_git,
    run,
    without_ceilings,
)

from roofsmith.domain.campaign import Round, replay
from roofsmith.engine.verify import verify
from roofsmith.overfitting.trace.command import CommandTracer
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target

pytestmark = [needs_git, pytest.mark.slow]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_work(monkeypatch, tmp_path)
    make_repository(tmp_path / "my repo")
    return tmp_path


def at_work(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setattr("roofsmith.api.doctor.DEADLINE_S", 300.0)  # this machine may be busy
    without_ceilings(monkeypatch, here / "cache")
    monkeypatch.chdir(here)


@pytest.fixture(scope="module")
def begun_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A campaign without rounds, as it was, and where it began: it names that place."""
    folder = tmp_path_factory.mktemp("begun")
    there = folder / "here"
    make_repository(there / "my repo")
    with pytest.MonkeyPatch.context() as patch:
        at_work(patch, there)
        begin(there)
    return Path(shutil.copytree(there, folder / "kept", symlinks=True)), there


@pytest.fixture
def begun(begun_once: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    kept, there = begun_once
    shutil.rmtree(there)
    shutil.copytree(kept, there, symlinks=True)
    at_work(monkeypatch, there)
    return there


def begin(here: Path, repository: str = "my repo") -> None:
    code, _, err = run("optimize", repository, "--proposer", "none", "--output", "run")
    assert code == 0, err


def tell(here: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    (here / "pa.rows").write_text(text)
    code, out, err = run(
        "tell", "run", "--kernel", "pa.rows", "--hypothesis", "another kernel", "--json", *options
    )
    assert code in (0, 1), err
    return code, json.loads(out)


def test_a_look_is_the_test_and_one_run_of_each(begun: Path) -> None:
    ledger = (begun / "run/ledger.jsonl").read_bytes()
    (begun / "pa.rows").write_text(FASTER)
    code, out, err = run("try", "run", "pa.rows", "--json")
    assert code == 0, err
    seen = json.loads(out)
    assert (seen["right"], seen["self_reported"]) == (True, True)
    gains = {tuple(w["dims"].values()): w["speedup"] for w in seen["workloads"]}
    assert gains[16, 1, 64] == pytest.approx(4 / 3)
    assert (begun / "run/ledger.jsonl").read_bytes() == ledger


def refused(*arguments: str) -> str:
    code, _, err = run(*arguments)
    assert code != 0
    return err


def test_who_asks_is_told_times_and_nothing_of_what_is_not_known(here: Path) -> None:
    text = TARGET.replace("  classes: [block", "  rows: [block")
    make_repository(here / "other", target_yaml=text)
    begin(here, "other")
    found = json.loads(run("ask", "run")[1])
    rows = [float(line.split()[3]) * 1e-6 for line in ROWS.splitlines()]
    assert [*found["incumbent"]["times_s"].values()] == pytest.approx(sorted(rows)[::-1])
    assert found["roofline"] == []
    assert "bytes UNKNOWN" in found["roofline_unknown"]
    assert [one["name"] for one in found["classes"]] == ["unclassified"]
    assert found["workloads"][0]["working_set"] is None


@pytest.mark.rule("self-reported")
def test_a_faster_candidate_is_kept_committed_and_verified(begun: Path) -> None:
    code, told = tell(begun, FASTER)
    assert (code, told["decision"], told["self_reported"]) == (0, "kept", True)
    gains = {tuple(w["dims"].values()): w["speedup"] for w in told["workloads"]}
    assert gains[16, 1, 64] == pytest.approx(4 / 3)
    assert gains[1024, 1, 64] == 1
    assert git(begun / "my repo", "show", "optimize/run:" + KERNEL) == FASTER
    message = git(begun / "my repo", "log", "-1", "--format=%B", "optimize/run")
    assert "Candidate: " in message
    assert "Build: " not in message
    assert f"| global | {KERNEL} |" in (begun / "run/performance.md").read_text()
    assert run("verify", "run")[0] == 0
    verify_finds_a_label_that_was_taken_away(begun)
    artifacts = begun / "run/rounds/round-2/artifacts"
    assert {"build.log", "benchmark.log"} <= {path.name for path in artifacts.iterdir()}
    (artifacts / "build.log").write_text("edited")
    assert run("verify", "run")[0] == 1


def verify_finds_a_label_that_was_taken_away(begun: Path) -> None:
    events = JsonlLedger(begun / "run/ledger.jsonl").events()
    assert verify(events) == ()
    at = next(n for n, event in enumerate(events) if isinstance(event, Round))
    round_ = events[at]
    assert isinstance(round_, Round)
    judgement = round_.judgement.model_copy(update={"self_reported": False})
    events[at] = round_.model_copy(update={"judgement": judgement})
    assert any("self-reported" in finding.what for finding in verify(events))
    lost = round_.judgement.samples[1:]
    judgement = round_.judgement.model_copy(update={"samples": lost})
    events[at] = round_.model_copy(update={"judgement": judgement})
    assert any("pairs of all rows" in finding.what for finding in verify(events))


def test_a_change_may_be_made_in_the_campaigns_worktree(begun: Path) -> None:
    (begun / "run/worktree" / KERNEL).write_text(FASTER)
    code, out, err = run(
        "tell",
        "run",
        "--kernel",
        f"run/worktree/{KERNEL}",
        "--hypothesis",
        "edited there",
        "--json",
    )
    assert (code, json.loads(out)["decision"]) == (0, "kept"), err


def test_what_is_said_of_a_rejected_candidate_is_said_once(begun: Path) -> None:
    (begun / "pa.rows").write_text(ROWS + "2048 1 64 1.0 0\n")
    _, out, _ = run("tell", "run", "--kernel", "pa.rows", "--hypothesis", "one more row")
    assert out.count("rows_changed") == 1
    assert "5 rows instead of 4" in out
    assert "self-reported" not in out  # nothing was compared


@pytest.mark.rule("frozen-commands")
def test_a_frozen_file_that_is_told_is_cheating_and_nothing_runs(begun: Path) -> None:
    edited = begun / "edited"
    (edited / "src").mkdir(parents=True)
    (edited / "src" / "pa.rows").write_text(FASTER)
    (edited / "build.sh").write_text(f"touch '{begun}/ran'\n")
    code, out, _ = run(
        "tell", "run", "--kernel", "edited", "--hypothesis", "cheaper build", "--json"
    )
    told = json.loads(out)
    assert (code, told["outcome"], told["reason"]) == (1, "cheated", "frozen_file_changed")
    assert "build.sh" in told["detail"]
    assert not (begun / "ran").exists()


def test_a_key_that_changes_in_the_baseline_is_the_targets_mistake(here: Path) -> None:
    """Rows that are told apart by the process that wrote them, too."""
    script = "echo N,run,us\nwhile read -r b m h us err; do echo $us,$$,$us; done"
    target = TARGET.split("  results")[0] + "  metric: us\n  unit: us\n  rows: [N, run]\n"
    make_repository(here / "counting", bench_sh=f"{script} < {KERNEL}\n", target_yaml=target)
    code, _, err = run("optimize", "counting", "--proposer", "none", "--output", "run")
    assert code == 2
    assert "run=" in err
    assert "cheated" not in err


def test_what_the_commands_rewrite_themselves_is_told(tmp_path: Path, here: Path) -> None:
    bench = BENCHMARK + "echo again >> data/readme\n"
    make_repository(tmp_path / "other", bench_sh=bench)
    begin(here, "other")
    assert "data/readme" in (here / "run/README.md").read_text()


def test_results_that_git_tracks_are_no_frozen_files(tmp_path: Path, here: Path) -> None:
    bench = BENCHMARK.replace('"out/pa_$$.csv"', "out.csv")
    target = TARGET.replace("out/*.csv", "out.csv")
    other = make_repository(tmp_path / "other", bench_sh=bench, target_yaml=target)
    (other / KERNEL).chmod(0o755)
    header = "block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps\n"
    (other / "out.csv").write_text(header + ROWS.replace(" ", ","))  # as the baseline writes it
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "--message", "results")
    begin(here, "other")
    assert tell(here, FASTER)[0] == 0
    listed = git(other, "ls-tree", "optimize/run", KERNEL)
    assert listed.startswith("100755")  # a script stays one


def test_many_rows_are_judged_in_full(tmp_path: Path, here: Path) -> None:
    rows = "".join(f"{16 * n} 1 64 {100 * n}.0 0\n" for n in range(1, 17))
    make_repository(tmp_path / "other", src__pa_rows=rows)
    begin(here, "other")
    code, told = tell(here, rows.replace("00.0 0", "99.0 0"))  # a loser: quickly seen elsewhere
    assert (code, len(told["workloads"])) == (1, 16)
    campaign = replay(JsonlLedger(here / "run/ledger.jsonl").events())
    round_ = campaign.rounds[-1]
    assert (round_.judgement.validation, round_.judgement.quick) == ("full", ())
    assert run("verify", "run")[0] == 0


@pytest.mark.rule("columns")
def test_a_throughput_decides_where_higher_is_better(tmp_path: Path, here: Path) -> None:
    target = TARGET.replace("metric: us_flydsl_ps\n  unit: us", "metric: rate\n  direction: higher")
    target += "  metrics: {rate: 1e3*block_size/us_flydsl_ps}\n"
    make_repository(tmp_path / "other", target_yaml=target)
    begin(here, "other")
    code, told = tell(here, FASTER)
    assert (code, told["workloads"][0]["speedup"]) == (0, pytest.approx(4 / 3))
    assert told["workloads"][0]["candidate_value"] == pytest.approx(1e3 * 16 / 30)
    assert told["workloads"][0]["candidate_time_s"] is None
    assert told["metric"] == {"name": "rate", "unit": "", "direction": "higher"}
    asked = json.loads(run("ask", "run")[1])
    assert asked["history"][0]["workloads"] == told["workloads"]
    assert asked["metric"] == told["metric"]
    assert "| rate, self-reported |" in (here / "run/performance.md").read_text()


# -- what is said of a repository that can't be the baseline ----------------------------------


def test_a_repository_that_fails_leaves_no_campaign(tmp_path: Path, here: Path) -> None:
    make_repository(tmp_path / "other", src__pa_rows=ROWS.replace("40.0 0", "40.0 1"))
    error = refused("optimize", "other", "--proposer", "none", "--output", "run")
    assert "1 of 4 rows fail" in error
    assert "log: " in error
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("bench", "reason", "left"),
    [
        ("setsid env -i sleep 600 & sleep 60\n", "benchmark_deadline", "sleep"),
        ("setsid env -i sleep 600 &\n" + BENCHMARK, "leftover process", "sleep"),
    ],
)
def test_a_repository_whose_processes_stay_is_no_cheat(
    tmp_path: Path, here: Path, bench: str, reason: str, left: str
) -> None:
    make_repository(tmp_path / "other", bench_sh=bench)
    deadlines = ("--benchmark-deadline", "1.5", "--test-deadline", "9", "--build-deadline", "9")
    init = ("init", "--repo", "other", *COMMANDS, "--results", "out/*.csv", "--force", *deadlines)
    code, _, error = run(*init)
    assert (code, reason in error, left in error, "cheat" in error) == (2, True, True, False)


@pytest.mark.rule("clean-start")
def test_a_dirty_repository_is_refused(here: Path) -> None:
    (here / "my repo" / "bench.sh").write_text("true\n")
    error = refused("optimize", "my repo", "--proposer", "none")
    assert "not committed: bench.sh" in error


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  gate: err = 0\n", "target.yaml:LAST: command.gate: 'err = 0': '=' can't stand"),
        ("  metrics: {a: 1 +}\n", "command.metrics.a: '1 +'"),
        ("  carry: [*.c]\n", "target.yaml:LAST: not YAML"),
        ("  benchmrk: x\n", "unknown key 'benchmrk' (did you mean 'benchmark'?)"),
        ("  direction: higher\n", "command.unit: 'us' is a time, of which less is better, but"),
        ("  direction: up\n", "command.direction must be 'lower' or 'higher'"),
        ("  carry: [../data]\n", "carry: '../data' must be relative to repo, and stay inside it"),
        ("kernel: a.c\n", "unknown key 'kernel'"),
        ("  profile: {command: p, results: x, kernel: '('}\n", "no regular expression"),
    ],
)
def test_a_mistake_in_the_target_is_named(here: Path, line: str, said: str) -> None:
    text = TARGET.replace("  gate: err_flydsl_ps == 0\n", "") if "gate" in line else TARGET
    path = here / "my repo" / "target.yaml"
    path.write_text(text + line)
    last = str(len((text + line).splitlines()))
    assert said.replace("LAST", last) in refused("doctor", str(path))


@pytest.mark.rule("metric-direction")
@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("metric: tflops", "'tflops' looks like a rate, of which more is better"),
        ("metric: tokens_per_s", "'tokens_per_s' looks like a rate"),
        ("metric: us_flydsl_ps\n  unit: tok/sec", "'tok/sec' looks like a rate"),
        ("metric: score\n  unit: pt", "doesn't say which way it is better, nor does its unit 'pt'"),
        ("metric: 1e3/us_flydsl_ps", "the metric '1e3/us_flydsl_ps' doesn't say which way"),
    ],
)
def test_a_metric_that_is_no_time_needs_its_direction(here: Path, metric: str, why: str) -> None:
    path = here / "my repo" / "target.yaml"
    text = TARGET.replace("metric: us_flydsl_ps\n  unit: us", metric)
    path.write_text(text)
    line = 1 + text[: text.index("  metric: ")].count("\n")
    said = refused("optimize", str(path), "--proposer", "none")
    assert f"target.yaml:{line}: command.direction is missing: " in said
    assert why in said
    assert "`direction: higher`" in said
    path.write_text(text + "  direction: higher\n")
    assert load_target(path).command is not None


@pytest.mark.parametrize("metric", ["metric: us_flydsl_ps", "metric: 2*us_flydsl_ps\n  unit: us"])
def test_a_time_needs_no_direction(here: Path, metric: str) -> None:
    path = here / "my repo" / "target.yaml"
    path.write_text(TARGET.replace("metric: us_flydsl_ps\n  unit: us", metric))
    spec = load_target(path).command
    assert spec.direction == "lower"


# -- steps of training ------------------------------------------------------------------------

STEPS = """\
import torch

def setup(block_size, mtp, head_size, seed):
    x = torch.randn(mtp, head_size)
    return {"inputs": {"x": x, "y": torch.empty_like(x)}, "outputs": ["y"]}

def reference(x, y):
    y.copy_(2 * x)

def run_kernel(x, y):
    y.copy_(x + x)
"""
STEPS_TARGET = f"{TARGET}  transfer: steps.py\n"
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is missing")


@pytest.mark.rule("transfer-tried-first")
@torch
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STEPS.replace("x + x", "3 * x"), "y is wrong in call 1 of step 1"),
        pytest.param(
            STEPS.replace("def setup", "def other"), "has a function `setup(**dims, seed)`",
            marks=pytest.mark.whole,
        ),
    ],
)  # fmt: skip
def test_nothing_starts_with_a_transfer_file_that_cant_be_used(
    tmp_path: Path, here: Path, text: str, said: str
) -> None:
    make_repository(tmp_path / "other", steps_py=text, target_yaml=STEPS_TARGET)
    error = refused("optimize", "other", "--proposer", "none", "--output", "run")
    assert "no step could be run" in error
    assert said in error
    assert "torch tensors" in error


def test_a_transfer_file_that_is_missing_is_named_with_its_line(tmp_path: Path, here: Path) -> None:
    other = make_repository(tmp_path / "other", target_yaml=STEPS_TARGET)
    line = len(STEPS_TARGET.splitlines())
    assert f"target.yaml:{line}: there is no file steps.py in" in refused("doctor", "other")
    (other / "steps.py").write_text(STEPS)
    assert "track steps.py" in refused("doctor", "other")


@pytest.mark.whole
@pytest.mark.rule("transfer-tried-first")
@torch
def test_a_candidate_that_no_step_was_run_with_is_rolled_back(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(tmp_path / "other", steps_py=STEPS, target_yaml=STEPS_TARGET)
    begin(here, "other")
    with monkeypatch.context() as patched:
        patched.setattr(CommandTracer, "trace", lambda *_: "the reference can't be asked")
        code, told = tell(here, FASTER)
    assert (code, told["decision"]) == (1, "rolled_back")
    assert "no step" in told["rule"]
    assert "reference" in told["rule"]
    summary = (here / "run/rounds/round-2/summary.md").read_text()
    assert "rejected: no step of a trace was run" in summary
    run("ask", "run")
    code, told = tell(here, FASTER.replace("45.0", "40.0"))
    assert (code, told["decision"]) == (0, "kept")
    assert run("verify", "run")[0] == 0


# -- init -------------------------------------------------------------------------------------

COMMANDS = (
    "--editable", "src/*.rows", "--build", "sh build.sh", "--test", "sh test.sh",
    "--benchmark", "sh bench.sh",
)  # fmt: skip


@pytest.mark.rule("marked-guesses")
def test_init_guesses_and_its_target_runs(here: Path) -> None:
    (here / "my repo" / "target.yaml").unlink()
    git(here / "my repo", "commit", "--quiet", "--all", "--message", "no target")
    given = ("--results", "out/*.csv", "--test-deadline", "60")
    code, out, err = run("init", "--repo", "my repo", *COMMANDS, *given)
    assert code == 0, err
    assert "guessed gate" in out
    text = (here / "my repo" / "target.yaml").read_text()
    assert "gate: err_flydsl_ps == 0" in text.replace('"', "")
    assert "rows: [block_size, mtp, head_size]" in text
    assert "unit: us" in text
    assert "test_deadline_s: 60" in text
    begin(here)


def test_init_finds_rows_beside_classes_that_tell_none_apart(here: Path) -> None:
    commands = (*COMMANDS, "--results", "out/*.csv", "--classes", "block_size", "--force")
    code, out, err = run("init", "--repo", "my repo", *commands)
    assert code == 0, err
    assert "guessed rows" in out
    assert "rows: [mtp, head_size]" in (here / "my repo" / "target.yaml").read_text()


def init_printing(here: Path, header: str, *options: str) -> tuple[int, str, str]:
    """`init` for a benchmark that prints a table; the target is the second of what comes back."""
    prints = f"echo '{header}'\nwhile read -r b m h us err; do echo $b,$m,$h,$us; done < {KERNEL}\n"
    other = make_repository(here / "printing", bench_sh=prints)
    code, _, err = run("init", "--repo", "printing", *COMMANDS, "--force", *options)
    return code, (other / "target.yaml").read_text().replace('"', ""), err


@pytest.mark.rule("metric-direction")
@pytest.mark.parametrize(
    ("column", "options", "expected"),
    [
        ("Forward TFLOPS", (), {"direction": "higher", "unit": "TFLOPS"}),
        ("us", (), {"direction": "lower", "unit": "us"}),
        ("score", ("--unit", "TFLOP/s"), {"direction": "higher"}),
    ],
)
def test_init_marks_what_a_given_metric_says(
    here: Path, column: str, options: tuple[str, ...], expected: dict[str, str]
) -> None:
    header = f"block_size,mtp,head_size,{column}"
    code, text, err = init_printing(here, header, "--metric", column, *options)
    assert code == 0, err
    lines = {line.split(":")[0].strip(): line for line in text.splitlines() if ":" in line}
    for key, value in expected.items():
        assert lines[key].split("#")[0].split(": ")[1].strip() == value
        assert "# a guess, from the " in lines[key]


@pytest.mark.rule("metric-direction")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--metric", "us/2"), "--metric 'us/2' doesn't say which way it is better"),
        (("--metric", "score"), "--direction lower if less is better"),
        (("--metric", "us", "--unit", "us", "--direction", "higher"), "'us' is a time"),
        (("--metric", "us", "--unit", "TFLOP/s", "--direction", "lower"), "'TFLOP/s' is a rate"),
        (("--metric", "1", "--direction", "lower"), "'1' names no column"),
    ],
)
def test_init_refuses_a_metric_that_nobody_could_read(
    here: Path, options: tuple[str, ...], said: str
) -> None:
    code, _, err = init_printing(here, "block_size,mtp,head_size,us", *options)
    assert code != 0
    assert said in " ".join(err.split())


@pytest.mark.parametrize(
    "options", [("--gate", "us < 0"), ("--metric", "us-us", "--direction", "lower")]
)
def test_init_refuses_rows_that_fail(here: Path, options: tuple[str, ...]) -> None:
    code, _, err = init_printing(here, "block_size,mtp,head_size,us", *options)
    assert code != 0
    assert "can't be a baseline" in " ".join(err.split())


def test_init_finds_the_sizes_of_a_formula(here: Path) -> None:
    """Which take part in the metric, and tell rows apart all the same."""
    metric = ("--metric", "2*block_size*mtp*head_size/us", "--direction", "higher")
    code, text, err = init_printing(here, "block_size,mtp,head_size,us", *metric)
    assert code == 0, err
    assert "rows: [block_size, mtp, head_size]" in text


def test_init_says_what_is_missing(here: Path) -> None:
    assert "target.yaml exists already" in refused("init", "--repo", "my repo", *COMMANDS)
    assert "--editable is missing" in refused("init", "--repo", "my repo")
    error = refused("init", "--repo", "my repo", "--force", *COMMANDS)
    assert "printed no table" in error
    assert "--results" in error
    assert "without --repo" in refused("init", "k.c", "--gate", "x == 1")
    assert "with --repo" in refused("init", "--repo", "my repo", "--ref", "r.py")


def test_doctor_and_single_steps_know_repositories(here: Path) -> None:
    code, out, _ = run("doctor", "my repo")
    assert code == 0
    assert "my repo can run here" in out
    assert run("check", "my repo")[0] == 0
    code, out, _ = run("bench", "my repo", "--json")
    assert code == 0
    assert [timing["time_s"] for timing in json.loads(out)["timings"]] == pytest.approx(
        [40e-6, 60e-6, 30e-6, 80e-6]
    )


def test_doctor_says_what_a_repository_lacks(tmp_path: Path, here: Path) -> None:
    target = TARGET.replace("sh test.sh", "no-such-program --all")
    make_repository(tmp_path / "other", target_yaml=target)
    (tmp_path / "other" / "bench.sh").write_text("true\n")
    code, out, _ = run("doctor", "other")
    assert code == 1
    assert "no-such-program" in " ".join(out.split())
    assert "not committed: bench.sh" in " ".join(out.split())


def test_flags_are_for_kernels(begun: Path) -> None:
    (begun / "pa.rows").write_text(FASTER)
    error = refused("tell", "run", "--kernel", "pa.rows", "--hypothesis", "x", "--flags", "-O3")
    assert "--flags is for kernels" in error


# -- a workspace ------------------------------------------------------------------------------


@pytest.mark.rule("workspace-source", "workspace-then-repository")
def test_a_workspace_iterates_and_the_repository_decides(tmp_path: Path, here: Path) -> None:
    # In the whole repository, where data/ is, another file is measured when there is one.
    bench = BENCHMARK.replace("< src/pa.rows", "< $rows").replace(
        "mkdir -p out", "rows=src/pa.rows\n[ -f data/readme ] && [ -f src/whole.rows ]"
        " && rows=src/whole.rows\nmkdir -p out"
    )  # fmt: skip
    workspace = "  workspace: ['*.sh']\n"
    make_repository(tmp_path / "other", bench_sh=bench, target_yaml=TARGET + workspace)
    begin(here, "other")
    edited = here / "edited" / "src"
    edited.mkdir(parents=True)
    (edited / "pa.rows").write_text(FASTER)
    (edited / "whole.rows").write_text(ROWS)
    code, out, _ = run("tell", "run", "--kernel", "edited", "--hypothesis", "x", "--json")
    assert code == 1  # faster in the workspace, and no faster in the repository
    assert "tie" in json.loads(out)["rule"]
    run("ask", "run")
    code, told = tell(here, FASTER)
    assert (code, told["decision"]) == (0, "kept")
    assert git(here / "other", "diff", "--name-only", "HEAD", "optimize/run") == KERNEL + "\n"
    assert run("verify", "run")[0] == 0
    manifest = yaml.safe_load((here / "run/manifest.yaml").read_text())
    assert (manifest["execution_mode"], manifest["workspace"]) == ("workspace", ["*.sh"])
    assert manifest["repository_commit"] == git(here / "other", "rev-parse", "HEAD").strip()
    assert manifest["extracted_files"] == ["bench.sh", "build.sh", KERNEL, "test.sh"]
    readme = (here / "run/README.md").read_text()
    assert "(4 files: bench.sh, build.sh, src/pa.rows, test.sh); what is faster there" in readme


def test_a_workspace_that_lacks_a_file_is_explained(tmp_path: Path, here: Path) -> None:
    make_repository(tmp_path / "other", target_yaml=TARGET + "  workspace: ['b*.sh']\n")
    error = refused("optimize", "other", "--proposer", "none", "--output", "run")
    assert "`sh test.sh` exited with" in error
