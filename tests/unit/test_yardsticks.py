"""Yardsticks: what PyTorch makes of the reference, judged beside the final kernel."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from briefs import brief_of
from campaign_builder import softmax_events

from roofsmith.asking.progress import directions
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built, Candidate, Language, SourceFile
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.yardstick import (
    PyTorchBaseline,
    PyTorchBaselineResult,
    PyTorchBaselines,
    pytorch_yardsticks,
    torch_calls,
)
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import BaselineError
from roofsmith.ports import Scope
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeJudge, FakeKernels
from roofsmith.toolchains.module import ModuleToolchain

SOFTMAX = """
import torch


def reference(x, y, N, D):
    y.copy_(torch.softmax(x, dim=-1))"""


def gpu_target(language: Language = "cuda", reference: str = SOFTMAX) -> Target:
    return fake_target(language=language, reference=SourceFile(path="reference.py", text=reference))


def fake_yardstick(name: str) -> PyTorchBaseline:
    return PyTorchBaseline(name=name, candidate=fake_idea(fake_target(), name).candidate)


def world(**times_s: float) -> FakeWorld:
    """One idea that halves the kernel's 1 ms, and yardsticks of the given times."""
    target = fake_target()
    idea = fake_idea(target, "idea")
    kernels = FakeKernels()
    kernels.add(idea.candidate, time_s=0.5e-3)
    yardsticks = tuple(fake_yardstick(name) for name in times_s)
    for yardstick in yardsticks:
        kernels.add(yardstick.candidate, time_s=times_s[yardstick.name])
    return FakeWorld(target=target, kernels=kernels, ideas=[idea], yardsticks=yardsticks)


def run(here: FakeWorld) -> Campaign:
    return Engine(here.parts(), "test").run()


def recorded(here: FakeWorld) -> list[PyTorchBaselines]:
    return [event for event in here.records if isinstance(event, PyTorchBaselines)]


def beside_the_baseline(
    yardstick: PyTorchBaseline, judge: FakeJudge | None = None
) -> tuple[PyTorchBaselineResult, ...]:
    here = replace(world(), judge=judge)
    scope = Scope(yardsticks=(yardstick,))
    return here.evaluator().evaluate(here.target.baseline, None, scope).yardsticks


# -- what they are made of ------------------------------------------------------------------


@pytest.mark.parametrize("language", ["cuda", "hip", "triton", "torch"])
def test_a_gpu_kernel_has_the_reference_and_what_compile_makes_of_it(
    language: Language, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = pytorch_yardsticks(gpu_target(language))
    assert [y.name for y in made] == [
        "eager",
        "torch.compile",
        "torch.compile max-autotune-no-cudagraphs",
    ]
    toolchain = ModuleToolchain(tmp_path_factory.mktemp("builds"))
    for yardstick in made:
        assert isinstance(toolchain.build(yardstick.candidate), Built)


def test_yardsticks_use_tf32_only_where_the_target_allows_it() -> None:
    allowed = gpu_target().model_copy(update={"tf32": True})
    for target, said in ((gpu_target(), "False"), (allowed, "True")):
        for yardstick in pytorch_yardsticks(target):
            text = yardstick.candidate.kernel.text
            assert ast.parse(text)
            assert f".allow_tf32 = {said}" in text
            assert "ALLOWED" not in text


def test_a_kernel_of_the_host_has_none() -> None:
    assert pytorch_yardsticks(fake_target()) == ()


def test_the_entry_of_eager_is_the_reference_itself() -> None:
    eager = pytorch_yardsticks(gpu_target())[0]
    tree = ast.parse(eager.candidate.kernel.text)
    assert ast.unparse(tree.body[-1]) == "run_kernel = reference"


def test_every_mode_of_compile_is_in_its_text() -> None:
    _, default, tuned = pytorch_yardsticks(gpu_target())
    assert "mode='default'" in default.candidate.kernel.text
    assert "mode='max-autotune-no-cudagraphs'" in tuned.candidate.kernel.text


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("y.copy_(torch.softmax(x, -1))", ("torch.softmax",)),
        ("y.copy_(a @ b)", ("@",)),
        ("y.copy_(F.gelu(F.gelu(x)))", ("F.gelu",)),
        ("y.copy_(torch.nn.functional.gelu(x))", ("torch.nn.functional.gelu",)),
        ("y.copy_(x.sum())", ()),
    ],
)
def test_calls_of_pytorch_are_read_from_the_reference(body: str, calls: tuple[str, ...]) -> None:
    text = f"def helper():\n    torch.zeros(3)\n\n\ndef reference(x, y):\n    {body}\n"
    assert torch_calls(text) == calls


