"""The audit of whole campaigns: clean ones pass, whatever is changed in them is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from campaign_builder import (
    RoundKind,
    campaign_of,
    crippled,
    events_for,
    fact_sheet,
    resumed,
    softmax_campaign,
    softmax_events,
    started,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofsmith.analysis.audit import Audit, Sources, audit
from roofsmith.analysis.audit_campaign import kept_facts, quotations
from roofsmith.analysis.audit_quantities import NUMBER
from roofsmith.app.audit import products_of
from roofsmith.domain.bound import CeilingPair
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.device import Cache, Device
from roofsmith.domain.ending import StopCode
from roofsmith.domain.examination import Area, Check, Examination, examination
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.outcome import Crashed
from roofsmith.report.campaign_files import render_campaign
from roofsmith.specs.sheet import Measurement
from roofsmith.specs.sheet import fact_sheet as measured_sheet
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of

WIKI = Wiki.load()
H100 = "wiki/nvidia-h100-sxm5-80gb.yaml"
PAGE = WIKI.page("nvidia-h100-sxm5-80gb")
BANDWIDTH = PAGE.entries["memory.bandwidth_byte_per_s"].fact()
L2 = PAGE.entries["caches.l2_bytes"].fact()
SPARSE = PAGE.entries["peak_rates.tensor.sparse.bf16"].fact()
COUNT = PAGE.entries["execution.sm_count"].fact()
PROGRAM_TEXT = "kernel_snapshot"
DOCTORS_PAGE = Path(__file__).parents[1] / "golden" / "doctor" / "env_check_h100.md"
AREAS = {area if area in ("GPU", "Python") else area.capitalize(): area for area in get_args(Area)}
kinds = st.sampled_from(get_args(RoundKind))
stops = st.none() | st.sampled_from(get_args(StopCode))


def gpu_campaign() -> Campaign:
    """The softmax campaign as it would be on an H100: driver's notes, ceilings, datasheet."""
    campaign = softmax_campaign()
    device = Device(
        kind="nvidia",
        name="NVIDIA H100 80GB HBM3",
        cores=132,
        caches=(Cache(level=2, kind="unified", size_bytes=50 << 20, shared_by=132),),
        memory_bytes=85520809984,
        arch="sm_90",
    )
    notes = ("SM clock up to 1980 MHz, memory 2619 MHz", "power limit 700 W", "ECC is on")
    environment = campaign.started.environment.model_copy(update={"device": device, "notes": notes})
    measured = [
        Measurement(
            kind=kind, subject=subject, threads=1, working_set_bytes=size, rate=rate,
            variant="v", spread=0.01, rounds=9, date="2026-04-12 09:58",
        )
        for kind, subject, size, rate in (
            ("bandwidth", "copy", 1 << 30, 2.98e12), ("mma", "bfloat16", 0, 7.17e14),
            ("launch", "queued", 0, 5.1e5),
        )
    ]  # fmt: skip
    facts = measured_sheet(device, measured, "/home/me/ceilings-0a1b.json", 0.02)
    facts = facts.model_copy(update={"datasheet": datasheet_of(PAGE)})
    pair = CeilingPair(bandwidth=facts.bandwidth[0].fact, peak=facts.compute[0].fact)
    bounds = tuple(
        bound.model_copy(
            update={
                "bandwidth": pair.bandwidth,
                "peak": pair.peak,
                "measured": pair,
                "ridge": 7.17e14 / 2.98e12,
                "working_set": "memory",
            }
        )
        for bound in campaign.started.bounds
    )
    first = campaign.started.model_copy(
        update={
            "environment": environment,
            "facts": facts,
            "bounds": bounds,
            "examination": looked_at(),
        }
    )
    return campaign.model_copy(update={"started": first})


def looked_at() -> Examination:
    """What doctor found of an H100 and its host, read back from the recorded page."""
    title, machine, *lines = filter(None, DOCTORS_PAGE.read_text().splitlines())
    assert title == "# Environment"
    area, checks = "", []
    for line in lines:
        if line.startswith("## "):
            area = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if area and len(cells) == 4 and set(cells[0]) - {"-"}:
            name, level, detail, _ = cells
            checks.append(
                Check.model_validate(
                    {"area": AREAS[area], "name": name, "level": level, "detail": detail}
                )
            )
    assert len(checks) > 20
    return examination(checks, machine=machine)


