"""docs/kernels.md: from a file to a judged change, with what the page shows and nothing else."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from repository_bench import without_ceilings, without_profilers
from typer.testing import CliRunner

from kinds import another
from roofsmith.api.reading import read_campaign
from roofsmith.cli.root import cli
from roofsmith.judge import patience

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
SECTIONS = {
    title: text
    for title, text in re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    if "First it tries" in text
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LESS = {
    "n=4000000": "n=400000",
    "rows=20000": "rows=2000",
    "nnz=400000": "nnz=40000",
    "N=96": "N=48",
}


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "N", text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("title", [next(iter(SECTIONS)), *map(another, [*SECTIONS][1:])])
def test_the_page_s_kernels_come_to_a_judged_change(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ceilings(monkeypatch, tmp_path / "cache")
    without_profilers(monkeypatch, tmp_path)
    monkeypatch.setattr(patience, "LONGEST_S", 3.0)  # whatever the verdict is
    monkeypatch.chdir(tmp_path)
    text = SECTIONS[title]
    blocks = dict(FENCE.findall(text))
    kernel, reference = re.findall(r"^`(\S+)`:$", text, re.M)
    (tmp_path / kernel).write_text(blocks["c"])
    (tmp_path / reference).write_text(blocks["python"])
    for line in blocks["sh"].splitlines():
        for much, little in LESS.items():
            line = line.replace(much, little)
        done = CliRunner().invoke(cli, shlex.split(line)[1:])
        if "disturbed" in done.stderr:
            pytest.skip(f"this machine is too busy to measure: {done.stderr.strip()}")
        assert done.exit_code == 0, (line, done.stdout, done.stderr)
        if " init " in line:
            target = tmp_path / "target.yaml"
            keep = "keep: {judge_budget_s: 1, error_rate: 0.1}"
            target.write_text(f"{target.read_text()}\nheld_out: 0\n{keep}\n")
    first, *_ = read_campaign(tmp_path / "campaign").rounds
    (said,) = re.findall(r"First it tries: (.*)\.$", text, re.M)
    assert without_numbers(first.hypothesis.statement) == without_numbers(said)
    assert first.judgement.outcome.kind == "passed"
