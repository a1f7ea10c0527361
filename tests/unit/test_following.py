"""`roofsmith watch` beside a campaign that grows, ends or vanishes, and its schema."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from campaign_builder import softmax_campaign, softmax_events
from pydantic import TypeAdapter
from test_web import written

from roofsmith.api.suites import SuiteRun, _command
from roofsmith.domain.dashboard import CampaignPage, Shown
from roofsmith.store.ledger import JsonlLedger


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "roofsmith", *map(str, words)]


def test_rounds_come_as_they_are_judged_and_the_end_ends_it(tmp_path: Path) -> None:
    events = softmax_events()
    place = written(tmp_path / "run", events[:3])
    before = sorted(path.name for path in place.iterdir())
    with subprocess.Popen(command("watch", tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while "#2 " not in said:
            said += process.stdout.readline()
        assert "#3 " not in said
        for event in events[3:]:
            JsonlLedger(place / "ledger.jsonl").append(event)
        said += process.stdout.read()
        assert process.wait(20) == 0
    assert [f"#{one.round}" in said for one in softmax_campaign().rounds] == [True] * 7
    assert "out of ideas" in said
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_terminal_is_left_as_it_was_on_ctrl_c_and_a_vanished_campaign_is_said(
    tmp_path: Path,
) -> None:
    place = written(tmp_path / "run", softmax_events()[:4])
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("watch", place), stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:  # fmt: skip
        said = b""
        while b"waiting" not in said and process.poll() is None:
            said += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        os.close(theirs)
        said += os.read(ours, 65_536)
    os.close(ours)
    assert said.rindex(b"\x1b[?25h") > said.rindex(b"\x1b[?25l")  # the cursor is shown again
    assert b"Traceback" not in said
    with subprocess.Popen(command("watch", place), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as plain:  # fmt: skip
        assert plain.stdout is not None
        plain.stdout.readline()
        shutil.rmtree(place)
        _, error = plain.communicate(timeout=20)
    assert plain.returncode == 2
    assert "is gone" in error


def test_the_document_is_in_the_schema_that_is_printed(tmp_path: Path) -> None:
    place = written(tmp_path / "run", softmax_events())
    told = subprocess.run(command("watch", place, "--json"), capture_output=True, check=True)
    page = TypeAdapter(Shown).validate_json(told.stdout)
    assert isinstance(page, CampaignPage)
    assert page.row.speedup.value is not None
    schema = subprocess.run(command("schema", "campaign"), capture_output=True, check=True)
    assert json.loads(schema.stdout) == TypeAdapter(Shown).json_schema(mode="serialization")
    refused = subprocess.run(command("schema", "else"), capture_output=True)
    assert refused.returncode == 2


def test_campaigns_of_a_suite_are_told_of_as_well(tmp_path: Path) -> None:
    wanted = SuiteRun(tmp_path, tmp_path / "out", on_event="mail 'me & you'")
    said = _command(wanted, tmp_path / "softmax", tmp_path / "out" / "softmax")
    assert said.endswith("""--on-event 'mail '"'"'me & you'"'"''""")