CAMPAIGNS = {
    "softmax": softmax_campaign(),
    "new": campaign_of([started()]),
    "baseline": campaign_of(softmax_events()[:2]),
    "running": campaign_of(softmax_events()[:6]),
    "resumed": campaign_of([*softmax_events(), resumed()]),
    "crippled": crippled(),
    "gpu": gpu_campaign(),
}


def rendered(campaign: Campaign) -> dict[str, str]:
    """Every file of statements that a campaign directory holds."""
    return {n: text for n, text in render_campaign(campaign).files.items() if PROGRAM_TEXT not in n}


@cache
def files_of(name: str) -> dict[str, str]:
    """The same of one of the campaigns here; rendered once, so not to be changed."""
    return rendered(CAMPAIGNS[name])


@cache
def sources_of(name: str) -> Sources:
    """What citations of one of the campaigns here may name."""
    return sources(CAMPAIGNS[name])


def sources(campaign: Campaign | None) -> Sources:
    """What citations may name, as the application gives it."""
    products = cache(lambda: products_of(WIKI, campaign))
    if campaign is None:
        return Sources(WIKI.resolve, products=products)
    first = campaign.started
    return Sources(WIKI.resolve, kept_facts(first), quotations(campaign), products=products)


def audited(text: str, name: str = "notes.md", campaign: Campaign | None = None) -> Audit:
    """One text on its own."""
    return audit({name: text}, sources(campaign))


def kinds_of(found: Audit) -> list[str]:
    """What is wrong, in order."""
    return [problem.kind for problem in found.problems]


# -- what is rendered passes ----------------------------------------------------------------


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_file_of_every_campaign_passes(name: str) -> None:
    campaign = CAMPAIGNS[name]
    found = audit(rendered(campaign), sources(campaign))
    assert [str(problem) for problem in found.problems] == []
    assert found.numbers


def test_the_golden_report_passes() -> None:
    folder = Path(__file__).parents[1] / "golden" / "report_softmax"
    golden = {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and PROGRAM_TEXT not in path.parts
    }
    found = audit(golden, sources(softmax_campaign()))
    assert [str(problem) for problem in found.problems] == []
    assert found.citations


@pytest.mark.parametrize("text", ["a TDP of 700 W", "80 GB HBM3", "a GPU with 9 GB", "TDP 700 W"])
def test_a_number_that_doctor_printed_is_no_source_for_other_words(text: str) -> None:
    assert kinds_of(audited(text, campaign=gpu_campaign())) == ["uncited"]


@settings(max_examples=12, deadline=None)
@given(st.lists(kinds, max_size=6), stops)
def test_whatever_happens_in_a_campaign_its_files_pass(
    rounds: list[RoundKind], stop: StopCode | None
) -> None:
    campaign = campaign_of(events_for(rounds, stop=stop))
    assert not audit(rendered(campaign), sources(campaign)).problems


def test_the_readme_of_a_gpu_campaign_holds_what_the_audit_is_about() -> None:
    readme = rendered(gpu_campaign())["README.md"]
    assert "SM 1980 of 1980 MHz, memory up to 2619 MHz" in rendered(gpu_campaign())["env_check.md"]
    for part in ("SM clock up to 1980 MHz", "L2 unified: 50 MiB", str(BANDWIDTH), "241 FLOP/byte"):
        assert part in readme


def test_what_a_tool_printed_is_quoted_and_the_same_words_of_a_proposer_are_not() -> None:
    said = "CUDA out of memory. GPU 0 has a total capacity of 79.11 GiB of which 1 GiB is free"
    campaign = softmax_campaign()
    broken = campaign.rounds[3]
    crashed = broken.judgement.model_copy(update={"outcome": Crashed(reason="oom", detail=said)})
    rounds = [*campaign.rounds[:3], broken.model_copy(update={"judgement": crashed})]
    quoting = campaign.model_copy(update={"rounds": tuple(rounds)})
    assert not audit(rendered(quoting), sources(quoting)).problems
    claim = "this GPU has 79.11 GiB of memory"
    hypothesis = broken.hypothesis.model_copy(update={"statement": claim})
    rounds[3] = rounds[3].model_copy(update={"hypothesis": hypothesis})
    claiming = campaign.model_copy(update={"rounds": tuple(rounds)})
    found = audit(rendered(claiming), sources(claiming))
    assert {problem.number for problem in found.problems} == {"79.11 GiB"}
    shown_in = {problem.path for problem in found.problems}
    assert {"logs/optimize.md", "plans/v4_plan.md", "memory/v4.json", "report.html"} <= shown_in


