"""Whole campaigns through the command line, with a real compiler, judge, git and disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from repository_bench import run as roofsmith
from repository_bench import without_profilers
from typer.testing import CliRunner

from kinds import another
from roofsmith.cli.root import cli
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.proposers.replay import ReplayProposer
from roofsmith.store.ledger import JsonlLedger

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]

SLOW = """\
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++) {
        volatile float sum = 0.0f;
        for (int k = 0; k < 16; k++)
            sum += 0.125f * x[i];
        y[i] = sum;
    }
}
"""
FAST = """\
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i];
}
"""
WRONG = FAST.replace("2.0f", "3.0f")
BROKEN = FAST.replace("2.0f * x[i];", "2.0f * x[i]")
REFERENCE = """\
import numpy as np

def setup(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    np.multiply(x, x.dtype.type(2), out=y)

def flops(n):
    return n
"""
TARGET = """\
name: scale
kernel: scale.c
reference: reference.py
family: elementwise
workloads: [{n: 100000}]
held_out: 0
threads: 1
keep: {judge_budget_s: 1, error_rate: 0.1, noise_band: 0.1}
"""


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a target and three recorded changes: wrong, fast, broken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    without_profilers(monkeypatch, tmp_path)
    return furnish(tmp_path)


@dataclass(frozen=True)
class Ended:
    """A campaign that has ended, in `run`; not to be changed."""

    here: Path
    """Where it was started."""
    out: str = ""
    err: str = ""


Alone = Callable[[], AbstractContextManager[None]]
"""While a campaign measures; what is asked of it later may be asked beside other tests."""
Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="module")
def unchanged_once(cache: Path, once: Once) -> Path:
    """Nobody proposed anything: it has a baseline."""
    return once("unchanged", lambda there: begin(there, cache))


def begin(there: Path, cache: Path) -> None:
    """A campaign that has a baseline, and was interrupted then: it can be gone on with."""

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    with furnished(there, cache), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplayProposer, "ask", interrupt)
        optimize = ("optimize", "target.yaml", "--proposer", "replay:changes.jsonl", "-o", "run")
        err = CliRunner().invoke(cli, optimize).stderr
        require_quiet(err)
        assert (there / "run" / "performance.md").is_file(), err


@pytest.fixture(scope="module")
def finished_once(
    cache: Path, unchanged_once: Path, tmp_path_factory: pytest.TempPathFactory, alone: Alone
) -> Ended:
    """Its screen is a pipe."""
    with alone(), furnished(tmp_path_factory.mktemp("finished"), cache) as there:
        copied_run(unchanged_once, there)
        code, out, err = roofsmith("resume", "run", "--proposer", "replay:changes.jsonl")
        require_quiet(err)
        require_verdicts(json.loads(roofsmith("report", "run", "--json")[1])["rounds"])
        assert code == 0, err
    return Ended(there, out, err)


@pytest.fixture
def finished(here: Path, finished_once: Ended) -> Path:
    """A copy of that campaign in `run`, to be changed at will."""
    return copied_run(finished_once.here, here)


@pytest.fixture
def unchanged(here: Path, unchanged_once: Path) -> Path:
    """A copy of the campaign without changes in `run`, to go on with."""
    return copied_run(unchanged_once, here)


def copied_run(there: Path, here: Path) -> Path:
    """A campaign once more, with a repository of its own."""
    copied = Path(shutil.copytree(there / "run", here / "run", symlinks=True))
    lineage = copied / "lineage.json"
    lineage.write_text(lineage.read_text().replace(str(there), str(here)))
    return copied


@contextmanager
def furnished(directory: Path, cache: Path) -> Iterator[Path]:
    """Work in a directory with target, kernels and changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("ROOFSMITH_CACHE", str(cache))
        without_profilers(patch, directory)
        yield furnish(directory)


def furnish(directory: Path) -> Path:
    """Write target, kernels and changes into a directory."""
    (directory / "scale.c").write_text(SLOW)
    (directory / "reference.py").write_text(REFERENCE)
    (directory / "target.yaml").write_text(TARGET)
    for name, text in (("fast.c", FAST), ("wrong.c", WRONG), ("broken.c", BROKEN)):
        (directory / name).write_text(text)
    lines = [proposal(text).model_dump_json() for text in (WRONG, FAST, BROKEN)]
    (directory / "changes.jsonl").write_text("\n".join(lines) + "\n")
    return directory


def proposal(text: str, comment: str = "") -> Proposal:
    statement = {WRONG: "multiply by three", BROKEN: "forget a semicolon", FAST: "multiply once"}
    return Proposal(
        hypothesis=Hypothesis(statement=statement[text], rationale="recorded", tactic="replay"),
        candidate=Candidate(
            language="c",
            sources=(SourceFile(path="scale.c", text=comment + text),),
            build=BuildSpec(),
        ),
    )


def campaign(directory: str = "run", proposer: str = "replay:changes.jsonl") -> dict[str, object]:
    """Run a campaign; its JSON."""
    code, out, err = roofsmith(
        "optimize", "target.yaml", "--proposer", proposer, "--output", directory, "--json"
    )
    require_quiet(err)
    assert code == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def require_quiet(err: str) -> None:
    """Skip where other work disturbed every single sample of a kernel."""
    if "was disturbed by other processes" in err:
        pytest.skip(f"this machine is too busy to measure: {err.strip()}")


def require_verdicts(rounds: list[dict[str, object]]) -> None:
    """Skip where other work disturbed so many samples that the judge wouldn't say anything."""
    undecided = [r for r in rounds if r["verdict"] in ("unverified", "inconclusive")]
    if undecided:
        pytest.skip(f"this machine is too busy to judge: {undecided[0]['notes']}")


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, which doesn't outlive the block."""
    code = "from roofsmith.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def endless(here: Path) -> tuple[str, ...]:
    """To go on with a campaign that won't have ended before somebody ends it: there are wrong
    kernels enough."""
    wrong = (proposal(WRONG, f"// try {number}\n") for number in range(100))
    (here / "endless.jsonl").write_text("".join(f"{p.model_dump_json()}\n" for p in wrong))
    return ("resume", "run", "--proposer", "replay:endless.jsonl")


LONG_S = 300.0
"""For what takes seconds on a machine that has nothing else to do."""


def wait_for(path: Path, text: str, process: subprocess.Popen[str]) -> None:
    """Until a file holds a text."""
    until = time.monotonic() + LONG_S
    while not (path.exists() and text in path.read_text()):
        if process.poll() is not None:
            out, err = process.communicate()
            require_quiet(err)
            raise AssertionError(f"ended early: {out}\n{err}")
        if time.monotonic() > until:
            process.kill()
            raise AssertionError(f"{path} never held {text!r}: {process.communicate()}")
        time.sleep(0.05)


# -- campaigns ------------------------------------------------------------------------------


def test_a_campaign_keeps_what_is_faster_and_says_why(finished: Path) -> None:
    document = json.loads(roofsmith("report", "run", "--json")[1])
    rounds = document["rounds"]
    assert [r["outcome"] for r in rounds] == ["incorrect", "passed", "build_failed"]
    assert [r["decision"] for r in rounds] == ["rolled_back", "kept", "rolled_back"]
    assert "scale.c:4" in rounds[2]["detail"]
    assert document["total_speedup"] == rounds[1]["speedup"]
    assert rounds[1]["speedup"] > 2
    assert isinstance(document["stopped"], dict)
    for name in (
        "ledger.jsonl",
        "report.html",
        "final_report.md",
        "manifest.yaml",
        "README.md",
        "env_check.md",
    ):
        assert (finished / name).is_file(), name


def test_the_screen_of_a_pipe_is_plain_lines(finished_once: Ended) -> None:
    out, err = finished_once.out, finished_once.err
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    [line] = [line for line in err.splitlines() if line.startswith("#3")]
    assert "multiply once" in line
    assert line.endswith(("kept", "rolled back"))
    assert "report.html" in out


def verified(directory: Path, *, code: int) -> dict[str, Any]:
    """What `roofsmith verify` says of a campaign."""
    found, out, _ = roofsmith("verify", str(directory), "--json")
    assert found == code, out
    document: dict[str, Any] = json.loads(out)
    return document


@pytest.mark.parametrize(
    "name",
    ["ledger.jsonl", "report.html", "final_report.md", "rounds/round-1/kernel_snapshot/scale.c"],
)
def test_verify_finds_one_edited_byte(finished: Path, name: str) -> None:
    path = finished / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert verified(finished, code=1)["findings"]


@pytest.mark.parametrize("way", ["lineage is gone", "lineage is no JSON", "repository is gone"])
def test_verify_says_that_it_saw_no_commits(finished: Path, way: str) -> None:
    assert verified(finished, code=0)["commits"] > 0
    if way == "lineage is gone":
        (finished / "lineage.json").unlink()
    elif way == "lineage is no JSON":
        (finished / "lineage.json").write_text("[")
    else:
        shutil.rmtree(finished / "repo")
    document = verified(finished, code=0)
    assert document["commits"] == 0
    (unchecked,) = document["unchecked"]
    assert unchecked["what"].startswith("those of kept rounds (")
    _, out, _ = roofsmith("verify", "run")
    assert out.splitlines()[1].startswith("not checked: commits: those of kept rounds (")


def commit_by_hand(repository: Path, *arguments: str) -> None:
    """What somebody else does to a campaign's branch."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    git = ["git", "-C", repository, *identity]
    subprocess.run([*git, "commit", "--quiet", *arguments], check=True)


def test_verify_names_commits_of_no_round(finished: Path) -> None:
    commit_by_hand(finished / "repo", "--allow-empty", "-m", "By hand")
    (unchecked,) = verified(finished, code=0)["unchecked"]
    assert "(By hand) is of no round" in unchecked["what"]


def test_verify_finds_a_commit_that_was_made_anew(finished: Path) -> None:
    (finished / "repo" / "more.c").write_text("int more;\n")
    subprocess.run(["git", "-C", finished / "repo", "add", "more.c"], check=True)
    commit_by_hand(finished / "repo", "--amend", "--no-edit")
    (found,) = verified(finished, code=1)["findings"]
    assert "is recorded" in found["what"]


@pytest.mark.rule("rendered-again")
def test_report_writes_what_was_lost(finished: Path) -> None:
    (finished / "report.html").unlink()
    assert roofsmith("report", "run")[0] == 0
    assert (finished / "report.html").is_file()
    assert roofsmith("verify", "run")[0] == 0


def test_a_finished_campaign_has_nothing_to_resume(finished: Path) -> None:
    ledger = (finished / "ledger.jsonl").read_bytes()
    assert roofsmith("resume", "run", "--proposer", "none")[0] == 0
    assert (finished / "ledger.jsonl").read_bytes() == ledger


# -- changes from outside -------------------------------------------------------------------


@pytest.mark.timing
def test_ask_and_tell_make_a_round(unchanged: Path) -> None:
    code, out, _ = roofsmith("ask", "run")
    assert code == 0
    asked = json.loads(out)
    assert asked["incumbent"]["sources"]["scale.c"] == SLOW
    assert asked["next_round"] == 2
    code, out, err = roofsmith(
        "tell", "run", "--kernel", "fast.c", "--hypothesis", "multiply once", "--json"
    )
    told = json.loads(out)
    require_verdicts([told])
    assert (code, told["decision"]) == (0, "kept"), err
    assert told["doubt"] is None
    (row,) = told["workloads"]
    for name in ("incumbent", "candidate"):
        low, high = row[f"{name}_ci"]
        assert low <= row[f"{name}_time_s"] <= high
        assert row[f"{name}_roofline_fraction"] == row["floor_time_s"] / row[f"{name}_time_s"]
    assert json.loads(roofsmith("ask", "run")[1])["incumbent"]["sources"]["scale.c"] == FAST


@pytest.mark.rule("hypothesis-in-words")
def test_a_change_without_a_hypothesis_is_refused(tmp_path: Path) -> None:
    """Before the campaign is opened, which couldn't be here."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ledger.jsonl").write_text("{}\n")
    kernel = tmp_path / "kernel.c"
    kernel.write_text("void solve(void) {}\n")
    code, _, err = roofsmith("tell", str(tmp_path / "run"), "--kernel", str(kernel))
    assert code == 2
    assert "there is no hypothesis" in err
    assert "say what changed and why" in err


@pytest.mark.whole
@pytest.mark.rule("diagnosis-required")
def test_after_rollbacks_tell_gathers_what_nobody_asked_for(here: Path, unchanged: Path) -> None:
    """Three kernels that don't compile: levels 1 to 3, with a real profiler and disassembler."""
    for number, category in enumerate(("tiling", "prefetch", "algebra"), start=1):
        (here / "broken.c").write_text(f"// try {number}\n{BROKEN}")
        tell = (
            "tell", "run", "--kernel", "broken.c", "--hypothesis", f"try {number}", "--json",
            "--category", category, "--predict", "1.5", "--counter", "ipc", "--counter-ratio", "2",
        )  # fmt: skip
        code, out, err = roofsmith(*tell)
        told = json.loads(out)
        assert (code, told["outcome"]) == (1, "build_failed"), err
        assert ["`roofsmith ask run`" in one for one in told["remarks"]] == [True] * (number > 1)
    found = ask_again()
    assert found["level"] == 3
    material = found["material"]
    assert [a["category"] for a in material["attempts"]] == ["tiling", "prefetch", "algebra"]
    assert material["attempts"][0]["score"]["speedup"]["predicted"] == 1.5
    assert "expected ';'" in material["attempts"][0]["detail"]
    assert len(material["review"]["directions"]) >= 3
    assert len(material["profiles"]) == 1
    if shutil.which("objdump"):
        assert material["disassembly"]["loops"][0]["function"] == "solve"
    assert "roofline" in (here / "run" / "rounds" / "round-4" / "diagnosis-3.md").read_text()
    assert roofsmith("verify", "run")[0] == 0


def ask_again() -> dict[str, Any]:
    """What the next change has to build on."""
    code, out, err = roofsmith("ask", "run")
    assert code == 0, err
    asked = json.loads(out)
    first = asked["calibration"][0]
    assert first["proposer"] == "tell"
    assert first["category"] != "other"
    diagnosis = asked["diagnosis"]
    assert isinstance(diagnosis, dict)
    return diagnosis


@pytest.mark.rule("class-named")
def test_telling_of_a_class_that_is_not_there_is_refused(finished: Path) -> None:
    before = JsonlLedger(finished / "ledger.jsonl").events()
    code, out, _ = roofsmith(
        "tell", "run", "--kernel", "fast.c", "--hypothesis", "nothing", "--class", "wide"
    )
    assert code == 1
    assert "'wide'" in out
    *same, refusal = JsonlLedger(finished / "ledger.jsonl").events()
    assert same == before  # the campaign has ended still
    assert refusal.kind == "refused"
    assert roofsmith("verify", "run")[0] == 0


# -- kernels that can't be a baseline -------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"), [(BROKEN, "scale.c:4"), another(WRONG, "incorrect"), ("int x;\n", "solve")]
)
def test_a_bad_kernel_leaves_nothing_behind(here: Path, text: str, said: str) -> None:
    (here / "scale.c").write_text(text)
    before = sorted(here.iterdir())
    code, out, err = roofsmith("optimize", "target.yaml")
    assert code in (1, 2)
    assert said in err
    assert out == ""
    assert sorted(here.iterdir()) == before


