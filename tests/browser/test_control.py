"""Buttons of `roofsmith serve --control`, pressed while the campaign's own loop runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Blank(BaseHTTPRequestHandler):
    """Another site's page, with no policy of its own that would be in the way."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def other_site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


ASK = """async ([path, headers, mode]) => {
  const asked = {method: "POST", headers, mode, body: "{}"};
  try { return (await fetch(path, asked)).status; } catch { return "unanswered"; }
}"""


def test_another_site_s_page_and_one_without_the_token_are_refused(
    look: Look, tmp_path: Path
) -> None:
    with (
        steered(tmp_path / "run") as run,
        serving(tmp_path, "--control") as site,
        serving(tmp_path) as reading,
        other_site() as elsewhere,
    ):
        origin = f"{site.address.scheme}://{site.address.netloc}"
        campaign = f"/campaign/{site.campaigns()['run']}"
        path, token = f"{origin}{site.root}{campaign}/stop", {"X-Roofsmith-Token": site.root[1:]}
        assert look(f"{origin}{site.root}/").page.evaluate(ASK, [path, {}, "cors"]) == 403
        foreign = look(elsewhere)
        for headers, mode in ((token, "cors"), ({}, "cors"), ({}, "no-cors")):
            assert foreign.page.evaluate(ASK, [path, headers, mode]) == "unanswered"
        foreign.complaints.clear()  # the browser's, of what it was refused
        assert site.document(campaign)["now"]["asked"] == ""  # type: ignore[index]
        reader = f"{site.address.scheme}://{reading.address.netloc}{reading.root}"
        page = look(f"{reader}/campaign/{reading.campaigns()['run']}").page
        assert page.locator("[data-post]").count() == 0
        assert page.locator(".command:has-text('roofsmith campaign stop')").count() == 2
        path = f"{reader}{campaign}/stop"
        assert page.evaluate(ASK, [path, {"X-Roofsmith-Token": reading.root[1:]}, "cors"]) == 405
        run.let_on()
        assert run.is_asking()