# -- whatever is changed is found -----------------------------------------------------------

FACT_LINE = re.compile(rf"(?P<metric>[^\n]*: )(?P<number>{NUMBER})(?P<rest> \S+ <- [^\n]*)")
ROOF = re.compile(
    rf"(?P<metric>\n(?:ridge|floor) [^\n]*?)(?P<number>{NUMBER})(?P<rest> [GT](?:FLOP|B)/s)"
)
CACHE = re.compile(rf"(?P<metric>\n- (?:L\d|memory)[^\n]*: )(?P<number>{NUMBER})(?P<rest> [KMG]iB)")


@cache
def places_of(name: str, pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
    """Where a pattern is found in a campaign's files for people."""
    return [
        (path, match)
        for path, text in sorted(files_of(name).items())
        if path.endswith((".md", ".html"))
        for match in pattern.finditer(text)
    ]


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(("softmax", "gpu", "running")),
    st.sampled_from((FACT_LINE, ROOF, CACHE)),
    st.integers(min_value=0),
    st.floats(min_value=0.2, max_value=7),
)
def test_a_number_that_was_changed_is_found(
    name: str, pattern: re.Pattern[str], which: int, factor: float
) -> None:
    files, places = files_of(name), places_of(name, pattern)
    assume(places)
    path, match = places[which % len(places)]
    old = match["number"]
    new = f"{float(old) * factor:.6g}" if "e" in old else f"{float(old) * factor:.3g}"
    assume(abs(float(new) / float(old) - 1) > 0.02)
    start, end = match.span("number")
    # One fact's number may become another's that the file cites: then nothing is wrong with it.
    assume(not _is_known(CAMPAIGNS[name], float(new), match["rest"]))
    changed = files[path][:start] + new + files[path][end:]
    found = audit({path: changed}, sources_of(name))
    assert found.problems, f"{path}: {old} -> {new}"


def _is_known(campaign: Campaign, number: float, unit: str) -> bool:
    scale = {"k": 1e3, "K": 2**10, "M": 2**20, "G": 2**30 if "iB" in unit else 1e9, "T": 1e12}
    values = [fact.value for fact in campaign.started.facts.facts() if fact.value]
    shown = number * scale.get(unit.strip()[0], 1.0)
    return any(abs(value / shown - 1) < 0.02 for value in values) if shown else True


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(("softmax", "gpu")), st.integers(min_value=0), st.integers(1, 10**6))
def test_a_citation_that_leads_elsewhere_is_found(name: str, which: int, line: int) -> None:
    readme = files_of(name)["README.md"]
    places = list(re.finditer(r"<- \S+?(?P<line>:\d+)?(?=[\s(]|$)", readme, re.MULTILINE))
    start, end = places[which % len(places)].span()
    changed = f"{readme[:start]}<- wiki/no-such-page.yaml:{line}{readme[end:]}"
    assert "unresolved" in kinds_of(audit({"README.md": changed}, sources_of(name)))


@pytest.mark.parametrize("path", ["README.md", "plans/v6_plan.md", "memory/v4.json", "report.html",
                                  "manifest.yaml", "logs/optimize.md", "final_report.md",
                                  "benchmark.md", "rounds/round-7/hypothesis.txt"])  # fmt: skip
def test_a_claim_is_found_in_every_kind_of_file(path: str) -> None:
    files = dict(files_of("softmax"))
    claim = "the H100 has 3.35 TB/s"
    planted: dict[str, Callable[[str], str]] = {
        "json": lambda text: text.replace('"Use 64-byte', f'"{claim}. Use 64-byte', 1),
        "html": lambda text: text.replace("</main>", f"<p>{claim}</p></main>"),
        "yaml": lambda text: f"{text}note: {claim}\n",
    }
    kind = path.rpartition(".")[2]
    text = files[path]
    files[path] = planted[kind](text) if kind in planted else f"{text}\n{claim}\n"
    (problem,) = audit(files, sources_of("softmax")).problems
    assert (problem.path, problem.kind, problem.number) == (path, "uncited", "3.35 TB/s")
    assert claim in files[path].splitlines()[problem.line - 1]


