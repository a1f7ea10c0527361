"""The library: our pages are sourced, a folder of one's own wins and breaks nothing."""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from briefs import brief_of
from campaign_builder import softmax_events
from typer.testing import CliRunner

from roofsmith.analysis.flops import FAMILIES
from roofsmith.analysis.quantities import hardware_quantities
from roofsmith.api.citations import lookup_for
from roofsmith.api.knowledge import route
from roofsmith.asking.brief import document, markdown
from roofsmith.citations.check import audit
from roofsmith.citations.sources import CitationSources
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.domain.campaign import Started, replay
from roofsmith.domain.device import Device
from roofsmith.domain.knowledge import library_arch
from roofsmith.errors import UnknownNameError
from roofsmith.knowledge.library import MAX_PAGE_BYTES, Library
from roofsmith.knowledge.page import MAX_DIRECTION, LibraryPage
from roofsmith.proposers.cards import all_cards
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.prospects import pitfalls

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PAGES = Library.load().pages
OPERATORS = (
    "gemm", "grouped_gemm", "attention", "softmax", "norm", "reduction", "elementwise", "scan",
    "conv",
)  # fmt: skip
PAGE = """\
---
title: Mine
sources:
  me: my own notes
---
# Mine
### memory: Mine first
- change: do it
- moves: dram_bytes_read down
- hurts: never
- source: me
"""


