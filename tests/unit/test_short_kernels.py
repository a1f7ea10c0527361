"""Kernels so short that launching counts: which time is judged is said, and can be chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaign_builder import softmax_campaign
from typer.testing import CliRunner

from roofsmith.analysis.short_kernels import SHORT_S, judged_time_note
from roofsmith.api import judging
from roofsmith.api.subjects import target_of
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Language
from roofsmith.domain.modes import TimingMode
from roofsmith.domain.options import Subject
from roofsmith.errors import UsageError
from roofsmith.report.campaign_files import render_campaign

CUDA = 'extern "C" void solve(const float *x, float *y, int n) {}\n'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(CUDA)
    (tmp_path / "r.py").write_text("def reference(x, y, n): y.copy_(x)\n")
    return tmp_path


def subject(here: Path, timing: TimingMode | None) -> Subject:
    return Subject(here / "k.cu", here / "r.py", ("n=8",), timing=timing)


@pytest.mark.parametrize(
    ("timing", "says", "other"),
    [
        ("kernel", "the device's time alone", "--timing launch"),
        ("launch", "as the host launches them, launch overhead included", "--timing kernel"),
    ],
)
def test_a_short_kernel_has_a_note(timing: TimingMode, says: str, other: str) -> None:
    note = judged_time_note([("n=8", 5e-6), ("n=9", 1.0)], timing)
    assert note.startswith("on n=8 it takes less than 20 us: judged")
    assert says in note
    assert other in note


def test_the_shortest_is_named_and_the_others_counted() -> None:
    times_s = [("n=3", 7e-6), ("n=1", 5e-6), ("n=2", 6e-6)]
    assert (judged_time_note(times_s, "kernel") or "").startswith("on n=1 and on 2 more workloads")
    assert (judged_time_note(times_s[:2], "kernel") or "").startswith("on n=1 and on another")


def test_a_longer_one_has_none() -> None:
    assert judged_time_note([("n=8", SHORT_S)], "kernel") is None
    assert judged_time_note([], "launch") is None


def test_it_can_be_chosen_for_a_kernel_file(here: Path) -> None:
    assert target_of(subject(here, None)).timing == "kernel"
    assert target_of(subject(here, "launch")).timing == "launch"


def test_a_target_says_itself_what_counts(here: Path) -> None:
    (here / "target.yaml").write_text("kernel: k.cu\nreference: r.py\nworkloads: [n=8]\n")
    with pytest.raises(UsageError, match="--timing goes with a kernel"):
        target_of(Subject(here / "target.yaml", timing="launch"))


@pytest.mark.parametrize("command", ["judge", "bench"])
def test_the_commands_take_it(here: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    seen: list[Subject] = []

    def stop(*arguments: object, **_: object) -> None:
        seen.extend(given for given in arguments if isinstance(given, Subject))
        raise UsageError("enough")

    monkeypatch.setattr(f"roofsmith.api.{command}", stop)
    words = [command, str(here / "k.cu"), "--ref", str(here / "r.py"), "-w", "n=8"]
    against = ["--against", str(here / "k.cu")] if command == "judge" else []
    done = CliRunner().invoke(cli, [*words, *against, "--timing", "launch"])
    assert done.exit_code == 2
    assert [given.timing for given in seen] == ["launch"]


def judged(time_s: float, language: Language) -> tuple[str, ...]:
    target = SimpleNamespace(language=language, timing="kernel")
    one = SimpleNamespace(workload="n=8", candidate_time_s=time_s)
    found: Any = SimpleNamespace(comparison=SimpleNamespace(workloads=(one,)))
    return judging._short(found, target)


def test_a_judgement_says_so_on_a_gpu() -> None:
    assert "--timing launch" in judged(5e-6, "cuda")[0]
    assert judged(5e-6, "c") == ()
    assert judged(5e-5, "cuda") == ()
    target: Any = SimpleNamespace(language="cuda")
    nothing = Judgement(outcome={"kind": "passed"}, verdict="unverified", wall_s=0.0)  # type: ignore[arg-type]
    assert judging._short(nothing, target) == ()


def short_campaign(*, gpu: bool) -> Campaign:
    """The softmax campaign at the end of which every workload takes 5 us."""
    campaign = softmax_campaign()
    started, stopped = campaign.started, campaign.stopped
    kind = {"kind": "nvidia"} if gpu else {}
    device = started.environment.device.model_copy(update=kind)
    environment = started.environment.model_copy(update={"device": device})
    timings = tuple(t.model_copy(update={"time_s": 5e-6}) for t in stopped.final_timings)
    return campaign.model_copy(
        update={
            "started": started.model_copy(update={"environment": environment}),
            "stopped": stopped.model_copy(update={"final_timings": timings}),
        }
    )


def test_benchmark_md_says_so_on_a_gpu() -> None:
    text = render_campaign(short_campaign(gpu=True)).files["benchmark.md"]
    assert "Note: on N=" in text
    assert "`timing: launch`" in text
    assert "Note: on" not in render_campaign(short_campaign(gpu=False)).files["benchmark.md"]