# -- citations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"HBM3 bandwidth: 3.35 TB/s <- {BANDWIDTH.citation}", []),
        (f"HBM3 bandwidth: 3350 GB/s <- {BANDWIDTH.citation}", []),
        (f"HBM3 bandwidth: 3.35e12 byte/s <- {BANDWIDTH.citation}.", []),
        (f"The H100 has 3.35 TB/s <- {BANDWIDTH.citation}, more than enough.", []),
        (f"(the H100 has 3.35 TB/s <- {BANDWIDTH.citation})", []),
        (f"L2: 50 MB <- {L2.citation}", []),
        (f"SMs: 132 SM <- {COUNT.citation}", []),
        (f"the H100 has 132 SMs <- {COUNT.citation} and 3.35 TB/s <- {BANDWIDTH.citation}", []),
        (f"HBM3 bandwidth: 3.36 TB/s <- {BANDWIDTH.citation}", ["differs"]),
        (f"HBM3 bandwidth: 3.4 TB/s <- {BANDWIDTH.citation}", ["differs"]),
        (f"HBM3 bandwidth: 3 TB/s <- {BANDWIDTH.citation}", ["differs"]),
        (f"HBM3 bandwidth: 3.35 GB/s <- {BANDWIDTH.citation}", ["differs"]),
        (f"HBM3 bandwidth: 3.35 TFLOP/s <- {BANDWIDTH.citation}", ["differs"]),
        (f"HBM3 bandwidth: 3.35 TB/s <- {L2.citation}", ["differs"]),
        (f"SMs: 114 SM <- {COUNT.citation}", ["differs"]),
        (f"the H100 has 114 SMs <- {COUNT.citation}", ["differs"]),
        (f"bf16 peak: 1,979 TFLOP/s <- {SPARSE.citation}", ["differs"]),
        (f"bf16 sparse peak: 1,979 TFLOP/s <- {SPARSE.citation}", []),
        ("HBM3 bandwidth: 3.35 TB/s <- wiki/nvidia-h100-sxm5-80gb.yaml:1", ["unresolved"]),
        ("HBM3 bandwidth: 3.35 TB/s <- wiki/nvidia-h100.yaml:296", ["unresolved"]),
        ("HBM3 bandwidth: 3.35 TB/s <- my memory", ["unresolved"]),
        ("HBM3 bandwidth: UNKNOWN (wiki not found)", []),
        (f"3.35 TB/s <- {BANDWIDTH.citation}\n\nSo 3.35 TB/s is the roof.", []),
        (f"The peak is 3.35 TB/s.\n\n3.35 TB/s <- {BANDWIDTH.citation}", []),
        (f"3.35 TB/s <- {BANDWIDTH.citation}\n\nSo 3.40 TB/s is the roof.", ["uncited"]),
        (f"the H100 has 132 SMs and 3.35 TB/s <- {BANDWIDTH.citation}", ["uncited"]),
        (f"64 warps per SM at most <- {COUNT.citation}", ["differs"]),
    ],
)
def test_citations(text: str, problems: list[str]) -> None:
    assert kinds_of(audited(text)) == problems


TABLE = "\n".join(str(entry.fact()) for entry in PAGE.entries.values() if entry.number is not None)
"""Every fact of the page, as a campaign's README cites them."""


def line_of(metric: str) -> str:
    """Where a metric stands on the page."""
    return str(PAGE.entries[metric].citation)


FP16 = line_of("peak_rates.tensor.dense.fp16")
BF16 = line_of("peak_rates.tensor.dense.bf16")


