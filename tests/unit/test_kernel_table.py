"""A repository's kernels on pages and in briefs, and what of them may be edited."""

from __future__ import annotations

from pathlib import Path

import pytest
from briefs import brief_of
from campaign_builder import softmax_campaign

from roofsmith.analysis.kernel_table import cells, editable_part
from roofsmith.asking.brief import document, markdown
from roofsmith.domain.profile import ProfiledKernel
from roofsmith.profilers.program_files import read_program
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.performance import kernels_block

RECORDED = Path(__file__).parents[1] / "golden" / "gpu"
HERE = Path("/somewhere/a campaign")


@pytest.fixture
def kernels(tmp_path: Path) -> tuple[ProfiledKernel, ...]:
    for kind in ("kernel_trace", "agent_info"):
        text = (RECORDED / f"rocprofv3_{kind}_mi300x.csv").read_text()
        (tmp_path / f"1_{kind}.csv").write_text(text)
    return read_program(tmp_path).kernels


def test_a_row_says_what_a_kernel_takes(kernels: tuple[ProfiledKernel, ...]) -> None:
    share, launches, mean, registers, shared, scratch, occupancy = cells(kernels[0])
    assert (share, launches, mean) == ("96%", "1", "3.56 ms")
    assert registers == "128 + 160 accumulation, 112 scalar"
    assert (shared, scratch, occupancy) == ("8,192 B", "352 B", "12%, by accumulation registers")


def test_every_page_has_the_kernels_of_a_run(kernels: tuple[ProfiledKernel, ...]) -> None:
    campaign = softmax_campaign()
    assert campaign.baseline is not None
    profile = campaign.baseline.profile.model_copy(update={"kernels": kernels})
    baseline = campaign.baseline.model_copy(update={"profile": profile})
    files = render_campaign(campaign.model_copy(update={"baseline": baseline})).files
    for name in ("performance.md", "final_report.md", "rounds/round-1/profile_details.md"):
        assert "128 + 160 accumulation, 112 scalar" in files[name], name
    assert "128 + 160 accumulation, 112 scalar" in files["report.html"]
    untouched = render_campaign(campaign).files
    assert "accumulation" not in untouched["performance.md"]


def test_a_brief_has_the_hottest(kernels: tuple[ProfiledKernel, ...]) -> None:
    brief = brief_of(softmax_campaign())
    profile = brief.profile.model_copy(update={"kernels": kernels * 3})
    seen = document(type(brief)(**{**vars_of(brief), "profile": profile}), HERE)
    assert len(seen["bottleneck"]["kernels"]) == 8
    assert seen["bottleneck"]["kernels"][0]["kernel"] == kernels[0].name
    assert f"| {kernels[0].name} | 96%" in markdown(seen).replace("\\_", "_")


def vars_of(brief: object) -> dict[str, object]:
    return {name: getattr(brief, name) for name in brief.__slots__}  # type: ignore[attr-defined]


def test_what_editable_files_define_bounds_the_gain(kernels: tuple[ProfiledKernel, ...]) -> None:
    source = "__global__ void kernel_step_2_c534_0_kernel_16_range_for(float* x) {}"
    part = editable_part(kernels, [source])
    assert part == pytest.approx(kernels[1].share)
    assert editable_part((), [source]) is None
    profile = softmax_campaign().baseline.profile  # type: ignore[union-attr]
    candidate = softmax_campaign().started.target.baseline
    files = (candidate.sources[0].model_copy(update={"text": source}),)
    own = candidate.model_copy(update={"sources": files})
    said = kernels_block(profile.model_copy(update={"kernels": kernels}), own)
    assert "3.3% of GPU time" in said
    assert "1.03x" in said
