"""Which model is asked, where, and with which key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from roofsmith import api
from roofsmith.api.wiring import make_proposer, proposers_of
from roofsmith.cli.root import cli
from roofsmith.config import AGENT_DEADLINE_S, Settings
from roofsmith.errors import UsageError
from roofsmith.proposers.model import proposer as module
from roofsmith.proposers.model.endpoint import Endpoint, key_of
from roofsmith.proposers.model.proposer import ModelOptions

HERE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("name", "base_url", "expected"),
    [
        ("model:anthropic:claude-x", None, Endpoint("anthropic", "claude-x")),
        ("model:openai:gpt-x", None, Endpoint("openai", "gpt-x")),
        ("model:openai:org/m:7b", HERE, Endpoint("openai", "org/m:7b", HERE)),
        ("model:m:7b", f"{HERE}/", Endpoint("openai", "m:7b", HERE)),
        (f"model:m@x@{HERE}", None, Endpoint("openai", "m@x", HERE)),
        ("model:m", "http://[::1]:8000/v1", Endpoint("openai", "m", "http://[::1]:8000/v1")),
    ],
)
def test_a_name_says_which_model_and_where(
    name: str, base_url: str | None, expected: Endpoint
) -> None:
    assert Endpoint.parse(name, base_url) == expected
    assert Endpoint.parse(expected.name) == expected


@pytest.mark.parametrize(
    ("name", "base_url"),
    [
        ("model:gpt-x", None),
        ("model:openai:", None),
        ("model:openai:a+b", None),
        ("model:openai:a b", None),
        ("model:m", "file:///etc/passwd"),
        ("model:m", "127.0.0.1:8000"),
        ("model:m", "http://"),
        ("model:m", "http://host:port/v1"),
        ("model:m", "http://user:secret@host/v1"),
        ("model:m", "http://host/v1?key=secret"),
        ("model:m", "http://host/v1,more"),
        ("model:m", "http://host/\x1b[2J"),
    ],
)
def test_what_names_no_model_is_a_usage_error(name: str, base_url: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint.parse(name, base_url)
    assert "secret" not in str(caught.value)


def test_a_list_may_have_a_model_in_it() -> None:
    made = make_proposer("recipes, model:openai:m", ModelOptions(base_url=HERE))
    assert made.name.split("+") == ["recipes", f"model:openai:m@{HERE}"]


@pytest.mark.parametrize("names", ["recipes", "none", "model:openai:a,model:openai:b"])
def test_an_address_is_of_one_model(names: str) -> None:
    with pytest.raises(UsageError):
        make_proposer(names, ModelOptions(base_url=HERE))


def test_a_recorded_address_gets_a_key_only_where_it_is_named() -> None:
    assert proposers_of(["recipes", "model:openai:m"]) == "recipes,model:openai:m"
    recorded = [f"model:openai:m@{HERE}"]
    with pytest.raises(UsageError, match=HERE):
        proposers_of(recorded)
    there = "http://127.0.0.1:9/v1"
    again = make_proposer(proposers_of(recorded, there), ModelOptions(base_url=there))
    assert again.name == f"model:openai:m@{there}"


def test_where_it_isn_t_installed_the_command_to_install_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        make_proposer("model:openai:m")
    assert caught.value.hint.startswith("pip install")
    make_proposer("recipes")


def test_nobody_pays_for_it_who_asks_no_model() -> None:
    code = (
        "import sys, roofsmith.api.wiring as w; w.make_proposer('model:openai:m');"
        " print({'pydantic_ai', 'openai', 'anthropic', 'keyring'} & sys.modules.keys() or 'none')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "none"


def test_keys_come_from_the_environment_else_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {("roofsmith", "OPENAI_API_KEY"): "of-the-ring"}
    ring = SimpleNamespace(get_password=lambda service, name: kept.get((service, name)))
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert key_of("OPENAI_API_KEY") == "of-the-ring"
    assert key_of("ANTHROPIC_API_KEY") is None
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    assert key_of("OPENAI_API_KEY") == "of-the-environment"


def test_a_keyring_that_fails_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(service: str, name: str) -> str:
        raise RuntimeError("locked")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=locked))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert key_of("OPENAI_API_KEY") is None


@pytest.mark.parametrize("whose", ["MODEL", "AGENT"])
@pytest.mark.parametrize("text", ["soon", "-1", "0", "inf", "nan"])
def test_a_deadline_is_a_time(text: str, whose: str) -> None:
    environment, name = {"HOME": "/home/somebody"}, f"ROOFSMITH_{whose}_DEADLINE_S"
    assert Settings.from_environment(environment, Path("/")).model_deadline_s == 600
    with pytest.raises(UsageError, match=f"{name}={text} is no time"):
        Settings.from_environment(environment | {name: text}, Path("/"))


def test_an_agents_deadline_is_the_options_the_environments_or_the_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert api.settings().agent_deadline_s == AGENT_DEADLINE_S
    monkeypatch.setenv("ROOFSMITH_AGENT_DEADLINE_S", "42")
    assert api.settings().agent_deadline_s == 42
    assert api.settings(agent_deadline_s=7).agent_deadline_s == 7


def test_commands_hand_the_address_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = list[object]()
    monkeypatch.chdir(tmp_path)
    Path("target.yaml").touch()
    Path("run").mkdir()
    Path("run/ledger.jsonl").write_text("{}\n")

    def optimize(plan: api.CampaignPlan, *_: object) -> None:
        heard.extend((plan.proposers, plan.base_url))
        raise UsageError("enough")

    def resume(directory: Path, proposers: str | None, *rest: object) -> None:
        heard.extend((proposers, rest[-1]))
        raise UsageError("enough")

    monkeypatch.setattr(api, "optimize", optimize)
    monkeypatch.setattr(api, "estimates", lambda *_: ())
    monkeypatch.setattr(api, "resume", resume)
    model = ("--proposer", "model:m", "--base-url", HERE)
    for command in (("optimize", "target.yaml", "--output", "new"), ("resume", "run")):
        result = CliRunner().invoke(cli, [*command, *model])
        assert result.exit_code == 2
    assert heard == ["model:m", HERE] * 2
