"""Buttons of `roofsmith serve --control`, pressed while the campaign's own loop runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from browsing import Looker, findings
from steered import steered
from test_web import serving

Look = Callable[..., Looker]


def test_a_press_of_a_button_ends_a_campaign_after_its_round(
    look: Look, axe: str, tmp_path: Path
) -> None:
    with steered(tmp_path / "run") as run, serving(tmp_path, "--control") as site:
        at = f"{site.address.scheme}://{site.address.netloc}{site.root}/campaign/{{run}}"
        shown = look(at.format(**site.campaigns()), 390)
        page = shown.page
        page.evaluate("window.same = true")  # gone if the page is loaded again
        page.wait_for_selector("text=live")
        assert shown.overflow() <= 0
        page.fill("input[name=max_iterations]", "7")
        page.get_by_role("button", name="set these limits").click()
        page.wait_for_selector("#answered:has-text('max_iterations 7')")
        run.let_on()
        assert run.is_asking()
        page.wait_for_selector(".limit:has-text('of 7 rounds')")
        page.get_by_role("button", name="stop after this round").click()
        page.wait_for_selector("[data-field=asked]:has-text('to end after this round')")
        run.let_on()
        page.wait_for_selector("[data-field=state]:has-text('interrupted')")
        assert page.locator("#rounds tr").count() == 2
        assert page.locator("[data-post]").count() == 0
        assert page.evaluate("window.same")
        assert findings(shown, axe) == []


def test_another_site_s_page_and_one_without_the_token_are_refused(
    look: Look, tmp_path: Path
) -> None:
    with (
        steered(tmp_path / "run") as run,
        serving(tmp_path, "--control") as site,
        serving(tmp_path) as other,
    ):
        origin = f"{site.address.scheme}://{site.address.netloc}"
        path = f"{origin}{site.root}/campaign/{site.campaigns()['run']}/stop"
        ask = """async ([path, headers]) => {
          const asked = {method: "POST", headers, body: "{}"};
          try { return (await fetch(path, asked)).status; } catch { return "unanswered"; }
        }"""
        token = {"X-Roofsmith-Token": site.root[1:]}
        page = look(f"{origin}{site.root}/").page
        assert page.evaluate(ask, [path, {}]) == 403
        elsewhere = look("about:blank").page  # has no policy of its own that would be in the way
        assert elsewhere.evaluate(ask, [path, token]) == "unanswered"
        assert elsewhere.evaluate(ask, [path, {}]) == "unanswered"
        reading = f"{site.address.scheme}://{other.address.netloc}{other.root}"
        page = look(f"{reading}/campaign/{other.campaigns()['run']}").page
        assert page.locator("[data-post]").count() == 0
        assert page.locator(".command:has-text('roofsmith campaign stop')").count() == 2
        run.let_on()
        assert run.is_asking()
