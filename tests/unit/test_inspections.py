"""Sanitizers as a gate in the campaign loop: before a kernel is kept, and in the record."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.analysis.sizes import smallest
from roofsmith.cli import show
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Campaign, Event, Round
from roofsmith.domain.inspection import Defect, Found, Inspection, Unavailable
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.ports import Measured
from roofsmith.report import render_campaign
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.inspector import FakeInspector
from roofsmith.testing.judge import FakeKernels

DEFECT = Defect(
    kind="Invalid __global__ write of size 4 bytes", kernel="k", source="kernel.cu:7",
    detail="Invalid __global__ write of size 4 bytes at k(float *)+0x90 in kernel.cu:7",
)  # fmt: skip
RACE = Found(tool="racecheck", defects=(DEFECT,))


def world(*times_s: float) -> FakeWorld:
    target = fake_target()
    ideas = [fake_idea(target, f"idea {n}") for n in range(len(times_s))]
    kernels = FakeKernels()
    for idea, time_s in zip(ideas, times_s, strict=True):
        kernels.add(idea.candidate, time_s=time_s)
    return FakeWorld(target=target, kernels=kernels, ideas=ideas)


def run(here: FakeWorld, inspector: FakeInspector) -> Campaign:
    here.inspector = inspector
    return Engine(here.parts(), "test").run()


@pytest.fixture
def rejected() -> tuple[FakeWorld, Campaign]:
    """The faster of two kernels races."""
    here = world(0.5e-3, 0.25e-3)
    return here, run(here, FakeInspector({here.ideas[1].candidate.id: RACE}))


def test_only_what_would_be_kept_is_inspected_once_and_small() -> None:
    here = world(0.5e-3, 0.8e-3, 0.25e-3)
    inspector = FakeInspector()
    campaign = run(here, inspector)
    assert [r.decision.kind for r in campaign.rounds] == ["kept", "rolled_back", "kept"]
    ids = [here.ideas[n].candidate.id for n in (0, 2)]
    assert inspector.seen == [(id_, "n=500000,variant=1") for id_ in ids]
    assert [r.inspection is not None for r in campaign.rounds] == [True, False, True]
    assert verify(here.records) == ()


def test_a_defect_rejects_what_was_faster(rejected: tuple[FakeWorld, Campaign]) -> None:
    here, campaign = rejected
    first, second = campaign.rounds
    assert first.decision.kind == "kept"
    assert second.decision.kind == "rolled_back"
    assert isinstance(second.judgement.outcome, Incorrect)
    assert second.judgement.outcome.reason == "sanitizer_racecheck"
    assert second.judgement.verdict == "rejected"
    assert "incorrect: sanitizer_racecheck" in second.decision.rule
    assert second.judgement.samples
    assert second.judgement.confirmation
    assert second.profile is None
    assert campaign.incumbent == here.ideas[0].candidate
    assert campaign.total_speedup == first.total_speedup
    assert verify(here.records) == ()


def test_a_tool_that_could_not_look_rejects_nobody() -> None:
    here = world(0.5e-3)
    blind = Unavailable(tool="memcheck", reason="not installed")
    campaign = run(here, FakeInspector({here.ideas[0].candidate.id: blind}))
    assert campaign.rounds[0].decision.kind == "kept"
    assert verify(here.records) == ()


def test_without_an_inspector_nothing_is_recorded() -> None:
    here = world(0.5e-3)
    campaign = Engine(here.parts(), "test").run()
    assert campaign.rounds[0].inspection is None


def edited(records: list[Event], **update: object) -> list[Event]:
    last = max(n for n, event in enumerate(records) if isinstance(event, Round))
    return [*records[:last], records[last].model_copy(update=update), *records[last + 1 :]]


def test_a_rejection_that_was_never_inspected(rejected: tuple[FakeWorld, Campaign]) -> None:
    here, _ = rejected
    found = verify(edited(here.records, inspection=None))
    assert any("rejection by sanitizers" in finding.what for finding in found)


def test_findings_that_were_overlooked(rejected: tuple[FakeWorld, Campaign]) -> None:
    here, campaign = rejected
    judgement = campaign.rounds[1].judgement
    passed = judgement.model_copy(update={"outcome": Passed(), "verdict": "faster"})
    found = verify(edited(here.records, judgement=passed))
    assert any("rejection by sanitizers" in finding.what for finding in found)


def test_correctness_md_says_what_was_seen(rejected: tuple[FakeWorld, Campaign]) -> None:
    files = render_campaign(rejected[1])
    kept = files["rounds/round-2/correctness.md"]
    assert "PASS" in kept
    assert "memcheck: clean" in kept
    text = files["rounds/round-3/correctness.md"]
    assert "FAIL (incorrect)" in text
    assert "racecheck: found 1 defect" in text
    assert "kernel.cu:7" in text


def test_an_inspection_survives_the_ledger() -> None:
    inspection = Inspection(
        workload="n=1", reports=(RACE, Unavailable(tool="memcheck", reason="gone")),
        repeatable=False, notes=("x",),
    )  # fmt: skip
    assert Inspection.model_validate_json(inspection.model_dump_json()) == inspection


def test_the_smallest_by_dims_where_bytes_are_unknown() -> None:
    workloads = tuple(Workload(dims={"N": n, "D": 8}) for n in (64, 16, 32))
    assert smallest(fake_target(workloads=workloads), ()).dims["N"] == 16


def test_the_first_defect_is_named_and_the_others_counted() -> None:
    named = Found(tool="memcheck", defects=(DEFECT, DEFECT.model_copy(update={"kernel": "j"})))
    failure = Inspection(workload="n=1", reports=(named, RACE)).failure
    assert failure is not None
    assert failure.reason == "sanitizer_memcheck"
    assert failure.detail.endswith("and 2 more")


# -- on request -----------------------------------------------------------------------------


def test_only_cuda_can_be_sanitized(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void solve(const float *x, float *y, int N) { y[0] = x[N - 1]; }"
    )
    (tmp_path / "r.py").write_text("def reference(x, y, N): y[:] = x\n")
    words = ["check", str(tmp_path / "k.c"), "--ref", str(tmp_path / "r.py"), "--workload", "N=8"]
    done = CliRunner().invoke(cli, [*words, "--sanitize"])
    assert done.exit_code == 2
    assert "--sanitize is for CUDA kernels" in done.output


@pytest.mark.parametrize("as_json", [False, True])
def test_a_check_shows_what_was_found(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    inspection = Inspection(workload="n=1", reports=(RACE,), repeatable=False, notes=("differs",))
    assert inspection.failure is not None
    measured = Measured(inspection.failure, (), (), inspection)
    show.measured(measured, as_json=as_json)
    printed = capsys.readouterr().out
    assert "sanitizer_racecheck" in printed
    assert "kernel.cu:7" in printed
    assert "differs" in printed
