"""Real coding agents propose, their model being a server of the test's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from agent_programs import Bench
from agent_server import TOKENS, anthropic_server

from roofsmith.app.agents import Workplace
from roofsmith.app.wiring import make_proposer
from roofsmith.domain.campaign import Round
from roofsmith.engine.verify import verify

KEY = "sk-ant-test-0123456789"


@pytest.mark.skipif(shutil.which("claude") is None, reason="npm i -g @anthropic-ai/claude-code")
def test_claude_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude.json").write_text("{}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    bench = Bench(tmp_path, "")
    world = bench.world()
    with anthropic_server() as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        world.proposer = make_proposer("agent:claude", Workplace(bench.campaign, bench.observer))
        (round_,) = bench.run(world).proposed
    assert isinstance(round_, Round)
    assert round_.decision.kind == "kept"
    assert round_.proposer == "agent:claude"
    assert round_.tokens == 2 * sum(TOKENS.values())
    assert verify(world.records) == ()
    (log,) = bench.campaign.rglob("agent.log")
    assert KEY not in log.read_text()


@pytest.mark.skipif(shutil.which("mini") is None, reason="pip install mini-swe-agent")
def test_mini_swe_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSWEA_MODEL_NAME", "anthropic/claude-sonnet-4-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    bench = Bench(tmp_path, "")
    world = bench.world()
    with anthropic_server() as address:
        monkeypatch.setenv("ANTHROPIC_API_BASE", address)
        world.proposer = make_proposer("agent:mini", Workplace(bench.campaign, bench.observer))
        (round_,) = bench.run(world).proposed
    assert isinstance(round_, Round)
    assert round_.decision.kind == "kept"
    assert verify(world.records) == ()
    (log,) = bench.campaign.rglob("agent.log")
    assert KEY not in log.read_text()
