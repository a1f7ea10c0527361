"""A look before a round: right or wrong, about how fast, what is stale; and nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from repository_bench import without_profilers
from test_app import FAST, SLOW, Once, begin, copied_run, furnish
from test_mcp import called, change, over_stdio
from typer.testing import CliRunner

from roofsmith.api.looking import moved
from roofsmith.cli.root import cli
from roofsmith.store.asks import LOG
from roofsmith.store.campaign_dir import CampaignDirectory

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
IN_DEEP = SLOW.replace("k < 16", "k < 64").replace("0.125f", "0.03125f")


@pytest.fixture
def here(once: Once, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    without_profilers(monkeypatch, tmp_path)
    furnish(tmp_path)
    copied_run(once("unchanged", lambda there: begin(there, cache)), tmp_path)
    return tmp_path


def look(file: object, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of a look, which leaves the records as they are."""
    ledger, head = Path("run/ledger.jsonl"), Path("run/ledger.head")
    before = ledger.read_bytes(), head.read_bytes()
    result = CliRunner().invoke(cli, ["try", "run", str(file), "--json", *options])
    assert (ledger.read_bytes(), head.read_bytes()) == before
    return result.exit_code, json.loads(result.stdout)


def is_disturbed(found: dict[str, Any]) -> bool:
    """Whether others were at work, so that no pair counts."""
    return found["speedup"] is None and any("void" in note for note in found["notes"])


def written(text: str, name: str = "mine.c") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


@needs_gcc
@pytest.mark.slow
@pytest.mark.timing
def test_a_look_tells_fast_slow_and_wrong_apart(here: Path) -> None:
    code, fast = look(written(FAST), "--evidence", "B1")
    assert (code, fast["right"], fast["cited"], fast["stale"]) == (0, True, 1, [])
    assert is_disturbed(fast) or fast["speedup"] > 2
    assert is_disturbed(fast) or fast["ci"][0] <= fast["speedup"] <= fast["ci"][1]
    code, slow = look(written(IN_DEEP))
    assert (code, slow["right"]) == (0, True)
    assert is_disturbed(slow) or slow["speedup"] < 0.7
    code, wrong = look(written(FAST.replace("2.0f", "2.1f")))
    assert (code, wrong["outcome"], wrong["reason"]) == (1, "incorrect", "wrong_output")
    assert wrong["speedup"] is None
    code, broken = look(written("void solve("))
    assert (code, broken["outcome"]) == (1, "build_failed")
    lines = [json.loads(line) for line in Path("run", LOG).read_text().splitlines()]
    assert [one["outcome"] for one in lines] == ["passed", "passed", "incorrect", "build_failed"]
    assert all(one["wall_s"] >= 0 for one in lines)


@needs_gcc
@pytest.mark.slow
def test_what_a_round_would_refuse_is_a_remark(here: Path) -> None:
    code, same = look(written(SLOW), "--evidence", "E99", "--fact", "no citation")
    assert code == 0
    assert any("byte for byte" in one for one in same["remarks"])
    assert any("E99" in one for one in same["stale"])
    answer = change(FAST, campaign=here / "run", round=7)
    code, seen = look(written(json.dumps(answer), "proposal.json"))
    assert (code, seen["right"], seen["cited"]) == (0, True, 1)
    assert any("round 2 was asked for" in one for one in seen["remarks"])


@needs_gcc
@pytest.mark.slow
def test_an_agent_looks_while_its_campaign_waits(
    here: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk() -> None:
        async with over_stdio(here, cache) as client:
            assert "`try`" in await called(client, "campaign_brief", directory="run")
            answer = change(FAST, campaign=here / "run")
            seen = json.loads(await called(client, "campaign_try", directory="run", answer=answer))
            assert seen["right"]

    written(FAST)
    asyncio.run(talk())
    before = Path("run", LOG).read_bytes()
    with CampaignDirectory.open(Path("run"), command="roofsmith optimize"):
        busy = CliRunner().invoke(cli, ["try", "run", "mine.c"])
        assert busy.exit_code == 2
        assert "another process" in busy.stderr
        monkeypatch.setenv("ROOFSMITH_ASKED_BY", "1")  # as in an agent's turn
        assert look("mine.c")[0] == 0
    assert Path("run", LOG).read_bytes() == before


def test_without_a_campaign_it_says_what_looks_at_a_kernel(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["try", str(tmp_path), "mine.c"])
    assert result.exit_code == 2
    assert "roofsmith kernel check" in result.stderr
    assert "roofsmith kernel judge" in result.stderr


def test_evidence_that_moved_is_named_where_it_is() -> None:
    asked = {"E1": "misses the cache", "C1": "ipc: 1.0", "B1": "at least 2 ms"}
    now = {"E1": "short of lanes", "E2": "misses the cache", "B1": "at least 2 ms"}
    assert moved(["B1"], asked, now) == ()
    assert moved(["E1"], asked, now) == ("E1 is E2 now: misses the cache",)
    assert moved(["C1"], asked, now) == ("C1 held for an earlier kernel: ipc: 1.0",)
    (unknown,) = moved(["E9"], asked, now)
    assert "known: E1, E2, B1" in unknown
    assert moved(["E1"], {}, now) == ()  # nobody has asked: it means what it says now
