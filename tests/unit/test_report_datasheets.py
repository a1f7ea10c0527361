"""A campaign on an identified GPU shows datasheet and measured side by side, every number cited."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign_builder import softmax_campaign

from roofsmith.analysis.own_facts import own_facts
from roofsmith.api.citations import lookup_for
from roofsmith.citations.check import audit
from roofsmith.citations.sources import CitationSources
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.facts import BandwidthCeiling, Citation, ComputeCeiling, Fact
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.markdown import datasheet_rows
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of, missing

WIKI = Wiki.load()
HERE = Citation(path="ceilings-0123.json", line=6, command="roofsmith specs measure")


def gpu_campaign(*, identified: bool) -> Campaign:
    """The softmax campaign, as if its machine were an H100."""
    campaign = softmax_campaign()
    started = campaign.started
    device = started.environment.device.model_copy(
        update={"kind": "nvidia", "name": "NVIDIA H100 80GB HBM3", "caches": ()}
    )
    peak = Fact(metric="float16 matrix peak", value=7.92e14, unit="FLOP/s", citation=HERE)
    rate = Fact(metric="copy bandwidth", value=3.015e12, unit="byte/s", citation=HERE)
    facts = started.facts.model_copy(
        update={
            "bandwidth": (
                BandwidthCeiling(pattern="copy", threads=1, working_set_bytes=1 << 34, fact=rate),
                *started.facts.bandwidth,
            ),
            "compute": (
                ComputeCeiling(operation="mma", dtype="float16", threads=1, fact=peak),
                *started.facts.compute,
            ),
            "datasheet": datasheet_of(WIKI.page("H100 SXM")) if identified else None,
            "other": () if identified else (missing("datasheet of X", "1"),),
        }
    )
    environment = started.environment.model_copy(update={"device": device})
    return campaign.model_copy(
        update={"started": started.model_copy(update={"facts": facts, "environment": environment})}
    )


@pytest.mark.rule("targets-cited")
def test_side_by_side_in_the_readme() -> None:
    text = render_campaign(gpu_campaign(identified=True)).files["README.md"]
    assert "H100 SXM5 80GB as its datasheet says" in text
    assert (
        "| memory bandwidth | 3.35e+12 byte/s <- wiki/nvidia-h100-sxm5-80gb.yaml:296"
        " | 3.015e+12 byte/s <- ceilings-0123.json:6 | 90% |" in text
    )
    assert "| float16 matrix peak | 9.894e+14 FLOP/s <- wiki/" in text
    assert "| float8 matrix peak | 1.9789e+15 FLOP/s <- wiki/" in text
    assert "| UNKNOWN | UNKNOWN |" in text


def test_every_file_passes_the_audit() -> None:
    lookup = lookup_for(Settings(cache_dir=Path("/nowhere"), campaigns_dir=Path("/nowhere")))
    for identified in (True, False):
        campaign = gpu_campaign(identified=identified)
        found = audit(
            render_campaign(campaign).files, CitationSources(lookup, own_facts(campaign.started))
        )
        assert found.citations > 10
        assert found.problems == ()


def test_an_unidentified_gpu_is_said_and_a_processor_is_not() -> None:
    said = "No page of the hardware wiki is of this device"
    assert said in render_campaign(gpu_campaign(identified=False)).files["README.md"]
    cpu = render_campaign(softmax_campaign()).files["README.md"]
    assert said not in cpu
    assert "datasheet says" not in cpu
    assert datasheet_rows(softmax_campaign().started.facts) == ()


def test_a_missing_datasheet_is_a_pitfall() -> None:
    memory = render_campaign(gpu_campaign(identified=False)).files["memory/v0.json"]
    assert "datasheet of X: UNKNOWN (wiki not found)" in memory
