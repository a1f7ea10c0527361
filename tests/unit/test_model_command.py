"""A campaign by command, for which a model behind a server proposes: killed at its stages."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_server import call, chat, chatting, error
from model_server import Reply, Request, proposes, serving
from repository_bench import without_profilers
from test_app import FAST, Once, begin, copied_run, furnish
from waiting import wait_until

from roofsmith.domain.campaign import Event, Round, Stopped
from roofsmith.store.ledger import JsonlLedger

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]

KEY = "canary-key-0123456789abcdefghij"
IDEA = "Multiply once per element instead of sixteen times"


def answers(request: Request) -> Reply:
    """What a model that read the brief says; it gives up when its idea is tried."""
    [kind] = re.findall(r"## Bottleneck\n\n\*\*(\w+)\*\*", request.prompt)
    if IDEA in request.prompt:
        return proposes({"give_up": "all is tried"})
    return proposes(
        {
            "round": request.round, "statement": IDEA, "rationale": "by the listing",
            "evidence": ["B1"], "answers": kind, "files": {"scale.c": FAST},
        }
    )  # fmt: skip


@pytest.fixture
def folder(once: Once, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a campaign that has a baseline, in `run`."""
    without_profilers(monkeypatch, tmp_path)
    made = tmp_path / "a folder"
    made.mkdir()
    furnish(made)
    copied_run(once("unchanged", lambda there: begin(there, cache)), made)
    return made


def test_a_campaign_killed_while_a_model_thinks_ends_whole(folder: Path, cache: Path) -> None:
    environment = {
        **os.environ, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1",
        "ROOFSMITH_CACHE": str(cache),
    }  # fmt: skip

    def events() -> tuple[Event, ...]:
        return tuple(JsonlLedger(folder / "run" / "ledger.jsonl").events())

    def started(*words: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "roofsmith", *words],
                cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def killed(words: tuple[str, ...], when: Callable[[], bool]) -> None:
        with started(*words) as process:
            wait_until(lambda: when() or process.poll() is not None)
            os.killpg(process.pid, signal.SIGKILL)

    with serving(answers) as server:
        ways = ("--proposer", "model:openai:scripted", "--base-url", f"{server.url}/v1")
        resume = ("resume", "run", "--max-iterations", "2", *ways)
        killed(resume, lambda: bool(server.requests))
        with started(*resume) as process:
            assert process.wait(240) == 0, (folder / "log").read_text()
    rounds = [event for event in events() if isinstance(event, Round)]
    assert [round_.hypothesis.statement for round_ in rounds] == [IDEA]
    assert isinstance(events()[-1], Stopped)
    with started("verify", "run") as process:
        assert process.wait(60) == 0, (folder / "log").read_text()
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in text for text in written)


def test_who_cannot_be_asked_ends_the_command_and_is_asked_on_resume(
    folder: Path, cache: Path
) -> None:
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "ROOFSMITH_CACHE": str(cache)}
    answer = call(json.dumps({"give_up": "it is at the limit"}))
    unpaid = error(402, "Insufficient credits.", "payment")

    def ended(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "roofsmith", *words, "--proposer", "model:m"]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    with chatting(lambda asked, n: unpaid if n == 0 else chat(asked, answer)) as served:
        address = ("--base-url", served.url)
        code, said = ended("resume", "run", *address)
        assert code == 1
        assert "credit" in said
        assert "roofsmith resume run" in said
        assert len(served.requests) == 1
        code, said = ended("resume", "run", *address)
        assert code == 0, said
