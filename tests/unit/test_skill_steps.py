"""A scripted agent that knows nothing but the pages runs their steps, in their order."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brief_targets import make_brief
from repository_bench import without_profilers
from test_app import require_quiet, roofsmith
from test_skills import blocks

from roofsmith import api
from roofsmith.judge import patience

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]

OF_REPOSITORY = "kernel-optimize"
SLOW = """\
void solve(const float *x, float *y, int N, int D)
{
    for (int i = 0; i < N * D; i++) {
        volatile float sum = 0.0f;
        for (int k = 0; k < 16; k++)
            sum += 0.125f * x[i];
        y[i] = sum;
    }
}
"""
FAST = """\
void solve(const float *x, float *y, int N, int D)
{
    for (int i = 0; i < N * D; i++)
        y[i] = 2.0f * x[i];
}
"""
REFERENCE = """\
import numpy as np

def setup(N, D, seed=0):
    x = np.random.default_rng(seed).standard_normal(N * D, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}

def reference(x, y, N, D):
    np.multiply(x, x.dtype.type(2), out=y)

def flops(N, D):
    return N * D
"""
SCALE = """\
void scale(const double *x, double *y, long n)
{
    for (long i = 0; i < n; i++)
        y[i] = 2 * x[i];
}
"""
BENCH = """\
#include <stdio.h>
#include <time.h>
void scale(const double *x, double *y, long n);
static double x[100000], y[100000];
int main(void)
{
    FILE *file = fopen("results.csv", "w");
    fprintf(file, "n,us,err\\n");
    for (long n = 10000; n <= 100000; n *= 10) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 100; i++)
            scale(x, y, n);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double us = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e5;
        fprintf(file, "%ld,%f,%g\\n", n, us, y[n - 1] - 2 * x[n - 1]);
    }
    return fclose(file);
}
"""
MAKEFILE = """\
bench: bench.c src/scale.c
\tcc -O1 -o $@ $^
check: bench
\t./bench
.PHONY: check
"""
REPOSITORY = {
    "src/scale.c": SCALE,
    "bench.c": BENCH,
    "Makefile": MAKEFILE,
    ".gitignore": "bench\nresults.csv\n",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Path]:
    """Where the main page's steps are gone, and then those of the others."""
    folder = tmp_path_factory.mktemp("steps")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("ROOFSMITH_CACHE", str(cache))
        patched.setattr(patience, "LONGEST_S", 3.0)
        without_profilers(patched, folder)
        for name, text in {"kernel.c": SLOW, "mine.c": FAST, "reference.py": REFERENCE}.items():
            Path(name).write_text(text)
        yield folder


@pytest.mark.timing
def test_the_steps_lead_to_a_kept_change(place: Path) -> None:
    told: dict[str, Any] = {}
    for words in _steps("roofsmith"):
        if words[0] == "optimize":
            words += ["--max-iterations", "1"]  # as many as show that it can be done
        elif words[0] == "tell":
            _answer(Path("run"), FAST)
            words += ["--max-iterations", "9"]
        code, out, err = roofsmith(*words)
        require_quiet(err)
        if words[0] == "init":
            make_brief(Path("target.yaml"))
        if words[0] == "tell":
            told = json.loads(out)
            assert told["refused"] is None, told
            if told["verdict"] in ("unverified", "inconclusive"):
                pytest.skip(f"this machine is too busy to judge: {told['notes']}")
        assert code == 0, (words, out, err)
    assert told["decision"] == "kept"
    assert told["speedup"] > 2
    assert Path("run/final_report.md").is_file()


@pytest.mark.parametrize(
    "page", [skill.name for skill in api.skills() if skill.name not in ("roofsmith", OF_REPOSITORY)]
)
def test_the_steps_of_the_other_pages_run(
    place: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_EXPERIENCE", str(place / "experience.db"))
    if not Path("run").is_dir():
        pytest.skip("the main page's steps left no campaign")
    for words in _steps(page):
        if words[0] in ("optimize", "tell") or words[:2] == ["specs", "measure"]:
            continue  # the main page does, and a campaign measures ceilings
        code, out, err = roofsmith(*words)
        require_quiet(err)
        assert code == 0 or (code == 1 and words[0] == "judge"), (words, out, err)


def test_the_steps_of_a_repository_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place / "repo"
    for name, text in REPOSITORY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm kernel"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    for words in _steps(OF_REPOSITORY):
        if words[0] == "optimize":
            with Path("target.yaml").open("a") as target:
                target.write("keep: {error_rate: 0.3}\n")  # fewer runs
        if words[0] == "tell":
            _answer(Path("run"), SCALE.replace("i++)", "++i)"))
            words += ["--max-iterations", "9"]
        code, out, err = roofsmith(*words)
        assert code == 0 or (code == 1 and words[0] == "tell"), (words, out, err)
    assert len([*Path("run/asks").iterdir()]) == 1


def _steps(page: str) -> Iterator[list[str]]:
    """The command lines of a page, for a small kernel in C."""
    for block in blocks(api.skill(page).read(), "sh"):
        for line in block.splitlines():
            smaller = line.replace("N=4096,D=4096", "N=100,D=1000").replace(".cu", ".c")
            words = shlex.split(smaller)[1:]
            if "--ref" in words and words[0] != "init":
                words += ["--threads", "1"]
            if words[0] == "judge":
                words += ["--budget", "1"]
            yield words


def _answer(run: Path, text: str) -> None:
    """What somebody who read the brief answers."""
    [folder] = (run / "asks").iterdir()
    brief = json.loads((folder / "brief.json").read_text())
    answer = {
        "round": brief["round"],
        "statement": "Multiply once per element instead of sixteen times",
        "rationale": "the inner loop repeats the same product",
        "evidence": [next(iter(brief["evidence"]))],
        "answers": brief["bottleneck"]["kind"],
        "files": dict.fromkeys(brief["kernel"]["files"], text),
    }
    Path("proposal.json").write_text(json.dumps(answer))
