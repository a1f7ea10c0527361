"""The page over campaigns and suites, as a real server answers real requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from campaign_builder import campaign_of, events_for, softmax_campaign, softmax_events
from test_report_hostile import EVIL, Page, poisoned

from roofsmith.api.dashboard import Dashboard
from roofsmith.domain.campaign import Event, Round
from roofsmith.domain.dashboard import BrokenEntry, CampaignPage, Figure
from roofsmith.domain.suite import Suite, SuiteRow
from roofsmith.report.summarize import summarize
from roofsmith.store.ledger import Head, JsonlLedger
from roofsmith.store.records import GENESIS, seal

pytest.importorskip("fastapi")
LARGEST = 200_000


class Site:
    """A server that runs, and what it answers."""

    def __init__(self, address: str) -> None:
        self.address = urlsplit(address)
        self.root = self.address.path.rstrip("/")

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[HTTPConnection, HTTPResponse]:
        line = HTTPConnection(self.address.hostname or "", self.address.port, timeout=20)
        line.request(method, path, body, headers)
        return line, line.getresponse()

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        line, answer = self.ask(path, **headers)
        text = answer.read().decode()
        line.close()
        return answer.status, text

    def page(self, path: str = "/") -> str:
        status, text = self.get(self.root + path)
        assert status == 200, text
        assert len(text.encode()) < LARGEST
        return text

    def document(self, path: str = "/") -> dict[str, object]:
        return json.loads(self.page(f"{path.rstrip('/')}/json"))

    def campaigns(self) -> dict[str, str]:
        """Ids by the name of the folder."""
        rows = self.document()["campaigns"]
        return {Path(one["directory"]).name: one["id"] for one in rows}  # type: ignore[attr-defined]


@contextmanager
def serving(*words: Path | str) -> Iterator[Site]:
    command = [sys.executable, "-m", "roofsmith", "serve", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Site(process.stdout.readline().strip())
        finally:
            process.terminate()
            process.wait(20)


def written(directory: Path, events: Sequence[Event]) -> Path:
    """A whole ledger, written at once."""
    directory.mkdir(parents=True)
    digest, lines = GENESIS, []
    for number, event in enumerate(events, start=1):
        line, digest = seal(number, digest, event)
        lines.append(line)
    (directory / "ledger.jsonl").write_bytes(b"".join(lines))
    (directory / "ledger.head").write_bytes(Head(len(events), digest).encode())
    return directory


def hostile() -> list[Event]:
    bad = poisoned(campaign_of(softmax_events()))
    assert bad.baseline is not None
    assert bad.stopped is not None
    return [bad.started, bad.baseline, *bad.rounds, bad.stopped]


def long(rounds: int) -> list[Event]:
    first, second, *few = events_for(["kept", "regression", "build_failed"])
    ends = [one for one in few if isinstance(one, Round)]
    wordy = ends[1].hypothesis.model_copy(update={"statement": "because <b> & so on " * 500})
    ends[1] = ends[1].model_copy(update={"hypothesis": wordy})
    more = [ends[1 + n % 2].model_copy(update={"round": 3 + n}) for n in range(rounds - 1)]
    return [first, second, ends[0], *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("web")
    (written(here / "fine", softmax_events()) / "report.html").write_text("<p>a report</p>")
    written(here / "hostile", hostile())
    written(here / "long", long(2_000))
    written(here / "torn", softmax_events()[:3])
    with (here / "torn" / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"seq":4,"previ')
    written(here / "broken", softmax_events())
    ledger = here / "broken" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"softmax", b"softmin", 1))
    write_suite(here / "suite")
    return here


def write_suite(here: Path) -> None:
    """Two of three problems, one of them hostile."""
    rows = (
        SuiteRow(problem="softmax", verdict="gained", speedup=2.0, interval=(1.9, 2.1),
                 seconds=9.0, campaign="problem"),
        SuiteRow(problem=f"wrong{EVIL}", verdict="failed", reason=EVIL, seconds=1.0, campaign="no"),
    )  # fmt: skip
    written(here / "problem", softmax_events())
    suite = Suite(proposer="auto", budget_s=9, repeats=1, problems=3, rows=rows)
    (here / "suite.json").write_text(suite.model_dump_json())


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with serving(folder) as found:
        yield found
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_nobody_comes_in_without_the_token(site: Site) -> None:
    assert len(site.root) > 30
    for path in (
        "/",
        "/json",
        "/page.js",
        "/events",
        "/wrong/",
        "/%E2%82%AC/",
        site.root[:-1] + "/",
    ):
        assert site.get(path)[0] == 403
    assert site.get(site.root)[0] == site.get(f"{site.root}/")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "10.0.0.1", "", "127.0.0.1.nip.io"]
)
def test_only_names_of_this_machine_are_served(site: Site, host: str) -> None:
    assert site.get(f"{site.root}/", Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1", "[::1]:80"])
def test_a_tunnel_may_have_another_port(site: Site, host: str) -> None:
    assert site.get(f"{site.root}/", Host=host)[0] == 200


def test_answers_are_hardened_and_nothing_can_be_written(site: Site) -> None:
    line, answer = site.ask(f"{site.root}/")
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Set-Cookie"] is None
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    line.close()
    for method in ("POST", "PUT", "DELETE"):
        line, answer = site.ask(f"{site.root}/", method)
        assert answer.status == 405
        line.close()


def test_what_a_ledger_says_is_text_everywhere(site: Site) -> None:
    id_ = site.campaigns()["hostile"]
    rounds = site.document(f"/campaign/{id_}")["rounds"]
    paths = ["/", f"/campaign/{id_}", f"/suite/{suite_of(site)}", f"/compare?id={id_}"]
    paths += [f"/campaign/{id_}/round/{one['round']}" for one in rounds]  # type: ignore[attr-defined]
    for path in paths:
        text = site.page(path)
        shown = Page(text)
        assert shown.open == []
        assert not shown.tags & {"img", "iframe", "object", "embed", "base", "style"}
        assert text.count("<form") == (2 if path == "/" else 0)
        assert text.count("<script") == 1
        assert not [
            name for name, _ in shown.attributes if name.startswith("on") or name == "style"
        ]
        assert ("id", "pwned") not in shown.attributes
        assert "pwned" in shown.text
        assert "\u202e" not in text
        links = [value or "" for name, value in shown.attributes if name in ("href", "src")]
        assert all(link.startswith((site.root, "?page=", f"{id_}/round/")) for link in links)
    line, answer = site.ask(f"{site.root}/campaign/{id_}/file/1")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    line.close()


def suite_of(site: Site) -> str:
    return site.document()["suites"][0]["id"]  # type: ignore[index, no-any-return]


def test_two_thousand_rounds_come_in_pages(site: Site) -> None:
    id_ = site.campaigns()["long"]
    first = site.document(f"/campaign/{id_}")
    assert first["row"]["tried"] == 2_000  # type: ignore[index]
    assert [one["round"] for one in first["rounds"]][:2] == [2_001, 2_000]  # type: ignore[attr-defined]
    last = int(str(first["pages"]))
    for path in (
        f"/campaign/{id_}",
        f"/campaign/{id_}/round/2000",
        f"/campaign/{id_}?page={last}",
        "/",
    ):
        site.page(path)
    assert 'round/2"' in site.page(f"/campaign/{id_}?page={last}")
    line, answer = site.ask(f"{site.root}/campaign/{id_}/events?since=1")
    answer.readline()
    assert len(answer.readline()) < LARGEST
    line.close()


def test_a_campaign_shows_its_kernel_patch_and_decisions(site: Site) -> None:
    id_ = site.campaigns()["fine"]
    page = Page(site.page(f"/campaign/{id_}"))
    assert "roofsmith apply" in page.text
    assert page.text.index("roofsmith apply") < page.text.index("void solve")
    assert "polyline" in page.tags
    assert site.get(f"{site.root}/campaign/{id_}/file/0")[1].startswith("--- a/softmax.c")
    line, answer = site.ask(f"{site.root}/campaign/{id_}/report.html")
    assert answer.read() == b"<p>a report</p>"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    line.close()
    shown = softmax_campaign()
    for found in shown.rounds:
        text = Page(site.page(f"/campaign/{id_}/round/{found.round}")).text
        assert found.decision.rule in text
        assert found.hypothesis.statement in text
    for path in (f"/campaign/{id_}/round/999", "/campaign/0", f"/suite/{id_}", "/nothing"):
        assert site.get(site.root + path)[0] == 404


def test_a_broken_ledger_is_a_line_and_a_torn_one_is_read(site: Site) -> None:
    found = site.document()
    assert len(found["unreadable"]) == 1  # type: ignore[arg-type]
    assert "line 1 was edited" in Page(site.page()).text
    broken = found["unreadable"][0]["id"]  # type: ignore[index]
    status, text = site.get(f"{site.root}/campaign/{broken}")
    assert status == 503
    assert "was edited" in text
    assert site.document(f"/campaign/{site.campaigns()['torn']}")["row"]["tried"] == 1  # type: ignore[index]


def test_a_suite_shows_scores_and_why_figures_are_missing(site: Site) -> None:
    found = site.document(f"/suite/{suite_of(site)}")
    assert found["ended"] == 2
    assert found["rows"][0][1] == site.campaigns()["problem"]  # type: ignore[index]
    (row, campaign), unknown = found["rows"][1], found["unknown"]  # type: ignore[index]
    assert campaign is None
    assert {name for name, value in row.items() if value is None} <= set(unknown)  # type: ignore[call-overload]
    assert (
        "UNKNOWN: its campaign failed or hung" in Page(site.page(f"/suite/{suite_of(site)}")).text
    )


def test_only_what_was_gained_is_marked_as_a_gain(tmp_path: Path) -> None:
    rows = tuple(
        SuiteRow(problem=verdict, verdict=verdict, speedup=speedup, roofline_fraction=0.06,
                 seconds=1.0, campaign="none")
        for verdict, speedup in (("gained", 2.0), ("nothing kept", 1.0), ("hung", None))
    )  # fmt: skip
    suite = Suite(
        proposer="auto", budget_s=9, repeats=1, problems=4, rows=rows,
        names=(*(row.problem for row in rows), "missing"),
    )  # fmt: skip
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "suite.json").write_text(suite.model_dump_json())
    with serving(tmp_path) as site:
        page, first = site.page(f"/suite/{suite_of(site)}"), site.page()
    assert re.findall(r'<tr class="(.*?)">', page) == ["kept", "failed", "rejected"]
    assert re.search(r"missing.*not run yet", page)
    for text in (page, first):
        assert "<b>6%</b>" in text
        assert "<b>1.26x</b>" in text


def test_what_cannot_be_answered_is_said_in_words_or_as_json(site: Site) -> None:
    id_ = site.campaigns()["fine"]
    for path, expected in (
        ("/compare", 422),
        ("/nothing", 404),
        ("/campaign/0", 404),
        (f"/campaign/{id_}/round/two", 422),
    ):
        status, text = site.get(site.root + path)
        assert (status, text.count("<h1>"), "{" in text) == (expected, 1, False)
        assert f'href="{site.root}/"' in text
        status, text = site.get(f"{site.root}{path}/json")
        assert status == expected
        assert list(json.loads(text)) == ["reason"]
    assert "<script>" not in site.get(f"{site.root}/campaign/%3Cscript%3E")[1]


def test_a_round_that_is_appended_is_delivered(tmp_path: Path) -> None:
    events = softmax_events()
    place = written(tmp_path / "run", events[:3])
    ledger = JsonlLedger(place / "ledger.jsonl")
    with serving(place) as site:
        id_ = site.campaigns()["run"]
        line, stream = site.ask(f"{site.root}/campaign/{id_}/events?since=2")

        def news() -> dict[str, object]:
            while not (said := stream.readline()).startswith(b"data: "):
                assert said
            return json.loads(said.removeprefix(b"data: "))  # type: ignore[no-any-return]

        assert news()["rounds"] == []
        ledger.append(events[3])
        (new,) = news()["rounds"]  # type: ignore[misc]
        assert new["round"] == 3
        assert news_after_vanishing(place, news)
        assert site.get(f"{site.root}/campaign/{id_}")[0] == 503
        assert "is gone" in site.page()
        line.close()


@pytest.mark.parametrize("last", ["9" * 5_000, "-1", "\xb2", ""])
def test_a_last_event_that_cannot_be_is_as_none(site: Site, last: str) -> None:
    path = f"{site.root}/campaign/{site.campaigns()['fine']}/events?since=3"
    line, stream = site.ask(path, **{"Last-Event-ID": last})
    assert stream.status == 200
    stream.readline()
    rounds = json.loads(stream.readline().removeprefix(b"data: "))["rounds"]
    assert min(one["round"] for one in rounds) == 4
    line.close()


def news_after_vanishing(place: Path, news: object) -> bool:
    shutil.rmtree(place)
    return "is gone" in str(news())  # type: ignore[operator]


def test_figures_are_those_of_the_report_and_unknown_is_no_zero(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", softmax_events())
    written(tmp_path / "new", softmax_events()[:1])
    shown = Dashboard([tmp_path])
    rows = {Path(one.directory).name: one for one in shown.overview().campaigns}
    headline = summarize(softmax_campaign()).headline
    assert headline is not None
    assert rows["whole"].speedup == Figure(value=headline.value, interval=headline.ci)
    assert rows["new"].speedup.value is None
    assert "baseline" in rows["new"].speedup.reason
    page = shown.campaign(rows["whole"].id)
    assert isinstance(page, CampaignPage)
    assert str(whole) in page.apply
    with pytest.raises(ValueError, match="value or a reason"):
        Figure()


def test_a_ledger_is_followed_and_an_edit_seen(tmp_path: Path) -> None:
    events = softmax_events()
    place = written(tmp_path / "run", events[:4])
    shown = Dashboard([place])
    id_ = shown.overview().campaigns[0].id
    ledger = JsonlLedger(place / "ledger.jsonl")
    for count, event in enumerate(events[4:7], start=3):
        ledger.append(event)
        page = shown.campaign(id_)
        assert isinstance(page, CampaignPage)
        assert page.row.tried == count
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data.replace(b"softmax", b"softmin", 1))
    assert isinstance(shown.campaign(id_), BrokenEntry)
    ledger.path.write_bytes(data)
    assert isinstance(shown.campaign(id_), CampaignPage)
    ledger.path.unlink()
    os.mkfifo(ledger.path)
    assert isinstance(shown.campaign(id_), BrokenEntry)


def roofsmith(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "roofsmith", *words], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


def test_what_cannot_be_served_is_said(tmp_path: Path, folder: Path) -> None:
    code, said = roofsmith("serve", str(tmp_path))
    assert code == 2
    assert "holds no campaign and no suite" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = roofsmith("serve", str(folder / "fine"), "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "can't listen on 127.0.0.1" in said
    missing = "import sys; sys.modules['fastapi'] = None; from roofsmith.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", missing, "serve", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert re.fullmatch(r".*fastapi.*\n.*pip install 'roofsmith\[web\]'\n", done.stderr)
