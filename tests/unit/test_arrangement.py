"""Few commands at the top, each in a panel; names of before still work."""

from __future__ import annotations

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from roofsmith.cli import main as _main  # noqa: F401 - registers every command
from roofsmith.cli.arrangement import FORMER, SHOWN
from roofsmith.cli.root import cli

MOST = 18
"""Chosen: what one page of `--help` still shows at a glance."""


def roofsmith(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, words, env={"COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


def test_help_shows_few_commands_in_five_panels() -> None:
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    assert list(commands) == list(SHOWN)
    assert len(commands) <= MOST
    assert all(not command.hidden for command in commands.values())
    assert len(set(SHOWN.values())) == 5
    shown = roofsmith("--help")[1]
    assert all(f"─ {panel} ─" in shown for panel in SHOWN.values())
    listed = set(re.findall(r"^│ ([\w-]+)", shown.split("Start ─")[1], re.MULTILINE))
    assert listed == set(SHOWN)
    words = set(re.findall(r"[\w-]+", shown))
    assert {name for _, name in FORMER.values()} <= words


@pytest.mark.parametrize("former", FORMER)
def test_a_former_name_is_the_command_of_the_new_one(former: str) -> None:
    code, shown, _ = roofsmith(former, "--help")
    assert code == 0
    now = roofsmith(*FORMER[former], "--help")[1]
    assert shown.split() == now.replace(" ".join(FORMER[former]), former).split()


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_explains_itself(command: str) -> None:
    code, out, _ = roofsmith(command, "--help")
    assert code == 0
    assert "Usage" in out


def test_a_former_name_prints_the_same_json() -> None:
    code, out, _ = roofsmith("skill", "list", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(roofsmith("agent", "skill", "list", "--json")[1])
    code, out, _ = roofsmith("judge", "--json")
    assert code == 2
    assert json.loads(out)["error"]["hint"].endswith(" judge --help")


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("verfy", "'verify'"), ("judg", "'kernel judge'"), ("shwo", "'campaign show'")],
)
def test_a_wrong_name_is_told_the_nearest(typed: str, nearest: str) -> None:
    code, _, err = roofsmith(typed)
    assert code == 2
    assert f"Did you mean {nearest}?" in err


def test_a_shown_name_comes_before_a_former_one() -> None:
    assert "Did you mean 'resume'?" in roofsmith("resumes")[2]
    assert "Did you mean" not in roofsmith("zzzz")[2]
