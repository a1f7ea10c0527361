"""Kernels, names and compilers say anything; reports show it and do nothing of it."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from campaign_builder import (
    baseline,
    campaign_of,
    candidate,
    crippled,
    resumed,
    softmax_campaign,
    softmax_events,
    started,
)
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.cli.screen import screen
from roofsmith.domain.calibration import RoundScore, Score
from roofsmith.domain.campaign import Campaign, Committed, Event, Masked, Noted, Profiled, Started
from roofsmith.domain.diagnosis import Attempt, BestKnown, Diagnosed, Material
from roofsmith.domain.examination import Check, Examination
from roofsmith.domain.proposal import Planned, Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.yardstick import PyTorchBaselineResult, PyTorchBaselines
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.templating import breakable, code, escape_markdown, fence, prose

EVIL = "</script></style></title></svg><img src=x onerror=alert(1)><b id=pwned>'\"&amp;{{ 7*7 }}"
EVIL += "\n```\n| a | b |\n# h\n[x](javascript:alert(1)) ` \x1b[31m \u202e"
EVIL += "\x1b]52;c;cHduZWQ=\x07 \x9b1m"
PROTECTED = {
    "new_dependencies", "less_work", "several_settings",
    "kind", "language", "compiler", "dtype", "verdict", "role", "pattern", "operation", "tool",
    "limiter", "answers", "bucket", "code", "first", "workload", "workloads", "at", "path", "name",
    "candidate_id", "incumbent_id", "entry", "isolation", "timing",
    "ceilings", "quantity", "origin", "category", "by",
    "validation", "landing", "came_to", "area", "level", "languages",
}  # fmt: skip
"""Closed sets, identifiers and file names; everything else may hold any text."""
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr", "col"}
STATES = {
    "finished": softmax_campaign(),
    "running": campaign_of(softmax_events()[:6]),
    "baseline": campaign_of(softmax_events()[:2]),
    "new": campaign_of([started()]),
    "crippled": crippled(),
}


def poisoned(campaign: Campaign) -> Campaign:
    """The campaign with hostile text in every place that takes text."""
    document = with_evil(campaign)
    document["started"]["environment"]["device"]["name"] += EVIL
    return Campaign.model_validate(document)


def with_evil(value: Campaign | Event) -> dict[str, Any]:
    """As JSON, with hostile text in every place that takes text."""

    def visit(value: Any, key: str) -> Any:
        match value:
            case dict():
                return {k: visit(v, k) for k, v in value.items()}
            case list() | tuple():
                return [visit(v, key) for v in value]
            case str() if key not in PROTECTED:
                return value + EVIL
            case _:
                return value

    document: dict[str, Any] = visit(value.model_dump(mode="json"), "")
    return document


class Page(HTMLParser):
    """Collects tags, and insists that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data


def page(campaign: Campaign) -> Page:
    return Page(render_campaign(campaign).files["report.html"])