@pytest.mark.parametrize(
    "text",
    [
        f"H200 bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"the H200 has 3.35 TB/s <- {BANDWIDTH.citation}",
        f"the H200 (3.35 TB/s <- {BANDWIDTH.citation})",
        f"H100 PCIe bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"X9000 bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"fp8 dense: 9.894e+14 FLOP/s <- {FP16}",
        f"fp16 vector: 9.894e+14 FLOP/s <- {FP16}",
        f"the peak is 989 TFLOP/s (fp8) <- {FP16}",
        f"L2 bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"NVLink gives 3.35 TB/s <- {BANDWIDTH.citation}",
        f"- `L1`: 52428800 byte <- {L2.citation}",
        f"base clock: 1.98e+09 Hz <- {line_of('execution.boost_clock_hz')}",
        f"per block: 233472 byte <- {line_of('caches.shared_memory_per_sm_max_bytes')}",
        f"dense bf16: 1.9789e+15 FLOP/s <- {SPARSE.citation}",
        f"bf16: 1.9789e+15 FLOP/s <- {SPARSE.citation}",
    ],
)
def test_a_number_that_is_said_of_something_else_than_its_citation(text: str) -> None:
    assert kinds_of(audited(text)) == ["differs"]


@pytest.mark.parametrize(
    "text",
    [
        f"H100 bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"H100 SXM5's memory bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"- **NVIDIA H100 80GB HBM3** peak bandwidth: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"bandwidth_byte_per_s: 3.35e+12 byte/s <- {BANDWIDTH.citation}",
        f"fp16: 9.894e+14 FLOP/s <- {FP16}",
        f"fp16 on tensor cores: 9.894e+14 FLOP/s <- {FP16}",
        f"sparse.bf16: 1.9789e+15 FLOP/s <- {SPARSE.citation}",
        f"the fp16 peak is 989 TFLOP/s <- {FP16} and that of bf16 989 TFLOP/s <- {BF16}",
        f"power limit: 700 W <- {line_of('execution.tdp_w')}",
        f"what limits this kernel: at most 3.35 TB/s <- {BANDWIDTH.citation}",
        f"| what | is |\n|---|---|\n| the roof | 3.35 TB/s <- {BANDWIDTH.citation} |",
    ],
)
def test_a_number_that_is_said_of_what_its_citation_says(text: str) -> None:
    assert not audited(text).problems


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("The H100's dense fp16 peak is 1979 TFLOP/s.", ["uncited"]),
        ("The H100's fp16 peak is 1979 TFLOP/s.", ["uncited"]),
        ("The H100's sparse fp16 peak is 1979 TFLOP/s.", []),
        ("The H100's dense fp8 peak is 1979 TFLOP/s.", []),
        ("The H100's fp32 peak is 989 TFLOP/s.", ["uncited"]),
        ("In fp16 with fp32 sums the tensor cores peak at 989 TFLOP/s.", []),
        ("Without tensor cores fp32 peaks at 66.9 TFLOP/s.", []),
        ("The fp16 peak of 989 TFLOP/s is half the fp8 peak of 1979 TFLOP/s.", []),
        ("The H200 has 3.35 TB/s.", ["uncited"]),
        ("Unlike an H200, the H100 has 3.35 TB/s.", []),
        ("| GPU | bandwidth |\n|---|---|\n| H200 | 3.35 TB/s |", ["uncited"]),
        ("The L2 delivers at most 3.35 TB/s.", ["uncited"]),
        ("The L2 is 50 MB and the bandwidth 3.35 TB/s.", []),
        ("50 MB of L2 and 3.35 TB/s are there.", []),
        ("The H100 (132 SMs, 50 MB L2, 3.35 TB/s) has an L4 cache of nothing.", []),
        ("The ridge of fp16 is at 295 FLOP/byte.", []),
        ("The ridge of fp16 is at 591 FLOP/byte.", ["uncited"]),
        ("The ridge of fp8 is at 591 FLOP/byte.", []),
    ],
)
def test_a_number_that_repeats_a_fact_is_said_of_it(text: str, problems: list[str]) -> None:
    assert kinds_of(audited(f"{TABLE}\n\n{text}")) == problems


@pytest.mark.parametrize("name", ["softmax", "gpu"])
def test_this_machine_is_the_one_that_the_campaign_ran_on(name: str) -> None:
    problems = [] if name == "gpu" else ["differs"]
    for said in ("This machine's memory bandwidth: 3.35e+12 byte/s", "This GPU has 3.35 TB/s"):
        text = f"{said} <- {BANDWIDTH.citation}"
        assert kinds_of(audited(text, campaign=CAMPAIGNS[name])) == problems


def test_what_was_measured_here_is_no_other_product_s() -> None:
    measured = fact_sheet().bandwidth[0].fact
    said = f"{measured.value:g} byte/s <- {measured.citation}"
    for who, problems in (("an H100", ["differs"]), ("this CPU", []), ("it", [])):
        text = f"At 256 MiB {who} copies at most {said}"
        assert kinds_of(audited(text, campaign=softmax_campaign())) == problems


