"""Sanitizers as a gate in the campaign loop: before a kernel is kept, and in the record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner
from worlds import world

from roofsmith.analysis.sizes import smallest
from roofsmith.api.places import GpuPlace, HostPlace
from roofsmith.api.steps import inspected
from roofsmith.cli import show
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Campaign, Event, Round
from roofsmith.domain.device import Device
from roofsmith.domain.inspection import Clean, Defect, Inspection, InspectionFound, Unavailable
from roofsmith.domain.kernel import Built, Language
from roofsmith.domain.outcome import Crashed, Failure, Incorrect, Passed, TimedOut
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import BadReferenceError, RoofsmithError
from roofsmith.ports import Arguments, KernelDiedError, KernelRunner, Measured, Oracle
from roofsmith.profilers.repeatability import RepeatInspector
from roofsmith.profilers.sanitizer import SanitizerInspector
from roofsmith.report.campaign_files import render_campaign
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.inspector import FakeInspector

DEFECT = Defect(
    kind="Invalid __global__ write of size 4 bytes", kernel="k", source="kernel.cu:7",
    detail="Invalid __global__ write of size 4 bytes at k(float *)+0x90 in kernel.cu:7",
)  # fmt: skip
RACE = InspectionFound(tool="racecheck", defects=(DEFECT,))


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
    found = verify(edited(here.records, findings=()))
    assert any("rejection by sanitizers" in finding.what for finding in found)


def test_findings_that_were_overlooked(rejected: tuple[FakeWorld, Campaign]) -> None:
    here, campaign = rejected
    judgement = campaign.rounds[1].judgement
    passed = judgement.model_copy(update={"outcome": Passed(), "verdict": "faster"})
    found = verify(edited(here.records, judgement=passed))
    assert any("rejection by sanitizers" in finding.what for finding in found)


def test_correctness_md_says_what_was_seen(rejected: tuple[FakeWorld, Campaign]) -> None:
    files = render_campaign(rejected[1]).files
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
    named = InspectionFound(
        tool="memcheck", defects=(DEFECT, DEFECT.model_copy(update={"kernel": "j"}))
    )
    failure = Inspection(workload="n=1", reports=(named, RACE)).failure
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
    assert "--sanitize" in done.output
    assert "-fsanitize=address" in done.output
    done = CliRunner().invoke(cli, [*words, "--repeats"])
    assert done.exit_code == 2
    assert "--repeats" in done.output


@pytest.mark.parametrize(
    ("name", "text"), [("k.py", "import triton\n"), ("k.py", ""), ("k.hip", "")]
)
def test_another_gpu_language_is_told_of_repeats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text + "def run_kernel(x, y): ...\n")
    (tmp_path / "r.py").write_text("def reference(x, y): y[:] = x\n")
    words = ["check", str(tmp_path / name), "--ref", str(tmp_path / "r.py"), "--workload", "N=8"]
    done = CliRunner().invoke(cli, [*words, "--sanitize"])
    assert done.exit_code == 2
    assert "--repeats" in done.output


# -- languages that no sanitizer knows ------------------------------------------------------


class Once:
    """Gives the next of these outputs to every session."""

    def __init__(self, *outputs: float | Exception) -> None:
        self._outputs = iter(outputs)

    @contextmanager
    def open(self, built: Built, arguments: Arguments, **_: object) -> Iterator[Once]:
        del built, arguments
        yield self

    def call(self, times: int) -> tuple[float, ...]:
        return (1e-6,) * times

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        found = next(self._outputs)
        if isinstance(found, Exception):
            raise found
        return {"y": np.array([found], np.float32)}


class Inputs:
    """One array, or none."""

    def __init__(self, failure: RoofsmithError | None = None) -> None:
        self._failure = failure

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        del workload, seed
        if self._failure is not None:
            raise self._failure
        return {"y": np.zeros(1, np.float32)}


def repeated(runner: Once, inputs: Inputs) -> Inspection:
    inspector = RepeatInspector(cast(KernelRunner, runner), cast(Oracle, inputs))
    return inspector.inspect(cast(Built, None), Workload(dims={"n": 1}))


DEATH = KernelDiedError(TimedOut(reason="call_deadline", detail="no answer"))


@pytest.mark.parametrize(
    ("outputs", "repeatable", "says"),
    [
        ((1.0, 1.0), True, "bit for bit"),
        ((1.0, 1.5), False, "differ in y: it is not deterministic"),
        ((0.0, -0.0), False, "differ in y"),
        ((1.0, DEATH), None, "is not known: no answer"),
    ],
)
def test_two_runs_say_whether_it_is_deterministic(
    outputs: tuple[float | Exception, ...], repeatable: bool | None, says: str
) -> None:
    found = repeated(Once(*outputs), Inputs())
    assert found.repeatable is repeatable
    assert found.reports == ()
    assert found.failure is None
    assert says in found.notes[0]


def test_without_inputs_nothing_is_known() -> None:
    found = repeated(Once(), Inputs(BadReferenceError("setup raises")))
    assert found.repeatable is None
    assert "setup raises" in found.notes[0]


class Twice:
    """An inspector without sanitizers."""

    def __call__(self, built: Built, workload: Workload) -> Inspection:
        del built
        note = "two runs on the same inputs differ in y: it is not deterministic"
        return Inspection(workload=workload.label, reports=(), repeatable=False, notes=(note,))


def test_what_is_not_deterministic_is_kept_and_said() -> None:
    here = world(0.5e-3)
    here.inspector = Twice()
    campaign = Engine(here.parts(), "test").run()
    assert campaign.rounds[0].decision.kind == "kept"
    assert campaign.rounds[0].inspection.repeatable is False
    assert verify(here.records) == ()
    text = render_campaign(campaign).files["rounds/round-2/correctness.md"]
    assert "Run twice on n=" in text
    assert "- two runs on the same inputs differ in y: it is not deterministic" in text
    assert "compute-sanitizer" not in text


@pytest.mark.parametrize(
    ("language", "kind"),
    [
        ("cuda", SanitizerInspector),
        ("triton", RepeatInspector),
        ("torch", RepeatInspector),
        ("hip", RepeatInspector),
        ("c", type(None)),
    ],
)
def test_every_gpu_language_has_an_inspector(language: Language, kind: type) -> None:
    nothing = cast(Any, None)
    toolchain = cast(Any, SimpleNamespace(build=None))
    parts = (nothing, nothing, nothing, toolchain, nothing, nothing, Path())
    h100 = Device(kind="nvidia", name="H100", cores=132)
    place = HostPlace(*parts) if language == "c" else GpuPlace(*parts, gpu=h100)
    inspector, _ = place.inspectors(nothing, language, nothing)
    assert type(getattr(inspector, "__self__", None)) is kind


CLEAN = Inspection(workload="n=1", reports=(Clean(tool="memcheck"),))
FOUND = Inspection(workload="n=1", reports=(RACE,))


@pytest.mark.parametrize("found", [CLEAN, FOUND])
@pytest.mark.parametrize(
    "failure",
    [
        Crashed(reason="illegal_address", detail="`--sanitize` names the line"),
        Incorrect(reason="value", detail="off"),
    ],
)
def test_who_crashes_or_is_wrong_is_looked_at_and_keeps_its_outcome(
    failure: Failure, found: Inspection
) -> None:
    seen = inspected(Measured(failure, (), ()), lambda: found)
    assert (seen.outcome, seen.inspection) == (failure, found)


def test_who_passes_fails_by_what_is_found() -> None:
    passed = Measured(Passed(), (), ())
    assert inspected(passed, lambda: CLEAN).outcome == Passed()
    assert inspected(passed, lambda: FOUND).outcome == FOUND.failure
    assert inspected(passed, lambda: None) is passed


def test_who_hangs_is_not_run_again() -> None:
    hung = Measured(TimedOut(reason="call_deadline", detail="no answer"), (), ())
    assert inspected(hung, lambda: pytest.fail("it was run again")) is hung


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