def test_nothing_is_wrong_with_our_pages() -> None:
    assert Library.load().findings == ()
    assert {f"ops/{name}" for name in OPERATORS} <= {page.id for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_every_claim_of_our_pages_has_its_source(page: LibraryPage, tmp_path: Path) -> None:
    sources = CitationSources(lookup_for(Settings(tmp_path, tmp_path)))
    assert audit({page.id: page.text}, sources).problems == ()
    for item in items(page.text):
        assert re.search(r"\[[a-z][\w-]*\]| <- ", item) or item.startswith(FIELDS), item
        found = [] if item.startswith("- measured:") else list(hardware_quantities(item))
        # Cycles and registers are instruction sets' as much as devices': their key is enough.
        numbers = [one for one in found if one.unit in ("byte", "Hz") or "/s" in one.unit]
        assert not numbers or " <- " in item, item


FIELDS = tuple(f"- {key}:" for key in ("change", "moves", "hurts", "measured", "source"))


def items(text: str) -> list[str]:
    """Items of lists, each with the lines that go on with it."""
    joined = text.partition("\n---\n")[2].replace("\n  ", " ")
    return [line for line in joined.splitlines() if line.startswith("- ")]


@pytest.mark.parametrize("page", [page for page in PAGES if page.directions], ids=lambda p: p.id)
def test_what_our_benchmarks_measured_is_what_their_files_hold(page: LibraryPage) -> None:
    for one in page.directions:
        if "raw data not kept" in one.measured:
            continue
        told = re.findall(r"(.+?) <- (\S+?)(?:; |$)", one.measured)
        assert bool(told) == bool(one.measured), one.measured
        for said, name in told:
            found = figures(json.loads((RESULTS.parents[1] / name).read_text(encoding="utf-8")))
            kinds = [key for key in found if re.search(rf"\b{key}\b", said)]
            claims = re.findall(r"\d+(?:\.\d+)?x|\d+%(?= of the floor)|\d+ of \d+", said)
            held = [value for key in kinds for value in found[key]]
            assert claims, said
            assert [claim for claim in claims if not is_held(claim, held)] == [], said


def is_held(claim: str, held: list[float | str]) -> bool:
    """Whether figures say so: `1.2x` within 10%, `98%` of a floor within 5%, counts exactly."""
    if " of " in claim:
        return claim in held
    value, near = (float(claim[:-1]), 0.1) if claim[-1] == "x" else (float(claim[:-1]) / 100, 0.05)
    numbers = [one for one in held if isinstance(one, float)]
    return any(one == pytest.approx(value, rel=near) for one in numbers)


def figures(recorded: dict[str, Any]) -> dict[str, list[float | str]]:
    """What a file of results says, by what pages call it: tactics, cases, parameters."""
    found = defaultdict[str, list[float | str]](list)
    for campaign in recorded.get("campaigns", ()):
        for round_ in campaign["rounds"]:
            found[round_["tactic"]].append(round_["speedup"])
    for case in recorded.get("cases", ()):
        for timed in case.get("timed", ()):
            times = {
                one["name"]: median(one["times_us"])
                for one in timed["contenders"]
                if one["times_us"]
            }
            if (best := times.get("optimized")) is None:
                continue
            rate = timed["flops_per_s"].get(case["floor"], math.inf)
            floor_s = max(timed["bytes"] / timed["copy_bytes_per_s"], timed["flops"] / rate)
            found[case["case"]] += [floor_s * 1e6 / best, *(us / best for us in times.values())]
    tried = [r | {"case": c["case"]} for c in recorded.get("cases", ()) for r in rounds_of(c)]
    for tactic in {round_["tactic"] for round_ in tried}:
        rounds = [round_ for round_ in tried if round_["tactic"] == tactic]
        kept = {round_["case"] for round_ in rounds if round_["decision"] == "kept"}
        all_ = {round_["case"] for round_ in rounds}
        found[tactic] += [f"{len(kept)} of {len(all_)}", *(r["speedup"] for r in rounds)]
    for kernel in recorded.get("kernels", ()):
        if len(kernel["kept"]) == 1:
            found[kernel["kept"][0]].append(kernel["speedup"])
    for table in recorded.get("tables", ()):
        rows = [row for row in table["rows"] if row["time_s"]]
        best = min(row["time_s"] for row in rows)
        found["settings"].append(max(row["time_s"] for row in rows) / best)
        for name in rows[0]["settings"]:
            for value in {row["settings"][name] for row in rows}:
                times_s = [row["time_s"] for row in rows if row["settings"][name] == value]
                found[name.lower()].append(min(times_s) / best)
    sizes = {table["space"]: len(table["rows"]) for table in recorded.get("tables", ())}
    for one in recorded.get("replays", ()):
        if one["search"] == "sweep":
            found["settings"].append(f"{median(one['looks'])} of {sizes[one['space']]}")
    return found


def rounds_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a campaign without what others learned."""
    rounds: list[dict[str, Any]] = case.get("without", {}).get("rounds", [])
    return rounds


def test_every_family_of_operators_has_a_page() -> None:
    assert [family for family in FAMILIES if not Library.load().route(op=family)] == []


def test_cards_that_pages_name_are_there_and_every_card_has_a_page() -> None:
    cards = {card.id for card in all_cards()}
    text = "\n".join(page.text for page in PAGES)
    offered = set(re.findall(r"\(card ([\w-]+)\)", text))
    assert offered <= cards
    named = offered | set(re.findall(r"recipe:([\w-]+)", text))  # records outlive their cards
    operators = {op for page in PAGES for op in page.op}
    assert [c.id for c in all_cards() if c.id not in named and not c.families & operators] == []


def test_a_page_of_ones_own_wins(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "softmax.md").write_text(PAGE)
    (tmp_path / "ops" / "mine.md").write_text("# No front matter\n")
    library = Library.load(tmp_path)
    assert library.page("ops/softmax").title == "Mine"
    assert library.page("mine").op == ("mine",)
    assert len(library.pages) == len(PAGES) + 1
    assert library.findings == ()


def test_what_is_wrong_with_ones_own_pages_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "links.md").write_text(
        "[gone](ops/gone.md) [up](../../../etc/x.md) [it](ops/gemm.md) [s](two%20words.md)\n"
    )
    (tmp_path / "two words.md").write_text("# Two\n")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.md").write_bytes(b"x" * (MAX_PAGE_BYTES + 1))
    (tmp_path / "open.md").write_text("---\ntitle: x\n")
    (tmp_path / "keys.md").write_text("---\ntitle: [1]\n---\n")
    (tmp_path / "half.md").write_text("### memory: Half\n- change: x\n- source: nobody\n")
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.md")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text(PAGE)
    (tmp_path / "long.md").write_text(PAGE.replace("do it", "x" * MAX_DIRECTION))
    found = {(Path(one.path).name, one.code) for one in Library.load(tmp_path).findings}
    assert found == {
        ("links.md", "broken_link"), ("binary.md", "unreadable"), ("huge.md", "too_large"),
        ("open.md", "front_matter"), ("keys.md", "front_matter"), ("half.md", "direction"),
        ("half.md", "unknown_source"), ("gone.md", "unreadable"), ("pipe.md", "unreadable"),
        ("\\udcff.md", "unreadable"), ("long.md", "direction"),
    }  # fmt: skip
    assert [one.code for one in Library.load(tmp_path / "nowhere").findings] == ["unreadable"]


def test_words_that_steer_a_terminal_are_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "sly.md").write_text("# a\x1b[2Jb\n")
    assert "\x1b" not in Library.load(tmp_path).page("sly").text


def test_a_route_has_the_operator_first_and_no_other_language() -> None:
    ids = [page.id for page in Library.load().route("softmax", "sm_90a", "triton", "memory")]
    assert ids[0] == "ops/softmax"
    assert "strategies/TRITON" in ids
    assert "strategies/CUDA" not in ids
    assert not any(id_.startswith("ops/") for id_ in ids[1:])


@pytest.mark.parametrize(("lang", "side"), [("c", "host"), ("cuda", "gpu")])
def test_directions_of_the_other_side_are_left_out(lang: str, side: str) -> None:
    found = Library.load().route("softmax", lang=lang)[0].directions
    assert {one.side for one in found} <= {side, None}
    assert {
        one.answers for one in Library.load().route("softmax", bottleneck="memory")[0].directions
    }


def test_a_product_goes_by_its_architecture(tmp_path: Path) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "sm_90.md").write_text(PAGE)
    here = Settings(tmp_path, tmp_path, knowledge_dir=tmp_path)
    assert "Mine" in {page.title for page in route(here, gpu="H100 SXM")}
    assert "Mine" not in {page.title for page in route(here, gpu="MI300X")}


def test_a_page_that_isnt_there_has_a_hint() -> None:
    with pytest.raises(UnknownNameError) as error:
        Library.load().page("softmix")
    assert "ops/softmax" in (error.value.hint or "")


def test_a_processor_is_called_by_its_widest_vectors() -> None:
    device = Device(kind="cpu", name="x", cores=2, isa=("avx2", "avx512f", "fma"))
    assert library_arch(device) == "x86-64-avx512"
    assert library_arch(device.model_copy(update={"isa": ("avx2",)})) == "x86-64-avx2"
    assert library_arch(device.model_copy(update={"isa": ("asimd", "bf16")})) == "aarch64"
    assert library_arch(Device(kind="nvidia", name="x", cores=2, arch="sm_90")) == "sm_90"


def test_a_brief_has_the_directions_of_its_bottleneck() -> None:
    events = list(softmax_events())
    first = events[0]
    assert isinstance(first, Started)
    routed = Library.load().route("softmax", "x86-64-avx2", "c")
    known = tuple(way for page in routed for way in page.directions)
    campaign = replay([first.model_copy(update={"directions": known}), *events[1:]])
    brief = brief_of(campaign)
    found = document(brief)
    titles = [row["title"] for row in found["knowledge"]]
    assert titles
    assert all(brief.bottleneck.kind in row["answers"] for row in found["knowledge"])
    assert titles[0] in markdown(found)
    assert "ops/softmax" in render_campaign(campaign).files["plans/v1_plan.md"]


def test_a_campaign_says_where_no_page_is_of_its_device() -> None:
    first = next(event for event in softmax_events() if isinstance(event, Started))
    arm = first.environment.device.model_copy(update={"isa": ("asimd",)})
    there = first.environment.model_copy(update={"device": arm})
    for arch, is_missing in (("x86-64-avx2", False), ("aarch64", True)):
        routed = Library.load().route("softmax", arch, "c")
        known = tuple(way for page in routed for way in page.directions)
        told = first.model_copy(update={"directions": known, "environment": there})
        assert ("aarch64" in " ".join(map(str, pitfalls(replay([told]))))) == is_missing


@pytest.mark.parametrize(
    "line",
    ["list", "show gemm", "search split-K", "route --op gemm --gpu H100-SXM"],
)
def test_the_command_prints_one_object(
    line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = line.split()
    monkeypatch.setenv("ROOFSMITH_KNOWLEDGE", str(tmp_path))
    done = CliRunner().invoke(cli, ["knowledge", *words, "--json"])
    assert done.exit_code == 0
    assert "gemm" in str(json.loads(done.stdout))
    assert CliRunner().invoke(cli, ["knowledge", *words]).exit_code == 0
    for wrong in ("--bottleneck luck", "--op sofmax", "--lang rust", "--gpu H1"):
        assert CliRunner().invoke(cli, ["knowledge", "route", *wrong.split()]).exit_code == 2