def test_a_line_may_be_named_with_an_l() -> None:
    path, line = str(BANDWIDTH.citation).rsplit(":", 1)
    assert not audited(f"bandwidth: 3.35 TB/s <- {path}:L{line}").problems


def test_a_citation_in_another_file_counts_for_that_file_only() -> None:
    files = {"a.md": str(BANDWIDTH), "b.md": "the H100 has 3.35 TB/s"}
    (problem,) = audit(files, sources(None)).problems
    assert (problem.path, problem.line) == ("b.md", 1)


def test_a_ridge_follows_from_two_facts_that_are_cited() -> None:
    peak = PAGE.entries["peak_rates.tensor.dense.bf16"].fact()
    cited = f"{BANDWIDTH}\n{peak}\n"
    assert not audited(f"{cited}the ridge is at 295 FLOP/byte").problems
    assert kinds_of(audited(f"{cited}the ridge is at 590 FLOP/byte")) == ["uncited"]
    assert kinds_of(audited("the ridge is at 295 FLOP/byte")) == ["uncited"]


def test_the_ledger_s_copy_of_a_measurement_counts_where_the_file_is_gone() -> None:
    campaign = softmax_campaign()
    measured = fact_sheet().bandwidth[0].fact
    assert not audited(str(measured), campaign=campaign).problems
    assert kinds_of(audited(str(measured))) == ["unresolved"]
    changed = measured.model_copy(update={"value": 5.2e10})
    assert kinds_of(audited(str(changed), campaign=campaign)) == ["differs"]


def test_a_page_is_asked_itself_also_where_the_ledger_has_a_copy() -> None:
    campaign = gpu_campaign()
    empty = Sources(lambda _: None, kept_facts(campaign.started), quotations(campaign))
    found = audit({"README.md": rendered(campaign)["README.md"]}, empty)
    assert {problem.kind for problem in found.problems} >= {"unresolved"}


def test_facts_of_one_source_are_told_apart_by_name() -> None:
    campaign = gpu_campaign()
    lines = rendered(campaign)["README.md"].splitlines()
    (l2,) = [line for line in lines if line.startswith("L2 unified cache")]
    (memory,) = [line for line in lines if re.match(r"memory: \d", line)]
    assert l2.partition(" <- ")[2] == memory.partition(" <- ")[2]
    swapped = l2.split(": ")[0] + ": " + memory.split(": ")[1]
    assert kinds_of(audited(swapped, campaign=campaign)) == ["differs"]


