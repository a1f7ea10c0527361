"""A repository's quick command may reject a change, and keeps none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from repository_bench import BENCHMARK, KERNEL, TARGET, make_repository, needs_git
from test_command_campaign import begin, here, tell

from roofsmith.domain.campaign import Campaign, replay
from roofsmith.engine.verify import verify
from roofsmith.store.ledger import JsonlLedger

pytestmark = [needs_git, pytest.mark.slow]
__all__ = ["here"]  # a fixture

ROWS = "".join(f"16 {mtp} {size} {mtp * size / 10:.1f} 0\n" for mtp in (1, 2) for size in
               (64, 128, 256, 512))  # fmt: skip
QUICK = """\
import json, os, pathlib
wanted = json.loads(os.environ["ROOFSMITH_ROWS"])
rows = [line.split() for line in pathlib.Path("src/pa.rows").read_text().splitlines()]
pathlib.Path("out").mkdir(exist_ok=True)
with open("out/quick.csv", "w") as file:
    print("block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps", file=file)
    for row in rows:
        sizes = dict(zip(("block_size", "mtp", "head_size"), map(int, row)))
        if sizes in wanted or row[2] == "64":  # and more than it was asked for
            print(",".join(row), file=file)
"""
COUNTED = BENCHMARK.replace("mkdir", "echo run >> '@RUNS@'\nmkdir", 1)
SLOWER = ROWS.replace("51.2 0", "81.2 0").replace("102.4 0", "202.4 0")


@pytest.fixture
def begun(here: Path) -> Path:
    target = TARGET.replace("  results", "  quick: python3 quick.py\n  results").replace(
        "classes: [block_size, mtp, head_size]", "rows: [head_size]\n  classes: [block_size, mtp]"
    )
    make_repository(
        here / "other", target_yaml=target, quick_py=QUICK, src__pa_rows=ROWS,
        bench_sh=COUNTED.replace("@RUNS@", str(here / "runs")),
    )  # fmt: skip
    begin(here, "other")
    (here / "runs").unlink()
    return here


def campaign_of(here: Path) -> Campaign:
    events = JsonlLedger(here / "run/ledger.jsonl").events()
    assert not verify(events)
    campaign = replay(events)
    assert campaign is not None
    return campaign


@pytest.mark.parametrize("rows", [SLOWER, ROWS.replace("51.2 0", "31.2 1"), ROWS + "\n"])
def test_what_is_wrong_slower_or_a_tie_on_a_few_rows_never_runs_the_benchmark(
    begun: Path, rows: str
) -> None:
    code, told = tell(begun, rows)
    assert (code, told["decision"]) == (1, "rolled_back")
    assert not (begun / "runs").exists()
    (round_,) = campaign_of(begun).rounds
    assert round_.judgement.validation == "quick"
    labels = {sample.workload for sample in round_.judgement.samples}
    assert labels <= set(campaign_of(begun).baseline.representative)


def test_what_gains_on_a_few_rows_is_judged_on_all(begun: Path) -> None:
    """And isn't kept for those alone: the others lose."""
    few = campaign_of(begun).baseline.representative
    lines = []
    for line in ROWS.splitlines():
        block, mtp, size, us, err = line.split()
        asked = f"block_size={block},mtp={mtp},head_size={size}" in few
        lines.append(f"{block} {mtp} {size} {float(us) * (0.5 if asked else 2):.1f} {err}\n")
    code, told = tell(begun, "".join(lines))
    assert (code, told["decision"]) == (1, "rolled_back")
    assert (begun / "runs").exists()
    (round_,) = campaign_of(begun).rounds
    assert (round_.judgement.validation, bool(round_.judgement.quick)) == ("full", True)


def test_the_campaign_holds_a_script_that_looks(begun: Path) -> None:
    manifest = yaml.safe_load((begun / "run/manifest.yaml").read_text())
    assert manifest["quick_command"] == "python3 quick_test_bench.py"
    assert manifest["quick_rows_command"] == "python3 quick.py"
    script = (begun / "run/quick_test_bench.py").read_text()
    assert all(repr(label) in script for label in manifest["representative_shapes"])
    (begun / "run/worktree" / KERNEL).write_text(SLOWER)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ran = subprocess.run(
        [sys.executable, "quick_test_bench.py", "--json"], cwd=begun / "run", check=False,
        capture_output=True, text=True, timeout=600, env={**os.environ, "PATH": path},
    )  # fmt: skip
    seen = json.loads(ran.stdout)
    assert (ran.returncode, seen["right"]) == (0, True), ran.stderr
    assert len(seen["workloads"]) == len(manifest["representative_shapes"])
    assert not (begun / "runs").exists()
    assert not campaign_of(begun).rounds
