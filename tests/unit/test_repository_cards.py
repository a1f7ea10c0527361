"""Cards propose for C and CUDA files of a repository as they do for kernels."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_build_files import HISTOGRAM

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate, SourceFile, default_build
from roofsmith.ports import Brief
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.testing.proposer import FakeScreen, brief_for

ENTROPY = """\
double sum(const double *x, const int *at, int n) {
    double total = 0;
    for (int i = 0; i < n; i++) total += x[at[i]] / 3.0;
    return total;
}
"""
COPY = """\
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = expf(x[i]) / (1.0f + expf(x[i]));
}
extern "C" void run_scale(const float *x, float *y, int n) {
    scale<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""


def brief(**files: str) -> Brief:
    sources = tuple(SourceFile(path=path, text=text) for path, text in files.items())
    candidate = Candidate(language="command", sources=sources, build=default_build("command"))
    found = brief_for(candidate.model_copy(update={"language": "c"}))
    spec = CommandSpec(
        repo="/r", editable=tuple(files), benchmark="b", metric="us", rows=("n",), build="make"
    )
    own = {"language": "command", "command": spec}
    target = found.campaign.started.target.model_copy(update=own)
    started = found.campaign.started.model_copy(update={"target": target})
    campaign = found.campaign.model_copy(update={"started": started})
    return replace(found, campaign=campaign, incumbent=candidate)


def ideas(asked: Brief) -> dict[str, Candidate]:
    return {idea.card.id: idea.change.candidate for idea in RecipeProposer().ideas(asked)}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_a_repositorys_histogram_gets_private_tables(tmp_path: Path) -> None:
    asked = brief(**{"src/sum.c": ENTROPY, "src/hist.c": HISTOGRAM["src/hist.c"]})
    proposal = RecipeProposer().ask(asked, FakeScreen())
    assert proposal is not None
    found = ideas(asked)["private-tables"]
    assert [source.path for source in found.sources] == ["src/sum.c", "src/hist.c"]
    assert found.sources[0].text == ENTROPY
    assert (found.language, found.build) == ("command", asked.incumbent.build)
    for path, text in (HISTOGRAM | {source.path: source.text for source in found.sources}).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["cc", "-O2", "test.c", "src/hist.c", "-o", "t"], cwd=tmp_path, check=True)
    subprocess.run(["./t"], cwd=tmp_path, check=True)


def test_cards_that_need_another_build_or_a_contract_are_left_out() -> None:
    """The build is the repository's, and its callers may pass one array twice."""
    found = ideas(brief(**{"src/hist.c": HISTOGRAM["src/hist.c"], "README.md": "float a;"}))
    assert not {"math-flags", "parallel-loops", "restrict-pointers"} & {*found}


def test_a_repositorys_cuda_file_gets_ideas() -> None:
    found = ideas(brief(**{"ops/scale.cu": COPY}))
    assert "fast-intrinsics" in found
    assert {candidate.language for candidate in found.values()} == {"command"}
    assert not any(name.endswith("-cuda") for name in found), "whole implementations are a `solve`"