# -- how files are read ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"peak_bandwidth_gbps": 3350}'),
        ("a.json", '{"memory_bytes": 85899345920, "n": 1}'),
        ("a.json", '{"a": ["x", "the H100 has 3.35 TB/s"]}'),
        ("a.json", '{"a":\n\n{"b": "line\\nHBM: 3.35 TB/s"}}'),
        ("a.json", '{"torn": "the H100 has 3.35 TB/s'),
        ("a.json", '{"memory_bus_width_bit": 5120}'),
        ("a.json", '{"peak_tflops_fp16": 989, "kernel_tflops_fp16": 700}'),
        ("a.json", '{"hbm_bandwidth_gib_per_s": 3120}'),
        ("a.json", '{"peak_bandwidth_bytes_per_second": 3.35e12}'),
        ("a.json", '{"peak_bandwidth_GBs": 3350}'),
        ("a.yaml", "peak_tflops: 989.4\n"),
        ("a.yaml", "sm_count: 132\n"),
        ("a.yaml", "- note: the H100 has 3.35 TB/s\n"),
        ("a.md", "| GPU | bandwidth |\n|---|---|\n| H100 | 3.35 TB/s |\n"),
        ("a.md", "```text\nHBM: 3.35 TB/s\n```\n"),
        ("a.txt", "HBM: 3.35 TB/s"),
        ("a.html", "<table><tr><th>GPU<th>L2</tr><tr><td>H100<td>50&nbsp;MB</table>"),
        ("a.html", "<p>the H100 has <b>3.35</b>&nbsp;TB/s</p>"),
        ("a.html", "<dl><dt>L2 cache</dt><dd>50 MB</dd></dl>"),
        ("a.html", "<svg><text>3.35 TB/s</text></svg>"),
        ("a.md", "| device | peak (TB/s) |\n|---|---|\n| H100 | 9.99 |"),
        ("a.md", "| device | peak [TB/s] |\n|---|---|\n| H100 | **9.99** |"),
        ("a.md", "| device | peak, TB/s |\n|---|---|\n| H100 | ~9.99 |"),
        ("a.md", "| | H100 |\n|---|---|\n| peak bandwidth (TB/s) | 9.99 |"),
        ("a.md", "| what | H100 | unit |\n|---|---|---|\n| peak bandwidth | 9.99 | TB/s |"),
        ("a.html", "<table><tr><th>GPU<th>peak (TB/s)</tr><tr><td>H100<td>9.99</table>"),
        ("a.csv", "GPU,peak (TB/s)\nH100,9.99\n"),
        ("a.json", '{"hw": {"bandwidth": {"value": 3.35e12, "unit": "byte/s"}}}'),
        ("a.json", '{"hw": [{"unit": "byte/s", "metric": "bandwidth", "value": 3.35e12}]}'),
        ("a.json", '{"peak": {"tflops": 989}}'),
        ("a.yaml", "peak:\n  tflops: 989\n"),
        ("a.yaml", "hw:\n  bandwidth:\n    value: 3.35e+12\n    unit: byte/s\nn: 1\n"),
        ("a.yaml", "- unit: byte/s\n  metric: bandwidth\n  value: 3.35e+12\n- n: 1\n"),
        ("a.md", "The H100 peaks at 989\nTFLOP/s"),
        ("a.md", "- The H100 peaks at\n  989 TFLOP/s"),
        ("a.md", "The H100 peaks at 989&nbsp;TFLOP/s"),
        ("a.rst", "The H100 peaks at 989\nTFLOP/s"),
        ("a.log", "HBM: 3.35 TB/s"),
        ("a.ipynb", '{"cells": [{"source": ["# Plan\\n", "the H100 has 3.35 TB/s\\n"]}]}'),
    ],
)  # fmt: skip
def test_a_claim_in_any_form(name: str, text: str) -> None:
    assert kinds_of(audited(text, name)) == ["uncited"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "```diff\n+ // the H100 has 3.35 TB/s\n```\n"),
        ("a.md", "```c\n// the L2 is 50 MB\n```\n"),
        ("a.md", "| workload | achieved |\n|---|---|\n| N=1 | 3.35 TB/s |\n"),
        ("a.html", '<div class="diff"><pre>// the L2 is 50 MB</pre></div>'),
        ("a.html", "<style>.a { width: 50 MB of L2 }</style>"),
        ("a.json", '{"achieved": "3.35 TB/s", "read_bytes": 1024, "time_s": 3}'),
        ("a.yaml", "budget_s: 132\nthreads: 64\n"),
        ("a.md", "| run | achieved (TB/s) | time (ms) |\n|---|---|---|\n| 1 | 2.1 | 9 |"),
        ("a.csv", "run,achieved (TB/s)\n1,2.1\n"),
        ("a.json", '{"achieved": {"value": 2.1e12, "unit": "byte/s"}, "value": 3.35e12}'),
        ("a.json", '{"tile": {"bytes": 49152}, "fact": {"value": null, "unit": "byte/s"}}'),
        ("a.yaml", "achieved:\n  gbps: 21\n"),
        ("a.md", "This kernel reaches\n2.1 TB/s"),
        ("a.json", json.dumps(BANDWIDTH.model_dump())),
        ("a.yaml", f"bw:\n  value: 3.35e+12\n  unit: byte/s\n  citation: {BANDWIDTH.citation}"),
        ("a.md", f"| GPU | peak (TB/s) |\n|---|---|\n| H100 | 3.35 <- {BANDWIDTH.citation} |"),
    ],
)  # fmt: skip
def test_what_is_no_statement_about_a_device(name: str, text: str) -> None:
    assert not audited(text, name).problems


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("The kernel\nreads all once.\nThe H100 has\n3.35 TB/s", 4),
        ("- a\n- the H100\n  has 3.35\n  TB/s", 3),
        (f"the L2 is 50 MB\n<- {L2.citation}\nand HBM\nhas 3.35 TB/s", 4),
        (f"the L2 is 50 MB <- {L2.citation}\nand 3.36 TB/s <-\n{BANDWIDTH.citation}", 2),
        ("word " * 799 + "\n" + "word " * 799 + "\nthe H100 has 3.35 TB/s", 3),
    ],
)
def test_the_line_of_a_number_in_a_paragraph(text: str, line: int) -> None:
    (problem,) = audited(text).problems
    assert problem.line == line


