"""A campaign by command, for which a model behind a server proposes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from chat_server import call, chat, chatting, error
from repository_bench import run, without_profilers
from test_app import Once, begin, copied_run, furnish

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]


def test_who_cannot_be_asked_ends_the_command_and_is_asked_on_resume(
    once: Once, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    without_profilers(monkeypatch, tmp_path)
    furnish(tmp_path)
    copied_run(once("unchanged", lambda there: begin(there, cache)), tmp_path)
    answer = call(json.dumps({"give_up": "it is at the limit"}))
    unpaid = error(402, "Insufficient credits.", "payment")
    with chatting(lambda asked, n: unpaid if n == 0 else chat(asked, answer)) as served:
        resume = ("resume", "run", "--proposer", "model:m", "--base-url", served.url)
        code, _, said = run(*resume)
        assert code == 1
        assert "credit" in said
        assert "roofsmith resume run" in said
        assert len(served.requests) == 1
        code, _, said = run(*resume)
        assert code == 0, said
