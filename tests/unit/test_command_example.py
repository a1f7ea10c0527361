"""The example repository: it builds, passes its own test, and its target reads what it writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from recipe_bench import needs_gcc
from repository_bench import git, needs_git, run, without_ceilings

from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.proposers.tunables import apply, declared_tunables

EXAMPLE = Path(__file__).parents[2] / "examples" / "command"

pytestmark = [needs_git, needs_gcc, pytest.mark.skipif(not shutil.which("make"), reason="no make")]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_ceilings(monkeypatch, tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "paged attention"
    shutil.copytree(EXAMPLE, folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


@pytest.mark.slow
def test_it_builds_passes_and_gives_six_classes(example: Path) -> None:
    code, _, err = run("check", example)
    assert code == 0, err
    code, out, _ = run("bench", example, "--json")
    assert code == 0
    timings = json.loads(out)["timings"]
    assert len({timing["class"] for timing in timings}) == len(timings) == 6
    assert all(timing["time_s"] > 0 for timing in timings)


@pytest.mark.parametrize(("lanes", "width"), [(1, 1), (4, 32), (16, 4)])
def test_what_a_sweep_may_set_keeps_it_right(example: Path, lanes: int, width: int) -> None:
    path = example / "src" / "paged_attention.c"
    kernel = Candidate(language="c", sources=(SourceFile(path=path.name, text=path.read_text()),))
    assert set(declared_tunables(kernel)) == {"LANES", "WIDTH"}
    path.write_text(apply(kernel, {"LANES": lanes, "WIDTH": width}).kernel.text)
    subprocess.run(["make", "all", "test"], cwd=example, check=True, capture_output=True)
    subprocess.run(["./bench/bench", "results.csv"], cwd=example, check=True)
    _, *rows = (example / "results.csv").read_text().splitlines()
    assert len(rows) == 6
    assert all(row.endswith(",0") for row in rows)


def test_a_wrong_kernel_fails_its_gate(example: Path) -> None:
    source = example / "src" / "paged_attention.c"
    text = source.read_text()
    wrong = text.replace("= sum[w] / total;", "= sum[w];")
    assert wrong != text
    source.write_text(wrong)
    target = example / "target.yaml"
    target.write_text(target.read_text().replace("  test: make test\n", ""))
    git(example, "commit", "--quiet", "--all", "--message", "wrong")
    code, _, err = run("check", example)
    assert code == 1
    assert "6 of 6 rows fail" in err