# -- kills, interrupts, company -------------------------------------------------------------


@pytest.mark.whole
def test_ctrl_c_says_how_to_go_on(here: Path, unchanged: Path) -> None:
    with started(*endless(here), "--json") as process:
        wait_for(unchanged / "ledger.jsonl", '"kind":"planned"', process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert json.loads(out)["error"]["kind"] == "Interrupted"
    assert "roofsmith resume run" in err
    assert "Traceback" not in err
    assert '"interrupted"' in (unchanged / "ledger.jsonl").read_text()


def test_ctrl_c_before_a_baseline_leaves_nothing_and_says_so(here: Path) -> None:
    with started("optimize", "target.yaml", "--proposer", "none", "--output", "run") as process:
        wait_for(here / "run" / "ledger.jsonl", '"kind":"started"', process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert "nothing was kept" in err
    assert "over the baseline" not in err
    assert not (here / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, another(signal.SIGHUP)])
def test_being_told_to_end_is_a_clean_stop(
    here: Path, unchanged: Path, number: signal.Signals
) -> None:
    with started(*endless(here)) as process:
        wait_for(unchanged / "ledger.jsonl", '"kind":"planned"', process)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 128 + number
    assert f"ended by {number.name}; go on with: roofsmith resume run" in err
    assert "Traceback" not in err
    assert family, "the oracle at least was running"
    assert survivors(family) == []
    assert f"ended by {number.name}" in (here / "run" / "ledger.jsonl").read_text()
    assert roofsmith("verify", "run")[0] == 0


def survivors(family: list[psutil.Process]) -> list[psutil.Process]:
    """Who still runs when everybody has had time to end; a zombie that nobody asks about has."""
    until = time.monotonic() + 30.0
    while (alive := [process for process in family if runs(process)]) and time.monotonic() < until:
        time.sleep(0.01)
    return alive


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.rule("no-git")
@pytest.mark.whole  # that there is no lineage then: test_lineage.py
def test_without_git_the_ledger_is_enough(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = here / "tools"
    tools.mkdir()
    for tool in ("gcc", "as", "ld", "collect2", "objdump"):
        found = shutil.which(tool)
        if found is not None:
            (tools / tool).symlink_to(found)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{Path(sys.executable).parent}")
    (here / "changes.jsonl").write_text(proposal(FAST).model_dump_json())
    document = campaign()
    assert document["branch"] is None
    assert any("git" in note for note in document["notes"])  # type: ignore[attr-defined]


# -- single steps ---------------------------------------------------------------------------


@pytest.mark.timing
def test_judge_prints_the_contract(here: Path) -> None:
    code, out, _ = roofsmith(
        "judge", "fast.c", "--against", "scale.c", "--ref", "reference.py",
        "--workload", "n=100000", "--threads", "1", "--budget", "2", "--json",
    )  # fmt: skip
    document = json.loads(out)
    assert document["outcome"] == "passed"
    assert document["reason"] is None
    require_verdicts([document])
    assert (code, document["verdict"]) == (0, "faster")
    assert document["ci"][0] <= document["speedup"] <= document["ci"][1]
    [workload] = document["workloads"]
    assert workload["dims"] == {"n": 100000}
    expected = {
        "dims", "class", "speedup", "ci", "candidate_time_s", "incumbent_time_s", "floor_time_s",
    }  # fmt: skip
    assert set(workload) == expected


@pytest.mark.parametrize(
    ("kernel", "outcome"), [("wrong.c", "incorrect"), another("broken.c", "build_failed")]
)
def test_judge_rejects(here: Path, kernel: str, outcome: str) -> None:
    code, out, _ = roofsmith(
        "judge", kernel, "--against", "scale.c", "--ref", "reference.py",
        "--workload", "n=1000", "--threads", "1", "--json",
    )  # fmt: skip
    document = json.loads(out)
    assert code == 1
    assert (document["outcome"], document["verdict"]) == (outcome, "rejected")
    assert document["reason"]
    assert document["detail"]


@pytest.mark.parametrize(
    ("against", "kind"), [("wrong.c", "BaselineError"), ("gone.c", "TargetError")]
)
def test_json_says_why_a_command_failed(here: Path, against: str, kind: str) -> None:
    arguments = (
        "judge", "fast.c", "--against", against, "--ref", "reference.py", "--workload", "n=1000",
        "--threads", "1",
    )  # fmt: skip
    code, out, err = roofsmith(*arguments, "--json")
    said = json.loads(out)["error"]
    assert code == (1 if kind == "BaselineError" else 2)
    assert (said["kind"], set(said)) == (kind, {"kind", "message", "hint", "log"})
    assert said["message"] in err
    assert roofsmith(*arguments)[1] == ""


def test_check_and_bench_one_kernel(here: Path) -> None:
    options = ("fast.c", "--ref", "reference.py", "-w", "n=100000", "--threads", "1", "--json")
    code, out, _ = roofsmith("check", *options)
    assert (code, json.loads(out)["outcome"]) == (0, "passed")
    code, out, _ = roofsmith("bench", *options)
    require_quiet(out)
    [timing] = json.loads(out)["timings"]
    assert code == 0
    assert timing["time_s"] > 0


def test_roofline_cites_its_ceilings(here: Path) -> None:
    code, out, _ = roofsmith("roofline", "target.yaml", "--json")
    document = json.loads(out)
    [bound] = document["bounds"]
    assert code == 0
    assert bound["bandwidth"]["citation"]["command"] == "roofsmith specs measure"
    assert bound["target_time_s"] == pytest.approx(bound["floor_time_s"] / 0.9)
    assert (document["ceilings"], document["goal"]["roofline_fraction"]) == ("measured", 0.9)
    assert {count["origin"] for count in bound["cost"]["counts"]} >= {"family", "arrays"}
    assert document["facts"]["compute"]


def test_roofline_prints_draws_and_cites(here: Path) -> None:
    code, out, _ = roofsmith("roofline", "target.yaml", "--svg", "roofline.svg")
    assert code == 0
    assert "measured ceilings" in out
    assert "goal 90%" in out
    assert "[1] " in out
    assert "<- " in out
    assert (here / "roofline.svg").read_text().startswith("<svg")
    code, _, err = roofsmith("roofline", "target.yaml", "--svg", "none/roofline.svg")
    assert code == 2
    assert "none/roofline.svg" in err
    assert "try: name a file in a folder that is there" in err


def test_classify_says_what_limits(here: Path) -> None:
    code, out, _ = roofsmith("classify", "target.yaml", "--json")
    [bottleneck] = json.loads(out)["bottlenecks"]
    assert code == 0
    assert bottleneck["workload"] == "n=100000"
    assert bottleneck["evidence"]
