"""The card that writes a file's CUDA kernels from what its reference computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from briefs import brief_of
from campaign_builder import softmax_events

from roofsmith.domain.campaign import replay
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate
from roofsmith.ports import Brief
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.proposers.recipes.cuda import schedule
from roofsmith.proposers.tunables import find_tunables
from roofsmith.targets.file import load_target
from roofsmith.toolchains.signature import read_signature

EXAMPLES = Path(__file__).parents[2] / "examples" / "cuda"
GPU = Device(kind="nvidia", name="a GPU", cores=132, arch="sm_90")


@pytest.fixture(scope="module")
def brief() -> Brief:
    """Of a campaign on a GPU that begins with a softmax of three loops."""
    target = load_target(EXAMPLES / "softmax" / "naive.yaml")
    found = brief_of(replay(softmax_events()))
    started = found.campaign.started.model_copy(update={"target": target})
    campaign = found.campaign.model_copy(update={"started": started, "rounds": ()})
    candidate = Candidate(language="cuda", sources=(target.kernel,))
    signature = read_signature(candidate)
    return replace(
        found, campaign=campaign, incumbent=candidate, device=GPU, repair=None, signature=signature
    )


def test_it_is_offered_and_not_again(brief: Brief) -> None:
    ideas = {idea.card.id: idea for idea in RecipeProposer().ideas(brief)}
    change = ideas["cuda-schedule"].change
    text = change.candidate.kernel.text
    assert 'extern "C" void solve(const float *input, float *output, int N, int D)' in text
    assert "output_rows<" in text
    kept = replace(CardContext.of(brief), candidate=change.candidate)
    assert schedule.apply(kept) is None
    assert schedule.predict(kept) == 1.0


def test_the_sweep_finds_its_settings(brief: Brief) -> None:
    change = schedule.apply(CardContext.of(brief))
    assert change is not None
    found = {one.name for one in find_tunables(change.candidate, threads=1).tunables}
    assert {"WARPS", "PER_THREAD", "LONG_THREADS"} <= found


def test_it_says_nothing_that_takes_queues_or_clocks(brief: Brief) -> None:
    change = schedule.apply(CardContext.of(brief))
    assert change is not None
    assert not change.candidate.names_streams


def test_no_kernel_for_a_processor_or_without_a_reference(brief: Brief) -> None:
    context = CardContext.of(brief)
    cpu = Device(kind="cpu", name="a processor", cores=2)
    assert schedule.apply(replace(context, device=cpu)) is None
    assert schedule.apply(replace(context, target=None)) is None
