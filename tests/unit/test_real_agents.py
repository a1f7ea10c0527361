"""Real coding agents propose, their model being a server of the test's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from agent_programs import Bench
from agent_server import TOKENS, anthropic_server

from roofsmith.api.agents import Workplace
from roofsmith.api.wiring import make_proposer
from roofsmith.domain.campaign import Round
from roofsmith.engine.verify import verify

pytestmark = pytest.mark.slow

KEY = "sk-ant-test-0123456789"
INSTALLED = Path(__file__).resolve().parents[2] / ".venv" / "agents"
"""Where `make agents` puts them."""
PATH = os.pathsep.join(
    (str(INSTALLED / "node_modules" / ".bin"), str(INSTALLED / "mini" / "bin"), os.environ["PATH"])
)


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a test where an agent isn't installed."""
    missing = shutil.which(program, path=PATH) is None
    return pytest.mark.skipif(missing, reason=f"no `{program}` here: make agents")


@pytest.fixture(autouse=True)
def _finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)


@needs("claude")
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
        world.proposer = make_proposer(
            "agent:claude", place=Workplace(bench.campaign, bench.observer)
        )
        (round_,) = bench.run(world).proposed
    assert isinstance(round_, Round)
    assert round_.decision.kind == "kept"
    assert round_.proposer == "agent:claude"
    assert round_.tokens == 2 * sum(TOKENS.values())
    assert verify(world.records) == ()
    (log,) = bench.campaign.rglob("agent.log")
    assert KEY not in log.read_text()


@needs("mini")
def test_mini_swe_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSWEA_MODEL_NAME", "anthropic/claude-sonnet-4-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    bench = Bench(tmp_path, "")
    world = bench.world()
    with anthropic_server() as address:
        monkeypatch.setenv("ANTHROPIC_API_BASE", address)
        world.proposer = make_proposer(
            "agent:mini", place=Workplace(bench.campaign, bench.observer)
        )
        (round_,) = bench.run(world).proposed
    assert isinstance(round_, Round)
    assert round_.decision.kind == "kept"
    assert verify(world.records) == ()
    (log,) = bench.campaign.rglob("agent.log")
    assert KEY not in log.read_text()
