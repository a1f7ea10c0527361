"""What a browser makes of campaigns: nothing runs, everything fits, and what is new appears."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from browsing import WIDTHS, Holder, Looker, findings
from campaign_builder import resumed, softmax_events
from test_web import Site, suite_of, written

from roofsmith.domain.campaign import Event, Round
from roofsmith.domain.proposal import Planned, Proposal

Look = Callable[..., Looker]
PATHS = ("", "campaign/{fine}", "campaign/{fine}/round/5", "campaign/{fine}/round/7",
         "campaign/{hostile}", "campaign/{hostile}/round/2", "campaign/{new}",
         "campaign/{crippled}", "campaign/{long}", "campaign/{long}/round/3",
         "suite/{suite}")  # fmt: skip


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    ids = site.campaigns() | {"suite": suite_of(site)}
    return {path: f"{root(site)}/{path.format(**ids)}" for path in PATHS}


def root(site: Site) -> str:
    return f"{site.address.scheme}://{site.address.netloc}{site.root}"


def planned(event: Event) -> Planned:
    """What a run writes before it judges what is to become a round."""
    assert isinstance(event, Round)
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    proposal = Proposal(hypothesis=event.hypothesis, candidate=event.candidate)
    return Planned(round=event.round, at=now, proposal=proposal)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_runs_nothing_foreign_and_is_for_everybody(
    look: Look, addresses: dict[str, str], axe: str, path: str, width: int, dark: bool
) -> None:
    shown = look(addresses[path], width, dark=dark)
    assert shown.overflow() <= 0
    assert shown.page.locator("#pwned").count() == 0
    assert shown.page.locator("h1").count() == 1
    assert findings(shown, axe) == []


@pytest.mark.parametrize("name", ["fine", "hostile"])
def test_the_report_can_be_read_by_everybody(look: Look, folder: Path, axe: str, name: str) -> None:
    for width in WIDTHS:
        shown = look((folder / name / "report.html").as_uri(), width)
        assert shown.overflow() <= 0
        assert shown.page.locator("#pwned").count() == 0
    assert findings(shown, axe) == []


_AT_HOME = """(folder) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    texts.currentNode.data = texts.currentNode.data.replace(folder, "/home/you/campaigns");
}"""
CAMPAIGN = ["over the baseline", "of the roofline", "changes tried", "taken so far",
            "The kernel that holds", "Lineage", "Rounds", "Workloads", "Roofline"]  # fmt: skip
ROUND = ["over what it was held against", "predicted", "verdict", "in all, afterwards", "Messages",
         "Difference to round 3", "Verdict", "Hypothesis", "Counters, before and after",
         "Roofline", "Hot loop", "Looked at again before it"]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_a_campaign_and_its_rounds_are_told_in_order(
    look: Look, addresses: dict[str, str], width: int
) -> None:
    page = look(addresses["campaign/{fine}"], width).page
    assert page.locator("h2").all_inner_texts() == CAMPAIGN[:-1]
    assert page.locator("h3").first.inner_text() == CAMPAIGN[-1]
    assert page.locator(".lineage a:visible").count() == len(softmax_events()) - 3
    page.locator(".lineage a:visible").nth(5).click()
    page.wait_for_selector("h1:has-text('reciprocal')")
    assert page.locator("h2").all_inner_texts() == ROUND
    assert page.locator(".beside mark:visible").count() > 0
    dots = page.locator(".samples:visible path.again").first.get_attribute("d")
    assert dots.count("M") == 3  # of four pairs one is void


def test_commands_are_copied_and_nothing_unknown_is_zero(
    look: Look, addresses: dict[str, str]
) -> None:
    page = look(addresses["campaign/{fine}"]).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".command button").first.click()
    page.wait_for_selector("button:has-text('copied')")
    assert "roofsmith apply" in page.evaluate("navigator.clipboard.readText()")
    assert "UNKNOWN: nobody measured what memory gives" in page.locator(".tiles").inner_text()
    page = look(addresses["campaign/{fine}/round/5"]).page
    assert "UNKNOWN: no profiler" in page.locator("main").inner_text()
    assert "not measured: build failed" in page.locator(".tiles").inner_text()


def test_the_picture_of_the_manual_shows_a_campaign_that_runs(
    look: Look, site: Site, folder: Path, tmp_path: Path
) -> None:
    events = softmax_events()
    holder = Holder(written(folder / "softmax", events[:-2]))
    try:
        holder.append(planned(events[-2]))
        shown = look(f"{root(site)}/campaign/{site.campaigns()['softmax']}", 980)
        shown.page.wait_for_selector("[data-clock]:has-text('for ')")
        shown.page.set_viewport_size({"width": 980, "height": 1105})
        shown.page.evaluate(_AT_HOME, str(folder))
        place = Path(os.environ.get("ROOFSMITH_PICTURES", tmp_path)) / "web.png"
        shown.page.screenshot(path=place)
        assert place.stat().st_size < 120_000
    finally:
        holder.killed()


def test_a_campaign_grows_dies_and_goes_on_before_ones_eyes(
    look: Look, site: Site, folder: Path
) -> None:
    events = softmax_events()
    place = written(folder / "running", events[:3])
    coming = events[3:]
    holder = Holder(place)
    try:
        page = look(f"{root(site)}/campaign/{site.campaigns()['running']}").page
        page.evaluate("window.same = true")  # gone if the page is loaded again
        page.wait_for_selector("text=live")
        first = planned(coming[0])
        holder.append(first.model_copy(update={"at": events[2].at}))  # a long time ago
        page.wait_for_selector("[data-stall]:visible")
        holder.append(first)
        page.wait_for_selector("[data-stall]", state="hidden")
        page.wait_for_selector(
            f"[data-field=doing]:has-text('{first.proposal.hypothesis.statement}')"
        )
        holder.append(coming[0], planned(coming[1]))
        page.wait_for_selector("#rounds tr:has-text('Share the rows')")
        assert page.locator("#rounds tr").count() == 2
        holder.killed()
        page.wait_for_selector("[data-field=state]:has-text('waiting')", timeout=15_000)
        holder = Holder(place)
        holder.append(resumed(), coming[1])
        page.wait_for_selector("[data-field=state]:has-text('running')", timeout=15_000)
        page.wait_for_selector("#rounds tr:has-text('online softmax')")
        holder.append(*coming[2:])
        page.wait_for_selector("[data-field=state]:has-text('finished')")
        assert page.locator("#rounds tr").count() == len(events) - 3
        assert page.evaluate("window.same")
    finally:
        holder.killed()
    shutil.rmtree(place)
    page.wait_for_selector(".trouble:has-text('is gone')")


def test_what_is_filled_in_stays_text_as_well(look: Look, addresses: dict[str, str]) -> None:
    page = look(addresses["campaign/{hostile}"]).page
    page.evaluate("""async () => {
      for (const part of document.querySelectorAll("[data-part]")) part.dataset.was = "";
      await refresh();
    }""")
    assert page.locator("#pwned").count() == 0
    assert "<b id=pwned>" in page.locator("#rounds").inner_text()


def test_a_ledger_that_breaks_is_said_and_one_of_2000_rounds_is_shown(
    look: Look, addresses: dict[str, str], site: Site, folder: Path
) -> None:
    page = look(addresses[""]).page
    assert "was edited" in page.locator(".trouble").first.inner_text()
    broken = site.document()["unreadable"][0]["id"]  # type: ignore[index]
    page = look(addresses[""] + f"campaign/{broken}").page
    assert "was edited" in page.locator(".trouble").inner_text()
    page = look(addresses["campaign/{long}"]).page
    assert re.match("2001", page.locator("#rounds tr").first.inner_text())
    page.wait_for_selector("text=live")
