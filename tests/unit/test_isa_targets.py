"""What instructions should come to, by bound, computation and device, and how far a kernel is."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from campaign_builder import softmax_campaign
from test_report_datasheets import gpu_campaign

from roofsmith.analysis.isa_targets import isa_progress, isa_table, registers_at_half
from roofsmith.analysis.occupancy import (
    amd_occupancy,
    compute_unit,
    multiprocessor,
    nvidia_occupancy,
    occupancy_facts,
)
from roofsmith.analysis.own_facts import HOW_TO_GIVE
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.facts import Fact
from roofsmith.domain.kernel import KernelResources
from roofsmith.domain.profile import Counter, Profile
from roofsmith.report.campaign_files import render_campaign


def campaign_on(
    arch: str | None,
    *,
    limiter: str = "memory",
    product: bool = False,
    isa: tuple[str, ...] = (),
    first: dict[str, int] | None = None,
    last: dict[str, int] | None = None,
    counters: tuple[Counter, ...] = (),
    resources: tuple[KernelResources, ...] = (),
) -> Campaign:
    """The softmax campaign on another device, with these listings at its baseline and its end."""
    campaign = softmax_campaign() if arch is None else gpu_campaign(identified=False)
    started = campaign.started
    device = started.environment.device.model_copy(update={"arch": arch, "isa": isa})
    bounds = tuple(
        bound.model_copy(
            update={
                "limiter": limiter,
                "cost": bound.cost.model_copy(update={"matrix_product": product}),
            }
        )
        for bound in started.bounds
    )
    environment = started.environment.model_copy(update={"device": device})
    started = started.model_copy(update={"environment": environment, "bounds": bounds})
    profile = Profile(
        tool="ncu", workload=bounds[0].workload, counters=counters, resources=resources
    )
    seen = {"profile": profile, "disassembly": listing(first)}
    baseline = campaign.baseline.model_copy(update=seen)
    kept = {r.round for r in campaign.kept[-1:]}
    rounds = tuple(
        r.model_copy(update=seen | {"disassembly": listing(last)}) if r.round in kept else r
        for r in campaign.rounds
    )
    update = {"started": started, "baseline": baseline, "rounds": rounds}
    return campaign.model_copy(update=update)


def listing(names: dict[str, int] | None) -> Disassembly | None:
    return None if names is None else Disassembly(tool="objdump", mnemonics=names)


def rows(campaign: Campaign) -> dict[str, tuple[str, str, str, bool | None]]:
    return {
        one.name: (one.target, one.shown(one.baseline), one.shown(one.now), one.met)
        for one in isa_progress(campaign)
    }


def test_every_target_has_a_source_and_a_reading() -> None:
    table = isa_table()
    for target in table.targets:
        assert target.source in table.sources
        assert (target.at_least is None) != (target.at_most is None)
        assert all((one.counter is None) != (one.count is None) for one in target.readings)
    assert {target.source for target in table.targets} == set(table.sources)


def test_a_product_on_hopper() -> None:
    found = rows(
        campaign_on(
            "sm_90a",
            limiter="compute",
            product=True,
            first={"FFMA": 64, "LDG.E": 8},
            last={"HGMMA.64x128x16.F32": 6, "HMMA.16816.F32": 2, "FFMA": 2, "UTMALDG.2D": 2},
        )
    )
    assert found["tensor-core share of multiply-adds"] == ("at least 50%", "0%", "80%", True)
    assert found["warp-group share of matrix instructions"] == (
        "at least 50%",
        "UNKNOWN",
        "75%",
        True,
    )
    assert "registers of a thread" not in found  # what computes may do with fewer warps
    assert "MFMA share of multiply-adds" not in found


@pytest.mark.parametrize(
    ("arch", "narrow", "wide"),
    [
        ("sm_80", {"LDG.E": 4}, {"LDG.E.128.CONSTANT": 3, "LDG.E": 1}),
        ("gfx942", {"global_load_dword": 4}, {"global_load_dwordx4": 3, "buffer_load_dword": 1}),
    ],
)
def test_the_width_of_loads(arch: str, narrow: dict[str, int], wide: dict[str, int]) -> None:
    found = rows(campaign_on(arch, first=narrow, last=wide))
    (row,) = (row for name, row in found.items() if name.startswith("share of global loads"))
    assert row == ("at least 50%", "0%", "75%", True)


def test_spills_conflicts_and_registers() -> None:
    kernel = KernelResources(name="k", arch="sm_90", registers=72, spill_store_bytes=8)
    share = Counter(name="shared_bank_conflict_share", value=0.4, unit="fraction")
    found = rows(campaign_on("sm_90", counters=(share,), resources=(kernel,)))
    assert found["bytes (else instructions) of spills, of a thread"] == (
        "at most 0",
        "8",
        "8",
        False,
    )
    assert found["registers of a thread"] == ("at most 64", "72", "72", False)
    assert found["share of passes through shared memory that repeat"][1:] == ("40%", "40%", False)


def test_amds_registers_are_of_both_kinds() -> None:
    counters = (
        Counter(name="registers_per_thread", value=96, unit="1"),
        Counter(name="accumulation_registers", value=64, unit="1"),
    )
    found = rows(campaign_on("gfx942:sramecc+:xnack-", counters=counters))
    assert found["vector registers of a work-item, both kinds"] == (
        "at most 128",
        "160",
        "160",
        False,
    )


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_86", "sm_90", "sm_120", "gfx90a", "gfx942"])
def test_half_of_the_warps_fit_with_the_registers_and_no_more(arch: str) -> None:
    most = registers_at_half(arch)
    fractions = []
    for registers in (most, most + 8):
        if (sm := multiprocessor(arch)) is not None:
            fit = nvidia_occupancy(sm, block_size=128, registers=registers, shared_bytes=0)
        else:
            fit = amd_occupancy(compute_unit(arch), workgroup_size=256, vgprs=registers)
        fractions.append(fit.fraction)
    assert fractions[0] >= 0.5 > fractions[1]


@pytest.mark.parametrize(
    ("isa", "width"), [(("avx2", "fma"), "AVX2"), (("avx2", "avx512f", "fma"), "AVX-512")]
)
def test_a_processors_vectors(isa: tuple[str, ...], width: str) -> None:
    scalar = {"vmulss": 6, "vaddss": 6, "xmm": 20}
    packed = {"vfmadd231ps": 9, "vmulps": 1, "vaddss": 2, "xmm": 2, "ymm": 18, "zmm": 20}
    found = rows(campaign_on(None, isa=isa, product=True, first=scalar, last=packed))
    assert found["packed share of floating-point arithmetic"] == ("at least 50%", "0%", "83%", True)
    assert found["fused share of packed multiplications"] == (
        "at least 50%",
        "UNKNOWN",
        "90%",
        True,
    )
    assert found[f"{width} share of vector-register instructions"][1] == "0%"
    assert [name for name in found if name.startswith("AVX")] == [
        f"{width} share of vector-register instructions"
    ]


def test_what_nobody_read_is_unknown_and_says_why() -> None:
    found = isa_progress(campaign_on("sm_90", product=True))
    assert found
    assert all(one.now is None and one.met is None for one in found)
    assert all(one.current.startswith("UNKNOWN (") and len(one.missing) > 10 for one in found)
    assert isa_progress(campaign_on("sm_90").model_copy(update={"baseline": None})) == ()


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942:xnack-"])
def test_limits_of_occupancy_are_cited_by_the_line_of_their_row(arch: str) -> None:
    table = (files("roofsmith.analysis") / "multiprocessors.yaml").read_text().splitlines()
    facts = occupancy_facts(arch)
    assert len(facts) > 5
    for fact in facts:
        assert table[fact.citation.line - 1].strip().startswith(arch[:5].partition(":")[0])
    readme = render_campaign(campaign_on(arch)).files["README.md"]
    assert readme.count(f"known: {facts[0]}") == 1


@pytest.mark.rule("facts-checklist")
def test_a_fact_that_is_missing_is_asked_for_before_round_1() -> None:
    campaign = campaign_on("sm_1234")
    unknown = Fact(metric="copy bandwidth", value=None, unit="byte/s", reason="not measured")
    bounds = [b.model_copy(update={"bandwidth": unknown}) for b in campaign.started.bounds]
    started = campaign.started.model_copy(update={"bounds": tuple(bounds)})
    readme = render_campaign(campaign.model_copy(update={"started": started})).files["README.md"]
    for metric in ("copy bandwidth", "occupancy limits"):
        (line,) = [one for one in readme.splitlines() if one.startswith(f"open: {metric}")]
        assert "UNKNOWN" in line
        assert HOW_TO_GIVE in line


@pytest.mark.rule("isa-targets")
def test_they_are_in_the_readme_every_note_and_the_reports() -> None:
    campaign = campaign_on("sm_80", first={"LDG.E": 4}, last={"LDG.E.128": 4})
    rendered = render_campaign(campaign).files
    row = "share of global loads of 16 byte a thread"
    for name in ("README.md", "final_report.md"):
        assert f"| {row} | at least 50% | 0% | 100% | yes | J. Luitjens, NVIDIA" in rendered[name]
    notes = [json.loads(text) for name, text in rendered.items() if name.startswith("memory/v")]
    progress = [
        next(one for one in note["isa_metric_progress"] if one["metric"].startswith(row))
        for note in sorted(notes, key=lambda note: note["round"])
    ]
    assert progress[0]["current"] == "0%"
    assert progress[0]["met"] is False
    assert progress[-1]["current"] == "100%"
    assert {one["baseline"] for one in progress} == {"0%"}
    assert row in rendered["report.html"]