def test_a_reference_that_does_not_parse_calls_nothing() -> None:
    assert torch_calls("def reference(:") == ()


# -- how they are measured ------------------------------------------------------------------


@pytest.mark.rule("pytorch-baseline")
def test_they_are_measured_beside_the_final_kernel_before_the_end() -> None:
    here = world(eager=1e-3, compiled=0.4e-3)
    campaign = run(here)
    assert [event.kind for event in here.records[-2:]] == ["yardsticks", "stopped"]
    (event,) = recorded(here)
    assert event.incumbent_id == campaign.incumbent.id == here.ideas[0].candidate.id
    assert campaign.yardsticks == event
    verdicts = {result.name: result.judgement.verdict for result in event.results}
    assert verdicts == {"eager": "slower", "compiled": "faster"}


def test_a_campaign_without_yardsticks_records_none() -> None:
    here = world()
    assert run(here).yardsticks is None
    assert recorded(here) == []


def test_one_that_fails_is_data() -> None:
    here = world(eager=1e-3, compiled=1e-3)
    wrong = Incorrect(reason="wrong_output", detail="off by 1")
    here.kernels.add(here.yardsticks[1].candidate, outcome=wrong)
    campaign = run(here)
    (event,) = recorded(here)
    assert event.results[0].judgement.outcome == Passed()
    assert event.results[1].judgement.outcome == wrong
    assert campaign.stopped is not None


def test_an_error_of_the_judge_is_the_yardsticks_result() -> None:
    class Broken(FakeJudge):
        def compare(
            self, candidate: Built, incumbent: Built, observer: object, scope: Scope | None = None
        ) -> Judgement:
            raise BaselineError(f"{incumbent.candidate_id} doesn't pass")

    judge = Broken(fake_target(), FakeKernels(), (), {})
    (found,) = beside_the_baseline(fake_yardstick("eager"), judge)
    assert found.judgement.outcome.kind == "unstable"
    assert "doesn't pass" in found.judgement.outcome.detail


def test_one_that_does_not_build_is_data() -> None:
    nameless = Candidate(language="c", sources=(SourceFile(path="k.c", text="int x;"),))
    (found,) = beside_the_baseline(PyTorchBaseline(name="eager", candidate=nameless))
    assert found.judgement.outcome.kind == "build_failed"


def test_the_same_kernel_is_not_measured_again_after_a_crash_in_the_last_record() -> None:
    here = world(eager=1e-3)
    run(here)
    assert here.records.pop().kind == "stopped"
    campaign = run(here)
    assert len(recorded(here)) == 1
    assert campaign.stopped is not None


def test_another_final_kernel_is_measured_anew() -> None:
    here = world(eager=1e-3)
    run(here)
    (stale,) = recorded(here)
    here.records[here.records.index(stale)] = stale.model_copy(update={"incumbent_id": "0" * 16})
    here.records.pop()
    run(here)
    assert len(recorded(here)) == 2


# -- how they are verified ------------------------------------------------------------------


def test_honest_yardsticks_follow_from_their_samples() -> None:
    here = world(eager=1e-3, compiled=0.4e-3)
    run(here)
    assert verify(here.records) == ()


