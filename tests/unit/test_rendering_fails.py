"""Every bottleneck has words, and a file that can't be rendered loses no record of a campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from campaign_builder import campaign_of, environment, softmax_campaign, softmax_events

from roofsmith.api.finished import require_rendered, unrendered
from roofsmith.api.memory import mask
from roofsmith.api.verification import verify_campaign
from roofsmith.config import Settings
from roofsmith.domain.campaign import Baseline, Campaign, Event, Round, Started, Stopped
from roofsmith.domain.profile import BottleneckKind
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import RenderingError
from roofsmith.ports import Rendered, RenderFailure
from roofsmith.report import campaign_files
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_render, fake_target
from roofsmith.testing.judge import FakeKernels

KINDS: tuple[BottleneckKind, ...] = get_args(BottleneckKind)


def bound_by(event: Event, kind: BottleneckKind, on: str) -> Event:
    """The same record, of kernels on `on` that are held back by `kind`."""
    if isinstance(event, Started):
        device = environment().device.model_copy(update={"kind": on})
        return event.model_copy(
            update={"environment": environment().model_copy(update={"device": device})}
        )
    if isinstance(event, Baseline | Round) and event.bottleneck is not None:
        found = event.bottleneck.model_copy(update={"kind": kind})
        return event.model_copy(update={"bottleneck": found})
    return event


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on", ["cpu", "nvidia", "amd"])
def test_a_whole_campaign_is_rendered_whatever_holds_its_kernels_back(
    kind: BottleneckKind, on: str
) -> None:
    rendered = render_campaign(campaign_of([bound_by(e, kind, on) for e in softmax_events()]))
    assert rendered.failures == ()
    titled = "Find out what limits" if kind == "unknown" else f"Answer the {kind} bottleneck"
    assert titled in rendered.files["final_report.md"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_has_words_of_its_own(kind: BottleneckKind) -> None:
    told = set()
    for on in ("cpu", "nvidia"):
        campaign = campaign_of([bound_by(e, kind, on) for e in softmax_events()])
        told |= {step.why for step in summarize(campaign).next_steps if "Untried: " in step.why}
    assert len(told) == 2


def breaks(*_: object) -> str:
    raise KeyError("occupancy")


def test_one_file_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = render_campaign(softmax_campaign()).files
    monkeypatch.setattr(campaign_files, "render_html", breaks)
    rendered = render_campaign(softmax_campaign())
    assert [failure.what for failure in rendered.failures] == ["report.html"]
    assert {**rendered.files, "report.html": whole["report.html"]} == whole


def test_a_summary_that_fails_is_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_files, "summarize", breaks)
    assert [type(f.error) for f in render_campaign(softmax_campaign()).failures] == [KeyError]


def fails_at_the_end(campaign: Campaign) -> Rendered:
    """Renders a running campaign, and nothing of one that has ended but its rounds."""
    whole = fake_render(campaign)
    if campaign.stopped is None:
        return whole
    return Rendered(whole.files, (RenderFailure("final_report.md", KeyError("occupancy")),))


def test_an_end_is_recorded_though_its_report_fails(tmp_path: Path) -> None:
    target = fake_target()
    idea, kernels = fake_idea(target, "idea"), FakeKernels()
    kernels.add(idea.candidate, time_s=0.5e-3)
    here = FakeWorld(target=target, kernels=kernels, ideas=[idea], render=fails_at_the_end)
    engine = Engine(here.parts(), "test")
    engine.run()
    assert isinstance(here.records[-1], Stopped)
    assert here.files.files["README.md"].endswith("1 rounds")
    assert [failure.what for failure in engine.unrendered] == ["final_report.md"]
    with pytest.raises(RenderingError, match=r"final_report\.md") as caught:
        require_rendered(engine.unrendered, tmp_path)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value.__cause__, KeyError)
    (note,) = unrendered(engine.unrendered, tmp_path)
    log = tmp_path / "logs/rendering.log"
    assert all(word in note for word in ("final_report.md", "occupancy", str(log)))
    assert caught.value.log == log
    assert "KeyError" in log.read_text()
    again = Engine(replace(here, render=None).parts(), "test")
    again.run()
    assert unrendered(again.unrendered, tmp_path) == ()
    assert verify(here.records) == ()


def on_disk(directory: Path) -> None:
    with CampaignDirectory.create(directory) as files:
        ledger = JsonlLedger(files.ledger_path)
        for event in softmax_events():
            ledger.append(event)
        files.write(render_campaign(softmax_campaign()).files)


def test_masks_are_recorded_and_verify_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "a campaign"
    on_disk(directory)
    monkeypatch.setattr(campaign_files, "render_html", breaks)
    with pytest.raises(RenderingError, match=r"report\.html"):
        mask(directory, ["v2"], masked=True, reason="stale", settings=Settings(tmp_path, tmp_path))
    assert JsonlLedger(directory / "ledger.jsonl").events()[-1].kind == "masked"
    assert verify_campaign(directory).records == len(softmax_events()) + 1
