"""Cards propose for C files of a repository as they do for kernels."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

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
SHARES = """\
void shares(const float *x, float *y, int n) {
    float total = 0;
    for (int i = 0; i < n; i++) total += x[i];
    for (int i = 0; i < n; i++) y[i] = x[i] / total;
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
def test_one_of_a_repositorys_files_is_changed_and_still_compiles(tmp_path: Path) -> None:
    asked = brief(**{"src/sum.c": ENTROPY, "src/shares.c": SHARES})
    assert RecipeProposer().ask(asked, FakeScreen()) is not None
    found = ideas(asked)["hoist-division"]
    assert [source.path for source in found.sources] == ["src/sum.c", "src/shares.c"]
    assert found.sources[0].text == ENTROPY
    assert (found.language, found.build) == ("command", asked.incumbent.build)
    (tmp_path / "shares.c").write_text(found.sources[1].text)
    subprocess.run(["cc", "-O2", "-c", "shares.c"], cwd=tmp_path, check=True)


def test_cards_that_need_another_build_or_a_contract_are_left_out() -> None:
    """The build is the repository's, and its callers may pass one array twice."""
    found = ideas(brief(**{"src/shares.c": SHARES, "README.md": "float a;"}))
    assert found
    assert not {"parallel-loops", "restrict-pointers", "simd-reductions"} & {*found}