def test_samples_that_were_made_worse_are_found() -> None:
    here = world(eager=1e-3)
    run(here)
    (event,) = recorded(here)
    (result,) = event.results
    slower = tuple(
        s.model_copy(update={"candidate_time_s": tuple(2 * t for t in s.candidate_time_s)})
        for s in result.judgement.samples
    )
    judgement = result.judgement.model_copy(update={"samples": slower})
    edited = event.model_copy(
        update={"results": (result.model_copy(update={"judgement": judgement}),)}
    )
    (found,) = verify([edited if e is event else e for e in here.records])
    assert "eager" in found.what


def test_yardsticks_beside_another_kernel_are_found() -> None:
    here = world(eager=1e-3)
    run(here)
    (event,) = recorded(here)
    edited = event.model_copy(update={"incumbent_id": here.target.baseline.id})
    (found,) = verify([edited if e is event else e for e in here.records])
    assert here.target.baseline.id in found.what


# -- how they are shown ---------------------------------------------------------------------


def reported(**times_s: float) -> Campaign:
    return run(world(**times_s))


def test_a_row_says_how_much_faster_the_kernel_is() -> None:
    rows = summarize(reported(eager=1e-3)).yardsticks
    assert [row.workload for row in rows[:2]] == ["n=500000,variant=1", "n=500000,variant=2"]
    assert rows[2].workload is None
    for row in rows:
        assert row.speedup.value == pytest.approx(2, rel=0.02)
        assert row.speedup.ci[0] <= row.speedup.value <= row.speedup.ci[1]
    assert rows[0].time_s == pytest.approx(1e-3, rel=0.02)
    assert rows[0].kernel_time_s == pytest.approx(0.5e-3, rel=0.02)


def test_a_brief_has_those_of_an_earlier_kernel_with_its_round() -> None:
    campaign = reported(eager=1e-3)
    (row,) = directions(brief_of(campaign))["measured"]
    assert (row["name"], row["holds"], row["beside"]) == ("eager", True, campaign.kept[-1].round)
    first = campaign.started.target.baseline.id
    stale = campaign.yardsticks.model_copy(update={"incumbent_id": first})
    earlier = directions(brief_of(campaign.model_copy(update={"yardsticks": stale})))
    assert [(row["holds"], row["beside"]) for row in earlier["measured"]] == [(False, 1)]


def test_a_failure_is_a_row_with_its_reason() -> None:
    here = world(eager=1e-3)
    wrong = Incorrect(reason="wrong_output", detail="off by 1\nmore")
    here.kernels.add(here.yardsticks[0].candidate, outcome=wrong)
    campaign = run(here)
    (row,) = summarize(campaign).yardsticks
    assert row.speedup is None
    assert row.failure == "incorrect: off by 1"
    assert "incorrect: off by 1" in render_campaign(campaign).files["benchmark.md"]


def test_every_report_has_the_table() -> None:
    campaign = reported(eager=1e-3)
    files = render_campaign(campaign).files
    assert "## Against PyTorch" in files["benchmark.md"]
    row = r"\| eager \| n=500000,variant=1 \| \S+ .s \| \S+ µs \| (1\.9|2\.0)\dx \["
    assert re.search(row, files["benchmark.md"])
    assert "Against PyTorch" in files["report.html"]
    assert [row.name for row in summarize(campaign).yardsticks] == ["eager"] * 3


def test_rows_beside_another_kernel_are_left_out() -> None:
    campaign = reported(eager=1e-3)
    stale = campaign.yardsticks.model_copy(update={"incumbent_id": "0" * 16})
    summary = summarize(campaign.model_copy(update={"yardsticks": stale}))
    assert summary.yardsticks == ()
    (block,) = summary.standings
    assert [row.role for row in block.rows] == ["baseline", "final", "floor"]


def test_a_campaign_on_the_host_has_no_table() -> None:
    campaign = replay(softmax_events())
    assert campaign is not None
    files = render_campaign(campaign).files
    assert "PyTorch" not in files["benchmark.md"] + files["report.html"]
