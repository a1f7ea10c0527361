"""A small C repository whose profiles are recorded ones, or perf's own.

Its benchmark reports work that the kernel counts, so that verdicts are the same on any machine; the
kernels' times are recorded, times a number that stands in the kernel's file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from repository_bench import git, needs_git, run, without_ceilings

from roofsmith.api.repositories import open_target_repository
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, RolledBack, replay
from roofsmith.domain.command import EditableShare
from roofsmith.domain.profile import Profile
from roofsmith.domain.target import Target
from roofsmith.engine.verify import verify
from roofsmith.errors import TargetError
from roofsmith.profilers.perf import find_perf
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import SilentObserver

pytestmark = [
    needs_git,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

RECORDED = Path(__file__).parents[1] / "golden" / "gpu"
KERNEL = """\
#include "sums.h"
#define WAITS 10
#define STEPS 4
/* What ran when it was recorded:
__global__ void _kernel_solve_body_tiled_wc_amdgpu_c530_0_kernel_0_range_for(...) */
float rowsum(const float *x, long n) {
    float sum = 0;
    for (int step = 0; step < STEPS; step++)
        for (long i = 0; i < n; i++) {
            sum += x[i] * (step == 0);
            work++;
        }
    return sum;
}
"""
FILES = {
    "src/rowsum.c": KERNEL,
    "src/sums.h": "extern long work;\nfloat rowsum(const float *x, long n);\n",
    "bench.c": """\
#include <stdio.h>
#include <stdlib.h>
#include "src/sums.h"
long work;
int main(int count, char **words) {
    puts("n,us,err");
    for (long n = 1024; n <= 4096; n *= 2) {
        float *x = malloc(n * sizeof *x);
        for (long i = 0; i < n; i++) x[i] = 1;
        work = 0;
        float sum = 0;
        for (int turn = 0; turn < (count > 1 ? atoi(words[1]) : 1); turn++) sum = rowsum(x, n);
        printf("%ld,%g,%d\\n", n, work / 1000.0, sum != n);
        free(x);
    }
}
""",
    "Makefile": "bench: bench.c src/rowsum.c\n\tcc -O1 -g -o $@ $^\n",
    "replay.py": """\
import csv, glob, pathlib, re, shutil
waits = int(re.search(r"WAITS (\\d+)", pathlib.Path("src/rowsum.c").read_text())[1])
pathlib.Path("prof").mkdir(exist_ok=True)
for name in glob.glob("recorded/*.csv"):
    rows = list(csv.DictReader(open(name)))
    for row in rows:
        if "kernel_trace" in name:
            took = int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
            row["End_Timestamp"] = int(row["Start_Timestamp"]) + took * waits // 10
    with open(f"prof/{pathlib.Path(name).name.replace('_mi300x', '')}", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
""",
    ".gitignore": "bench\nprof/\n*.data\nperf.csv\n",
}
TARGET = {
    "name": "rowsum",
    "keep": {"error_rate": 0.3},
    "command": {
        "editable": ["src/rowsum.c"], "build": "make -B bench", "benchmark": "./bench",
        "gate": "err == 0", "metric": "us", "unit": "us", "rows": ["n"],
        "profile": {
            "command": "python3 replay.py", "results": "prof/*_kernel_trace.csv",
            "kernel": "^_?kernel_",
        },
    },
}  # fmt: skip


def repository(folder: Path, **command: object) -> Path:
    """With one commit; what is given replaces keys of the target's command."""
    shutil.copytree(RECORDED, folder / "recorded", ignore=lambda _, names: [
        name for name in names if not name.endswith("mi300x.csv")])  # fmt: skip
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    known = {**TARGET, "command": {**TARGET["command"], **command}}
    (folder / "target.yaml").write_text(yaml.safe_dump(known))
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


def begin(here: Path, monkeypatch: pytest.MonkeyPatch, **command: object) -> None:
    monkeypatch.setattr("roofsmith.api.doctor.DEADLINE_S", 300.0)  # this machine may be busy
    without_ceilings(monkeypatch, here / "cache")
    monkeypatch.chdir(here)
    repository(here / "repo", **command)
    code, _, err = run("optimize", "repo", "--proposer", "none", "--output", "run")
    assert code == 0, err


def tell(here: Path, text: str) -> dict[str, object]:
    (here / "rowsum.c").write_text(text)
    _, out, err = run(
        "tell", "run", "--kernel", "rowsum.c", "--hypothesis", "fewer steps", "--json"
    )
    assert out, err
    found: dict[str, object] = json.loads(out)
    return found


def campaign_of(here: Path) -> Campaign:
    events = JsonlLedger(here / "run/ledger.jsonl").events()
    assert not verify(events)
    campaign = replay(events)
    assert campaign is not None
    return campaign


def surveyed(folder: Path, **command: object) -> tuple[Target, EditableShare | None, Profile]:
    """What a first look at a repository on a GPU finds, and its profile."""
    target = load_target(repository(folder / "repo", **{"device": "gpu", **command}))
    with open_target_repository(target, Settings(folder / "cache", folder)) as parts:
        found, share = parts.surveyed(target, SilentObserver())
        built = parts.toolchain.build(found.baseline)
        return found, share, parts.profiler.profile(built, found.workloads[0])


@pytest.mark.rule("profile-command-decides")
def test_a_regression_is_one_by_the_profiler_and_the_hottest_kernel_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path, monkeypatch)
    brief = run("ask", "run", "--format", "md")[1]
    assert "kernel_solve_body" in brief
    assert 'puts("n,us,err");' in brief
    assert "extern long work;" in brief
    tie = tell(tmp_path, KERNEL.replace("WAITS 10", "WAITS 12"))
    assert (tie["decision"], tie["verdict"]) == ("rolled_back", "tie")
    assert "by the target's profiler slower" in str(tie["rule"])
    assert run("close", "run", "--json")[0] in (0, 1, 2)
    code, _, err = run("resume", "run", "--proposer", "none")
    assert code == 0, err
    page = (tmp_path / "run/performance.md").read_text()
    (row,) = [line for line in page.splitlines() if "fewer steps" in line]
    assert "kernel_solve_body" in row.partition("hottest: ")[2]
    assert "share of time" in row
    loss = tell(tmp_path, KERNEL.replace("STEPS 4", "STEPS 5"))
    assert "by the target's profiler a tie" in str(loss["rule"])
    gain = tell(tmp_path, KERNEL.replace("STEPS 4", "STEPS 2").replace("WAITS 10", "WAITS 5"))
    assert gain["decision"] == "kept"
    rounds = campaign_of(tmp_path).rounds
    assert [isinstance(r.decision, RolledBack) and r.decision.regression for r in rounds] == [
        True, False, False,
    ]  # fmt: skip
    assert all(r.profile is not None and r.profile.kernels for r in rounds)
    page = (tmp_path / "run/performance.md").read_text()
    assert "128 + 160 accumulation, 112 scalar" in page
    last = campaign_of(tmp_path).rounds[-1].round
    artifacts = tmp_path / f"run/profiles/round-{last}"
    assert any(path.name.endswith("kernel_trace.csv") for path in artifacts.rglob("*"))


