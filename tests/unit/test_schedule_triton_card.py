"""The card that writes a module's Triton kernels from what its reference computes."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from briefs import brief_of
from campaign_builder import softmax_events
from triton_kernels import needs_triton

from roofsmith.domain.campaign import replay
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.ports import Brief
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.proposers.recipes.triton import schedule
from roofsmith.proposers.tunables import find_tunables
from roofsmith.targets.file import load_target

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"
GPU = Device(kind="nvidia", name="a GPU", cores=132, arch="sm_90")
pytestmark = needs_triton


@pytest.fixture(scope="module")
def brief() -> Brief:
    """Of a campaign on a GPU that begins with a softmax of three loops."""
    target = load_target(EXAMPLES / "softmax" / "naive.yaml")
    found = brief_of(replay(softmax_events()))
    started = found.campaign.started.model_copy(update={"target": target})
    campaign = found.campaign.model_copy(update={"started": started, "rounds": ()})
    kernel = SourceFile(path="naive.py", text=target.kernel.text)
    candidate = Candidate(language="triton", sources=(kernel,))
    return replace(found, campaign=campaign, incumbent=candidate, device=GPU, repair=None)


def test_it_is_offered_first_and_not_again(brief: Brief) -> None:
    first = RecipeProposer().ideas(brief)[0]
    assert first.card.id == "triton-schedule"
    text = first.change.candidate.kernel.text
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert {"setup", "run_kernel", "output_rows"} <= names
    kept = replace(CardContext.of(brief), candidate=first.change.candidate)
    assert schedule.apply(kept) is None
    assert schedule.predict(kept) == 1.0


def test_the_sweep_finds_its_settings(brief: Brief) -> None:
    change = schedule.apply(CardContext.of(brief))
    assert change is not None
    found = {one.name for one in find_tunables(change.candidate, threads=1).tunables}
    assert {"HELD", "PER_THREAD", "GROUP"} <= found


def test_no_kernel_for_a_processor_or_without_a_reference(brief: Brief) -> None:
    context = CardContext.of(brief)
    cpu = Device(kind="cpu", name="a processor", cores=2)
    assert schedule.apply(replace(context, device=cpu)) is None
    assert schedule.apply(replace(context, target=None)) is None
