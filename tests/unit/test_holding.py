"""A campaign that a process holds open: real processes, real sockets, a real compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from repository_bench import without_profilers
from test_app import Once, begin, copied_run, furnish, roofsmith, started
from waiting import wait_until

from kinds import another
from roofsmith import api, campaign_socket
from roofsmith.api.holding import is_trusted
from roofsmith.domain.campaign import Event
from roofsmith.domain.standing import limits_in_force
from roofsmith.scratch import exists
from roofsmith.store.ledger import JsonlLedger

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]
LONG = "longer than the path of a socket may be, with blanks " * 4


@pytest.fixture
def run(once: Once, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A campaign with a baseline; what holds it open ends with the test."""
    here = tmp_path / LONG.strip()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    monkeypatch.delenv(campaign_socket.SWITCH)
    without_profilers(monkeypatch, tmp_path)
    furnish(here)
    yield copied_run(once("unchanged", lambda there: begin(there, cache)), here)
    for holder in held():
        os.kill(holder, signal.SIGKILL)


def held() -> list[int]:
    """Processes that hold a campaign of the test open."""
    here = Path.cwd()
    return [one.pid for one in campaign_socket.holders() if one.directory.is_relative_to(here)]


def holder() -> int:
    (pid,) = held()
    return pid


def events(directory: Path) -> list[Event]:
    return JsonlLedger(directory / "ledger.jsonl").events()


def told(kernel: str, statement: str, *more: str) -> tuple[str, ...]:
    return ("tell", "run", "--kernel", kernel, "--hypothesis", statement, *more)


def is_judging() -> bool:
    """Whether a round has begun."""
    return any(event.kind == "planned" for event in events(Path("run")))


def is_at_work() -> bool:
    """Whether the process that holds the campaign serves somebody."""
    return bool((campaign_socket.status(Path("run")) or {}).get("running"))


def listed(pid: int) -> list[dict[str, Any]]:
    return [row for row in json.loads(roofsmith("ps", "--json")[1])["held"] if row["pid"] == pid]


def test_commands_share_a_process_and_write_the_same_records(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, "alone", symlinks=True)
    said = {}
    for directory in ("run", "alone"):
        if directory == "alone":
            monkeypatch.setenv(campaign_socket.SWITCH, "0")
        brief = roofsmith("ask", directory)
        page = roofsmith("ask", directory, "--format", "md")
        rest = ["--hypothesis", "multiply by three"]
        repeated = roofsmith("tell", directory, "--kernel", "scale.c", *rest)
        wrong = roofsmith("tell", directory, "--kernel", "wrong.c", *rest, "--json")
        missing = roofsmith("tell", directory, "--kernel", "nothing.c", *rest, "--json")
        assert [code for code, *_ in (brief, page, wrong, repeated, missing)] == [0, 0, 1, 1, 2]
        assert "void solve" in page[1]
        keys = [list(json.loads(found[1])) for found in (brief, wrong, missing)]
        told = [re.sub(r"`roofsmith ask [^`]*`", "", text) for text in repeated[1:]]
        said[directory] = (keys, told, [e.kind for e in events(Path(directory))])
    assert said["run"] == said["alone"]
    assert not api.verify_campaign(run).findings
    (row,) = listed(holder())
    assert (row["directory"], row["running"]) == (str(run), None)
    assert (run / ".held").stat().st_mode & 0o777 == 0o700
    pid = holder()
    assert "closed" in roofsmith("close", "run")[1]
    wait_until(lambda: not exists(pid))
    assert not (run / ".held" / "socket").exists()


def test_a_campaign_that_another_command_works_in_is_listed(run: Path) -> None:
    with started("optimize", "target.yaml", "--output", "other") as working:
        wait_until(lambda: listed(working.pid))
        (row,) = listed(working.pid)
        working.send_signal(signal.SIGINT)
        working.communicate()
    assert (row["directory"], row["is_stopped"]) == (str(run.parent / "other"), False)
    assert "optimize" in row["running"]
    assert not listed(working.pid)


def test_a_held_campaign_ends_where_somebody_asks_for_that(run: Path) -> None:
    assert roofsmith("ask", "run")[0] == 0
    pid = holder()
    assert roofsmith("campaign", "limit", "run", "--max-iterations", "9")[0] == 0
    assert roofsmith("campaign", "stop", "run")[0] == 0
    wait_until(lambda: not exists(pid))
    found = api.read_campaign(run)
    assert found.stopped is not None
    assert found.stopped.code == "interrupted"
    assert limits_in_force(found).max_iterations == 9
    assert not api.verify_campaign(run).findings


