"""What `--on-event` tells a real command, and what becomes of one that fails, hangs or stays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from campaign_builder import softmax_events

from roofsmith.api import events
from roofsmith.api.events import LOG, Announcer, announcing
from roofsmith.detached import running
from roofsmith.domain.campaign import after
from roofsmith.domain.dashboard import Happening
from roofsmith.errors import MachineError

KEPT = 3
"""Rounds of the campaign below that found something faster."""


class Heard:
    """An observer that counts."""

    def __init__(self) -> None:
        self.events, self.stages = 0, 0

    def stage(self, name: str, detail: str = "") -> None:
        self.stages += 1

    def progress(self, fraction: float, detail: str = "") -> None:
        self.stages += 1

    def event(self, event: object, campaign: object) -> None:
        self.events += 1


def play(observer: object) -> None:
    campaign = None
    for event in softmax_events():
        campaign = after(campaign, event)
        observer.event(event, campaign)  # type: ignore[attr-defined]


def told(place: Path) -> list[Happening]:
    lines = (place / "told").read_text().splitlines()
    return [Happening.model_validate_json(line) for line in lines]


def recorded(place: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (place / LOG).read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(events, "DEADLINE_S", 1.0)
    return tmp_path


def test_a_command_is_told_what_matters_with_the_campaign_as_the_page_has_it(place: Path) -> None:
    heard, said = Heard(), list[str]()
    with announcing(heard, "cat >> told # all of it", place, said.append) as observer:
        play(observer)
    assert heard.events == len(softmax_events())
    assert not said
    found = told(place)
    assert [one.event for one in found] == ["new_best"] * KEPT + ["ended"]
    rows = [one.row for one in found if one.row is not None]
    assert [row.kept for row in rows] == [1, 2, 3, 3]
    assert (rows[0].state, rows[-1].state) == ("running", "finished")


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("echo no >&2; exit 3", "exited with 3"),
        ("sleep 61", "ran past its deadline of 1 s"),
        ("(setsid sleep 62 &) ; sleep 0.3", "exited with 0, and left 1 running: sleep"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
        ("no-such-program", "exited with 127"),
    ],
)
def test_its_failure_is_a_line_and_never_the_campaigns(
    place: Path, command: str, ending: str
) -> None:
    heard, said = Heard(), list[str]()
    with announcing(heard, command, place, said.append) as observer:
        play(observer)
    assert heard.events == len(softmax_events())
    assert [one["command"] for one in recorded(place)] == [ending] * (KEPT + 1)
    assert all(ending in line for line in said)
    assert len(said) == KEPT + 1
    assert not [one for one in running() if _sleeps(one.pid)]


def _sleeps(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[:1] == [b"sleep"] and words[1] in (b"61", b"62")


def test_who_fails_needs_somebody_and_a_silence_is_told_once(place: Path) -> None:
    def failing() -> None:
        with announcing(Heard(), "cat >> told", place, print) as observer:
            observer.stage("build")
            raise MachineError("the GPU is gone")

    with pytest.raises(MachineError):
        failing()
    assert [(one.event, one.detail, one.row) for one in told(place)] == [
        ("needs_you", "the GPU is gone", None)
    ]
    silent = Announcer(Heard(), "cat >> told", place, print)
    _in_thread(lambda: silent.watch(0.1), lambda: len(told(place)) > 1, silent.ended.set)
    assert [one.event for one in told(place)] == ["needs_you", "stalled"]


def _in_thread(
    watch: Callable[[], None], done: Callable[[], bool], close: Callable[[], None]
) -> None:
    from threading import Thread

    thread = Thread(target=watch)
    thread.start()
    until = time.monotonic() + 20
    while not done() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)  # another one would come now
    close()
    thread.join(20)


def test_what_was_told_is_not_untold_where_it_cannot_be_written_down(place: Path) -> None:
    (place / LOG).mkdir(parents=True)
    heard, said = Heard(), list[str]()
    with announcing(heard, "cat >> told", place, said.append) as observer:
        play(observer)
    assert len(told(place)) == len(said) == KEPT + 1
    assert all(LOG in line and "wasn't told" not in line for line in said)


def test_without_a_command_nothing_stands_between(place: Path) -> None:
    heard = Heard()
    with announcing(heard, None, place, print) as observer:
        assert observer is heard
    assert not (place / LOG).exists()