def test_a_line_that_says_first_what_it_is_about_goes_on_with_no_other() -> None:
    found = audited("# H100\nmemory bandwidth: 3.35 TB/s\nreaches: 2.1 TB/s\n---\nhas 989\n")
    assert [problem.number for problem in found.problems] == ["3.35 TB/s"]


def test_a_problem_says_where_what_and_what_to_do() -> None:
    (problem,) = audited("\n\nthe H100 has 3.35 TB/s", "plans/v1_plan.md").problems
    assert str(problem).startswith("plans/v1_plan.md:3: 3.35 TB/s: a hardware number without")
    assert "roofsmith specs cite" in problem.fix


def test_a_number_that_the_campaign_knows_comes_with_its_citation() -> None:
    known = Sources(WIKI.resolve, known=(COUNT, BANDWIDTH))
    (problem,) = audit({"a.md": "a block for each of the 132 SMs"}, known).problems
    assert f"`132 SMs <- {COUNT.citation}`" in problem.fix
    assert not audited(f"a block for each of the 132 SMs <- {COUNT.citation}").problems
    (problem,) = audit({"a.md": "a block for each of the 114 SMs"}, known).problems
    assert "<- PAGE:LINE" in problem.fix


def test_the_time_of_a_measurement_is_no_line() -> None:
    text = (
        "copy bandwidth: 3 GB/s <- /a/ceilings-1.json (roofsmith specs measure, 2026-11-21 05:02)"
    )
    (problem,) = audited(text).problems
    assert problem.why == "no number is known at /a/ceilings-1.json"


@given(st.text(max_size=300), st.sampled_from(("md", "html", "json", "yaml", "txt")))
def test_any_file_can_be_read(text: str, ending: str) -> None:
    audited(f"{text} <- {text}", f"a.{ending}")


# -- what is missing ------------------------------------------------------------------------


def test_missing_facts_are_pitfalls_of_readme_and_memory() -> None:
    campaign = crippled()
    files = render_campaign(campaign).files
    pitfalls = files["README.md"].partition("## Pitfalls\n")[2].partition("\n## ")[0]
    assert "copy bandwidth: UNKNOWN (not measured)" in pitfalls
    assert "no floor, limiter or share of the roofline is claimed" in pitfalls
    noted = json.loads(files["memory/v0.json"])["pitfalls_and_fixes"]
    assert any("copy bandwidth: UNKNOWN" in pitfall["error_message"] for pitfall in noted)


def test_a_campaign_that_lacks_nothing_says_so() -> None:
    campaign = softmax_campaign()
    sheet = fact_sheet()
    whole = sheet.model_copy(update={"other": sheet.other[:1]})
    first = campaign.started.model_copy(update={"facts": whole})
    readme = render_campaign(campaign.model_copy(update={"started": first})).files["README.md"]
    assert "None: every fact that a bound needs is known." in readme


def test_a_device_that_the_wiki_does_not_know_is_a_pitfall() -> None:
    campaign = softmax_campaign()
    missing = Fact(metric="datasheet of X1", value=None, unit="1", reason="wiki not found")
    facts = campaign.started.facts.model_copy(update={"other": (missing,)})
    first = campaign.started.model_copy(update={"facts": facts})
    readme = render_campaign(campaign.model_copy(update={"started": first})).files["README.md"]
    pitfalls = readme.partition("## Pitfalls\n")[2]
    assert "- datasheet of X1: UNKNOWN (wiki not found)" in pitfalls


def test_a_citation_with_blanks_in_its_path() -> None:
    where = Citation(path="/home/joe b/wiki/mine.yaml", line=7)
    fact = Fact(metric="bandwidth", value=3.0e12, unit="byte/s", citation=where)
    found = audit({"a.md": str(fact)}, Sources({str(where): fact}.get))
    assert (found.citations, found.problems) == (1, ())