def test_an_interrupt_ends_the_round_and_a_lost_client_does_not(run: Path) -> None:
    with started(*told("fast.c", "multiply once")) as client:
        wait_until(is_judging)
        client.send_signal(signal.SIGINT)
        client.communicate()
    assert client.returncode == 130
    assert api.read_campaign(run).rounds == ()
    roofsmith("ask", "run")
    with started(*told("fast.c", "multiply once")) as client:
        wait_until(is_at_work)
        client.kill()
    wait_until(lambda: api.read_campaign(run).rounds and not is_at_work())
    assert not api.verify_campaign(run).findings


def test_a_second_client_waits_for_its_turn_and_says_so(run: Path) -> None:
    with started(*told("fast.c", "multiply once")) as first:
        wait_until(is_judging)
        pid = holder()
        code, out, err = roofsmith("ask", "run")
        assert first.wait() in (0, 1)
    assert code == 0, err
    assert "waiting: for another command" in err
    assert json.loads(out)["next_round"] == 3
    assert holder() == pid


def test_other_settings_are_heeded_and_other_commands_get_the_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roofsmith("ask", "run")
    first = holder()
    monkeypatch.setenv("ROOFSMITH_ISOLATION", "none")
    roofsmith("ask", "run")
    second = holder()
    assert first != second
    code, _, err = roofsmith("report", "run")
    assert code == 0, err
    assert held() == []


def test_who_waits_for_a_process_that_was_stopped_or_killed_is_told(run: Path) -> None:
    other = Path(shutil.copytree(run, run.parent / "other", symlinks=True))
    roofsmith("ask", "run")
    pid = holder()
    os.kill(pid, signal.SIGSTOP)
    for command in (("ask", "run"), ("close", "run")):
        code, _, err = roofsmith(*command)
        assert code == 2
        assert f"kill -CONT {pid}" in err
    assert f"kill -9 {pid}" in roofsmith("ps")[1]
    roofsmith("ask", str(other))
    assert len(held()) == 2
    code, out, err = roofsmith("close", "run", "other")
    assert (code, out.strip()) == (2, "other: closed")
    assert f"process {pid}" in err
    os.kill(pid, signal.SIGCONT)
    assert roofsmith("ask", "run")[0] == 0
    assert holder() == pid
    os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not held())
    assert "was killed" in roofsmith("close", "run")[1]
    assert "no process holds it open" in roofsmith("close", "run")[1]


def test_what_nobody_looked_at_yet_is_looked_at_by_the_process_there_is(run: Path) -> None:
    roofsmith(*told("fast.c", "multiply once"))
    pid, kept = holder(), api.read_campaign(run).rounds[-1]
    assert kept.profile is None
    said = [roofsmith("show", "run", f"counters {kept.round}") for _ in range(2)]
    assert [(code, f"round {kept.round}:" in err) for code, _, err in said] == [
        (0, True),
        (0, False),
    ]
    assert [event.kind for event in events(run)].count("profiled") == 1
    assert api.read_campaign(run).rounds[-1].profile is not None
    assert not api.verify_campaign(run).findings
    assert holder() == pid, "the next command is answered at once, too"


@pytest.mark.parametrize("mode", [another(None), 0o777])
def test_without_a_place_of_its_own_every_command_opens_the_campaign(
    mode: int | None, run: Path
) -> None:
    place = run / ".held"
    if mode is None:
        place.write_text("in the way")
    else:
        place.mkdir()
        place.chmod(mode)
    code, out, err = roofsmith("ask", "run")
    assert code == 0, err
    assert json.loads(out)["next_round"] == 2
    assert held() == []


def test_it_ends_when_nobody_comes_and_when_the_campaign_is_gone(run: Path) -> None:
    roofsmith("ask", "run")
    pid = holder()
    shutil.rmtree(run)
    wait_until(lambda: not exists(pid))
    run.mkdir()
    (run / "ledger.jsonl").touch()
    (run / ".held").mkdir(mode=0o700)
    code = (
        "import socket, sys; from pathlib import Path; from roofsmith.api import holding\n"
        "place = Path(sys.argv[1]); listening = socket.socket(socket.AF_UNIX)\n"
        "listening.bind('.held/socket'); listening.listen()\n"
        "holding.HoldingProcess(place, listening, 0.1).serve()"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], check=True, timeout=60, cwd=run)
    assert not (run / ".held" / "socket").exists()


class OfPeer:
    """A connection whose peer is who the test says."""

    def __init__(self, pid: int, user: int) -> None:
        self._said = struct.pack("3i", pid, user, 0)

    def getsockopt(self, *_: int) -> bytes:
        return self._said


def test_nobody_else_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert is_trusted(ours)
    me, user = os.getpid(), os.geteuid()
    assert not is_trusted(OfPeer(me, user + 1))  # type: ignore[arg-type]
    assert not is_trusted(OfPeer(0, user))  # type: ignore[arg-type]
    monkeypatch.setattr("roofsmith.api.holding._walls", lambda pid: int(pid != os.getpid()))
    assert not is_trusted(OfPeer(os.getppid(), user)), "a candidate"  # type: ignore[arg-type]
