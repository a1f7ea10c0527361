"""What tests in a browser look at, and how."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from campaign_builder import campaign_of, crippled, softmax_events
from test_web import LARGEST, hostile, long, write_suite, written

from roofsmith.analysis.ladder import attempts
from roofsmith.analysis.stagnation import stagnation_review
from roofsmith.domain.campaign import Event
from roofsmith.domain.diagnosis import Diagnosed, Disassembly, HotLoop, Material
from roofsmith.report.campaign_files import render_campaign

__all__ = ["LARGEST", "WIDTHS", "Holder", "Looker", "findings", "folder_of"]

WIDTHS = (390, 1280)
_HOLDER = """\
import sys
from pathlib import Path
from pydantic import TypeAdapter
from roofsmith.domain.campaign import Event
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
event = TypeAdapter(Event)
with CampaignDirectory.open(Path(sys.argv[1])) as held:
    ledger = JsonlLedger(held.ledger_path)
    print("open", flush=True)
    for line in sys.stdin:
        ledger.append(event.validate_json(line))
        print("written", flush=True)
"""


class Looker:
    """A page, and what it did while somebody looked at it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.ran: list[str] = []
        """Whatever a hostile text got to run."""
        self.sizes: dict[str, int] = {}
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.ran.append(dialog.message), dialog.dismiss()))
        page.on("response", self._answered)
        page.on("console", self._said)

    def _said(self, message: Any) -> None:
        # A page may be refused or gone; what must not be is a policy that something ran into.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _answered(self, response: Any) -> None:
        if "event-stream" not in response.headers.get("content-type", ""):
            with suppress(Exception):  # of a page that was left
                size = len(response.body())
                self.sizes[response.url] = max(size, self.sizes.get(response.url, 0))

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        ))  # fmt: skip


class Holder:
    """A process that has a campaign's directory and appends to its ledger, as a run does."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._wait()

    def append(self, *events: Event) -> None:
        assert self.process.stdin is not None
        for event in events:
            print(event.model_dump_json(), file=self.process.stdin, flush=True)
            self._wait()

    def killed(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()


def folder_of(here: Path) -> Path:
    """Campaigns of every kind, whole and broken, and a suite."""
    for name, events in (("fine", looked_into()), ("hostile", hostile())):
        place = written(here / name, events)
        place.joinpath("report.html").write_text(report(events))
    written(here / "long", long(2_000))
    written(here / "new", softmax_events()[:1])
    least = crippled()
    assert least.baseline is not None
    written(here / "crippled", [least.started, least.baseline])
    ledger = written(here / "broken", softmax_events()) / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"softmax", b"softmin", 1))
    write_suite(here / "suite")
    return here


def looked_into() -> list[Event]:
    """The whole story, with a diagnosis before round 7 and the listing of its hot loop."""
    events = softmax_events()
    before = campaign_of(events[:7])
    review = stagnation_review(before, [])
    diagnosed = Diagnosed(
        after_round=6, level=2, at=events[6].at,
        material=Material(attempts=attempts(before), review=review),
    )  # fmt: skip
    loop = HotLoop(
        function="solve", chosen="most samples", listing="vmulps %ymm0,%ymm1,%ymm1\n" * 9
    )
    seen = events[7].model_copy(update={"disassembly": Disassembly(tool="objdump", loops=(loop,))})
    return [*events[:7], diagnosed, seen, *events[8:]]


def report(events: Sequence[Event]) -> str:
    """`report.html` of a campaign."""
    return render_campaign(campaign_of(events)).files["report.html"]


def findings(shown: Looker, axe: str) -> list[str]:
    """Serious accessibility findings of a page, a line each; skips where there is no axe-core."""
    if not axe:
        pytest.skip("accessibility isn't looked at: npm can't fetch axe-core here")
    shown.page.evaluate(axe)  # as a debugger does: the page's own policy lets no script in
    found = shown.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]
