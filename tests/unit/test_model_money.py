"""What models charge, what is told of it before a campaign begins, and who may be asked at all."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from roofsmith import api
from roofsmith.analysis.spending import spendings
from roofsmith.api.campaigns import estimates
from roofsmith.api.preferences import DEFAULT_PROPOSERS, PRICES, default_proposers, own_prices
from roofsmith.api.wiring import spelled
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.domain.price import Price, Usage
from roofsmith.engine.loop import Engine
from roofsmith.errors import UsageError
from roofsmith.proposers import model
from roofsmith.proposers.model.allowance import LEAST_ANSWER, Allowance, ShortError
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.proposer import price_of, vendor_prices
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels

TARGET = Path(__file__).parents[2] / "examples" / "softmax" / "target.yaml"
HERE = "http://127.0.0.1:8000/v1"
KNOWN = "model:anthropic:claude-sonnet-4-5"
PRICE = Price(input=1.0, output=10.0, cached=0.5)
Run = Callable[..., Result]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's configuration, in which there is nothing yet; nobody has a key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "roofsmith"


@pytest.fixture
def config(own: Path) -> Run:
    return lambda *words: CliRunner().invoke(cli, ["config", *words])


# -- prices ----------------------------------------------------------------------------------


def test_every_vendor_s_prices_have_a_day_and_a_page() -> None:
    tables: Any = yaml.safe_load(Path(model.__file__).with_name("prices.yaml").read_text())
    assert vendor_prices().keys() == tables.keys()
    for table in tables.values():
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", table["as_of"])
        assert table["source"].startswith("https://")
    for listed in vendor_prices().values():
        assert all(0 < (p.cached or 0) <= p.input < p.output for p in listed.values())


def test_a_price_is_the_vendor_s_at_its_own_address_alone() -> None:
    known = vendor_prices()["openai"]

    def price(name: str, **own: Price) -> Price | None:
        return price_of(Endpoint.parse(name), own)

    assert (
        price("model:openai:gpt-4o") == price("model:openai:gpt-4o-2024-08-06") == known["gpt-4o"]
    )
    assert price("model:openai:gpt-4o-2024-05-13") == known["gpt-4o-2024-05-13"] != known["gpt-4o"]
    for unknown in (f"model:gpt-4o@{HERE}", "model:openai:gpt-4o-huge", "model:anthropic:gpt-4o"):
        assert price(unknown) is None
    assert price(f"model:m@{HERE}", m=PRICE) == price("model:openai:m", m=PRICE) == PRICE


def test_what_was_read_before_costs_less() -> None:
    used = Usage(input=1_000_000, cached=400_000, output=100_000)
    assert PRICE.cost_usd(used) == pytest.approx(0.6 + 0.2 + 1.0)
    assert Price(input=1, output=10).cost_usd(used) == pytest.approx(2.0)


def test_a_user_s_prices_are_read_and_a_wrong_line_is_named(own: Path) -> None:
    assert own_prices(None) == own_prices(own) == {}
    own.mkdir()
    (own / PRICES).write_text("m: {input: 0.5, output: 2}\norg/m:7b: {input: 0, output: 0}\n")
    assert own_prices(own)["org/m:7b"].cost_usd(Usage(input=9, output=9)) == 0
    assert own_prices(own)["m"] == Price(input=0.5, output=2)
    (own / PRICES).write_text("a: {input: 1, output: 2}\nm: {input: 1, out: 2}\n")
    with pytest.raises(UsageError, match="yaml:2"):
        own_prices(own)


def test_an_allowance_shrinks_with_what_was_spent() -> None:
    allowance = Allowance(tokens=50_000, cost_usd=0.25, price=PRICE, longest=16_000)
    assert allowance.answer_tokens(10_000, Usage()) == 16_000
    assert allowance.answer_tokens(10_000, Usage(input=20_000, output=10_000)) == 10_000
    with pytest.raises(ShortError) as caught:
        allowance.answer_tokens(10_000, Usage(input=1_000, output=23_000))
    assert caught.value.reason == "cost"
    with pytest.raises(ShortError) as caught:
        allowance.answer_tokens(50_001 - LEAST_ANSWER, Usage())
    assert caught.value.reason == "tokens"
    assert Allowance().answer_tokens(10**9, Usage()) is None


# -- before it begins ------------------------------------------------------------------------


def plan(proposers: str, **limits: Any) -> api.CampaignPlan:
    return api.CampaignPlan(api.Subject(TARGET), proposers, api.SessionLimits(**limits))


def test_a_line_says_what_a_model_will_cost_at_most(own: Path) -> None:
    settings = api.settings()
    (capped,) = estimates(plan(f"recipes,{KNOWN}", max_cost_usd=4.5), settings)
    assert "$4.50" in capped
    assert "--max-cost" in capped
    (free,) = estimates(plan(KNOWN, max_iterations=7), settings)
    assert "7 rounds" in free
    (by_tokens,) = estimates(plan(KNOWN, max_tokens=1_000_000), settings)
    assert "$15.00" in by_tokens
    (unknown,) = estimates(plan(f"model:m@{HERE}"), settings)
    assert "$" not in unknown
    assert estimates(plan("recipes,sweep"), settings) == ()


def test_money_is_not_limited_where_nobody_knows_the_price(own: Path, tmp_path: Path) -> None:
    words = ["--proposer", f"model:m@{HERE}", "--max-cost", "1", "--output", str(tmp_path / "run")]
    result = CliRunner().invoke(cli, ["optimize", str(TARGET), *words])
    assert result.exit_code == 2
    assert "--max-tokens" in result.output
    assert not (tmp_path / "run").exists()


# -- consent ---------------------------------------------------------------------------------


def test_without_a_key_or_a_consent_nobody_is_asked(
    own: Path, config: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    assert default_proposers(api.settings()) == DEFAULT_PROPOSERS
    assert config("--model", KNOWN).exit_code == 0
    assert default_proposers(api.settings()) == f"{DEFAULT_PROPOSERS},{KNOWN}"
    assert spelled(f"auto, agent:a x,y,{KNOWN}", api.settings()) == (
        f"{DEFAULT_PROPOSERS},{KNOWN},agent:a x,y"
    )
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert default_proposers(api.settings()) == DEFAULT_PROPOSERS
    assert config("--model", f"model:m@{HERE}").exit_code == 0
    assert default_proposers(api.settings()).endswith(HERE)
    assert config("--model", "none").exit_code == 0
    assert default_proposers(api.settings()) == DEFAULT_PROPOSERS
    assert list(own.iterdir()) == []


def test_a_consent_is_to_a_model(own: Path, config: Run) -> None:
    assert config("--model", "model:gpt").exit_code == 2
    assert config("--model", "model:m@http://user:secret@host/v1").exit_code == 2
    assert '"model": null' in config("--json").stdout
    assert not own.exists()


@pytest.mark.parametrize("text", ["many", "-1", "0", "1e3"])
def test_the_length_of_an_answer_is_a_number(text: str) -> None:
    environment = {"HOME": "/home/somebody", "ROOFSMITH_MODEL_TOKENS": text}
    with pytest.raises(UsageError):
        Settings.from_environment(environment, Path("/"))


# -- afterwards ------------------------------------------------------------------------------


def test_who_took_what_and_what_was_kept_of_it() -> None:
    target, kernels, ideas = fake_target(), FakeKernels(), []
    took = {"a": (0, 0.0), "b": (100, 0.5), "c": (100, 0.0)}
    for number, (name, time_s) in enumerate([("a", 2e-3), ("b", 5e-4), ("c", 2e-3), ("b", 2e-3)]):
        tokens, cost = took[name]
        changes = {"proposer": name, "tokens": tokens, "cost_usd": cost}
        idea = fake_idea(target, f"idea {number}").model_copy(update=changes)
        kernels.add(idea.candidate, time_s=time_s)
        ideas.append(idea)
    here = FakeWorld(target, kernels, tuple(ideas))
    campaign = Engine(here.parts(), "test").run()
    first, second, third = spendings(campaign)
    assert (first.rounds, first.kept_share, first.tokens, first.cost_usd) == (1, 0.0, 0, 0.0)
    assert (second.rounds, second.kept_share, second.tokens, second.cost_usd) == (2, 0.5, 200, 1.0)
    assert third.cost_usd is None
    assert campaign.cost_usd == 1.0
    assert summarize(campaign).spendings == (first, second, third)
    files = render_campaign(campaign).files
    assert "| b | 2 | 50% |" in files["final_report.md"]
    assert 'id="spending"' in files["report.html"]