def test_on_a_gpu_what_its_kernels_take_bounds_the_gain(tmp_path: Path) -> None:
    target, share, profile = surveyed(tmp_path)
    assert share is not None
    assert share.of_gpu_time
    hottest = profile.kernels[0]
    assert share.part == pytest.approx(hottest.share, rel=1e-3)
    assert "GPU time" in share.sentence
    assert (profile.tool, hottest.limiters) == ("rocprofv3", ("registers",))
    assert [source.path for source in target.reference_files][:1] == ["bench.c"]


def test_its_kernels_bound_the_gain_where_a_target_leaves_the_gpu_unsaid(tmp_path: Path) -> None:
    _, share, profile = surveyed(tmp_path, device="cpu")
    assert share is not None
    assert share.of_gpu_time
    assert share.part == pytest.approx(profile.kernels[0].share, rel=1e-3)


@pytest.mark.parametrize("command", ["exit 3", "no_such_profiler --trace ./bench"])
def test_a_profiler_that_gives_no_time_stops_before_round_1(tmp_path: Path, command: str) -> None:
    broken = {"command": command, "results": "prof/*.csv"}
    with pytest.raises(TargetError, match="gives no kernel time") as raised:
        surveyed(tmp_path, profile=broken)
    assert command in raised.value.message


def test_counters_of_ncu_are_classified_by_the_rules_of_gpus(tmp_path: Path) -> None:
    name = "ncu_set_full_page_raw_softmax_h100.csv"
    (tmp_path / name).write_bytes((RECORDED / name).read_bytes())
    launches = "printf 'Kernel_Name,us\\nsoftmax_v3,3\\n'"
    _, _, profile = surveyed(
        tmp_path,
        profile={
            "command": f"mkdir -p prof && {launches} > prof/times.csv", "results": "prof/times.csv",
            "time": "us", "unit": "us", "counters": f"cp {tmp_path}/{name} prof/ncu.csv",
        },
    )  # fmt: skip
    assert profile.tool == "ncu"
    assert profile.kernels
    assert profile.get("dram_throughput") is not None


def test_pages_of_other_tools_need_no_columns(tmp_path: Path) -> None:
    page = RECORDED / "ncu_set_full_page_raw_softmax_h100.csv"
    said = {"command": f"cp {page} ncu.csv", "results": "ncu.csv"}
    _, _, profile = surveyed(tmp_path, profile={**said, "kernel": "^softmax"})
    assert profile.get("kernel_time_s") == pytest.approx(profile.kernels[0].mean_s)
    assert (profile.tool, profile.kernel) == ("ncu", "softmax_v3")


@pytest.mark.parametrize("more", [{"kernel": "gemm"}, {"time": "us"}])
def test_of_such_a_page_what_is_said_counts(tmp_path: Path, more: dict[str, str]) -> None:
    page = RECORDED / "ncu_set_full_page_raw_softmax_h100.csv"
    said = {"command": f"cp {page} ncu.csv", "results": "ncu.csv"}
    with pytest.raises(TargetError, match="gives no kernel time"):
        surveyed(tmp_path, profile={**said, **more})


@pytest.mark.skipif(find_perf() is None, reason="needs perf")
def test_a_processors_functions_are_perfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = "perf record -q -e cpu-clock -F 2000 -o perf.data ./bench 3000 > perf.log"
    report = "perf report -i perf.data --stdio -t, -F period,sample,sym > perf.csv"
    profile = {
        "command": f"{record} && {report}", "results": "perf.csv", "name": "Symbol",
        "time": "Period", "kernel": r"rowsum\s*$", "steps": 1,
    }  # fmt: skip
    begin(tmp_path, monkeypatch, profile=profile)
    baseline = campaign_of(tmp_path).baseline
    assert baseline is not None
    assert baseline.profile.kernel == "rowsum"
    hottest = baseline.profile.kernels[0]
    assert (hottest.name, hottest.launches) == ("rowsum", 0)
    assert hottest.share > 0.5
    assert "| rowsum |" in (tmp_path / "run/performance.md").read_text()
    half = tell(tmp_path, KERNEL.replace("STEPS 4", "STEPS 2"))
    assert half["decision"] == "kept", half["rule"]
    assert "steps" in " ".join(map(str, half["beside_its_idea"])) or not half["beside_its_idea"]