@pytest.mark.parametrize("poison", [False, True], ids=["clean", "hostile"])
@pytest.mark.parametrize("state", STATES)
def test_the_page_is_whole_and_runs_nothing(state: str, poison: bool) -> None:
    campaign = poisoned(STATES[state]) if poison else STATES[state]
    shown = page(campaign)
    assert shown.open == []
    assert not shown.tags & {"script", "img", "iframe", "link", "object", "embed", "form", "base"}
    names = {name for name, _ in shown.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset")]
    links = [value or "" for name, value in shown.attributes if name in ("href", "xlink:href")]
    assert all(link.startswith("#") for link in links)
    assert ("id", "pwned") not in shown.attributes
    assert "{{ 7*7 }}" in shown.text or not poison


@pytest.mark.parametrize("state", STATES)
def test_the_page_fetches_nothing(state: str) -> None:
    text = render_campaign(STATES[state]).files["report.html"]
    assert "default-src 'none'" in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not re.search(r"url\(|@import|https?:", style[1])


def test_links_lead_somewhere() -> None:
    shown = page(softmax_campaign())
    ids = [value for name, value in shown.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in shown.attributes:
        if name == "href":
            assert (value or "").removeprefix("#") in ids


def test_hostile_text_is_shown_as_it_is() -> None:
    shown = page(poisoned(softmax_campaign())).text
    assert "</script></style></title></svg><img src=x onerror=alert(1)>" in shown
    assert "\\u202e" in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("poison", [False, True], ids=["clean", "hostile"])
def test_drawings_are_well_formed_and_named(poison: bool) -> None:
    campaign = poisoned(softmax_campaign()) if poison else softmax_campaign()
    text = render_campaign(campaign).files["report.html"]
    drawings = re.findall(r"<svg\b.*?</svg>", text, re.DOTALL)
    charts = [root for root in map(ElementTree.fromstring, drawings) if root.get("role") == "img"]
    # Trend, wide and narrow; three workloads.
    assert len(charts) == 5
    for chart in charts:
        assert chart.get("aria-label")
        assert chart.find("title") is not None
        width, height = map(float, (chart.get("viewBox") or "").split()[2:])
        for mark in chart.iter("circle"):
            assert 0 <= float(mark.get("cx", "nan")) <= width
            assert 0 <= float(mark.get("cy", "nan")) <= height


def without_code(text: str) -> str:
    """Markdown without code blocks and spans: what a renderer would read as markup."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", " ", text)


@pytest.mark.parametrize("state", STATES)
def test_markdown_holds_no_foreign_markup(state: str) -> None:
    for name, text in render_campaign(poisoned(STATES[state])).files.items():
        if name.endswith(".md"):
            prose_text = without_code(text)
            assert not re.search(r"<(?:img|b|/script|/svg)\b", prose_text), name
            assert not re.search(r"(?<!\\)\]\(javascript", prose_text), name
            assert "\x1b" not in text, name


@pytest.mark.parametrize("state", ["finished", "running"])
def test_markdown_tables_keep_their_columns(state: str) -> None:
    for name, text in render_campaign(poisoned(STATES[state])).files.items():
        if not name.endswith(".md"):
            continue
        width = 0
        for line in without_code(text).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            assert cells in (0, width) or width == 0, (name, line)
            width = cells


@given(st.text())
def test_a_fence_can_not_be_closed_from_inside(text: str) -> None:
    opening, *body, closing = fence(text, "c").split("\n")
    ticks = opening.removesuffix("c")
    assert closing == ticks
    assert set(ticks) == {"`"}
    assert all(ticks not in line for line in body)


@given(st.text())
def test_a_code_span_can_not_be_closed_from_inside(text: str) -> None:
    span = code(text)
    ticks = re.match(r"`+", span)
    assert ticks is not None
    assert "\n" not in span


@given(st.text(alphabet="<>&'\"`ab/\\ |*_[]()#-1.\n"))
def test_escaped_markdown_has_no_tag_and_no_cell_border(text: str) -> None:
    escaped = escape_markdown(text)
    outside = without_code(escaped)
    assert not re.search(r"<[A-Za-z/!?]", outside)
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", outside)
    assert "\n" not in escaped


@given(st.text())
def test_prose_is_escaped_around_code_and_inside(text: str) -> None:
    shown = Page(f"<p>{prose(text)}</p>")
    assert shown.tags <= {"p", "code"}
    assert shown.open == []


def test_names_between_backticks_become_code() -> None:
    assert prose("use `expf` & <b>") == "use <code>expf</code> &amp; &lt;b&gt;"
    assert escape_markdown("use `a*b` and *this*") == "use `a*b` and \\*this\\*"
    assert escape_markdown("1. not a list") == "1\\. not a list"
    assert escape_markdown("1.23x [1.20, 1.26], vector_fraction < 0.5") == (
        "1.23x [1.20, 1.26], vector_fraction < 0.5"
    )


def test_workloads_break_after_commas() -> None:
    assert breakable("N=1,<b>=2") == "N=1,<wbr>&lt;b&gt;=2"


# -- screens --------------------------------------------------------------------------------


def every_kind() -> list[Event]:
    at, first, *others = "2026-04-12 11:00:00", *softmax_events()
    a_round = softmax_campaign().rounds[0]
    busy = Check(area="processor", name="load", level="limited", detail="x", fix="-")
    looked = Examination(subject="x", language="c", machine="m", checks=(busy,), readiness=())
    seen, held = baseline(), a_round.judgement
    eager = PyTorchBaselineResult(name="eager", candidate_id="a", judgement=held)
    refusal = Refusal(
        reason="malformed", detail="x", after_round=1, proposer="somebody", wall_s=1.0, at=at
    )
    proposal = Proposal(hypothesis=a_round.hypothesis, candidate=candidate())
    score = Score(predicted=None, measured=None, landing="unpredicted")
    scores = RoundScore(
        round=2, tactic="t", category="tiling", speedup=score, counter=None, movement=score
    )
    attempt = Attempt(
        round=2, statement="x", tactic="t", category="tiling", answers="memory", came_to="slower",
        why="x", score=scores,
    )  # fmt: skip
    material = Material(attempts=(attempt,), profiles=(), best_known=BestKnown(gaps=()))
    return [
        first.model_copy(update={"examination": looked}),
        *others,
        resumed(),
        refusal,
        refusal.model_copy(update={"reason": "gave_up"}),
        Committed(round=2, commit="0" * 12, branch="b", at=at),
        Planned(round=2, proposal=proposal, at=at),
        Masked(rounds=(2,), by="command", reason="x", at=at),
        Noted(round=2, number=1, text="x", at=at),
        Profiled(round=2, profile=seen.profile, bottleneck=seen.bottleneck, at=at),
        Diagnosed(after_round=2, level=1, material=material, at=at),
        PyTorchBaselines(incumbent_id="a", results=(eager,), at=at),
    ]


def hostile(event: Event) -> Event:
    document = with_evil(event)
    if isinstance(event, Refusal):
        document["reason"] = event.reason
    if isinstance(event, Started):
        document["environment"]["device"]["name"] += EVIL
    return type(event).model_validate(document)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_screen_shows_control_characters_and_passes_none_on(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    events, campaign, written = every_kind(), poisoned(softmax_campaign()), stream()
    assert {type(event) for event in events} == set(get_args(get_args(Event)[0]))
    with screen(written) as shown:
        for event in events:
            shown.stage("gate", EVIL)
            shown.progress(0.5, EVIL)
            shown.event(hostile(event), campaign)
    text = written.getvalue()
    assert "7*7" in text
    if written.isatty():  # which has colours of its own, and moves its own lines
        text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", text)
    assert not [char for char in text if not char.isprintable() and char != "\n"]
