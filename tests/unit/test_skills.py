"""Pages for coding agents: their commands exist, and they arrive where agents look."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from roofsmith import api
from roofsmith.cli import main  # noqa: F401 - registers every command
from roofsmith.cli.root import cli
from roofsmith.domain.answer import Answer

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "roofsmith", "kernel-opt-skill", "gpu-kernel-baseline", "gpu-kernel-profile-optimizer",
    "gpu-kernel-bottleneck-analysis", "gpu-kernel-partial-restart", "kernel-exp-history",
    "kernel-trace-analysis", "kernel-optimize", "format-code",
}  # fmt: skip
_LONGEST_PAGE = 120
"""Lines of what agents read whole."""


def blocks(page: str, language: str) -> Iterator[str]:
    """What is fenced as a language on a page."""
    yield from re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def command_lines() -> Iterator[tuple[str, str]]:
    for skill in api.skills():
        for block in blocks(skill.read(), "sh"):
            for line in block.splitlines():
                yield skill.name, line


def test_every_skill_is_there_and_short() -> None:
    found = api.skills()
    assert {skill.name for skill in found} == NAMES
    assert found[0].name == "roofsmith"
    for skill in found:
        assert skill.folder.name == skill.name
        assert 0 < len(skill.description) <= 1024
        assert len(skill.read().splitlines()) <= _LONGEST_PAGE


@pytest.mark.parametrize(("skill", "line"), [*command_lines()])
@pytest.mark.slow
def test_every_command_line_is_one(skill: str, line: str) -> None:
    """Parsed as if it were called: commands, options, values."""
    program, *words = shlex.split(line)
    assert program == "roofsmith"
    command = typer.main.get_command(cli)
    context = command.make_context("roofsmith", [*words], resilient_parsing=words[0][0] == "-")
    while (rest := [*context._protected_args, *context.args]) and hasattr(command, "commands"):
        command = command.commands[rest[0]]
        context = command.make_context(rest[0], rest[1:], parent=context)
    assert not context.args


def test_every_command_named_in_prose_exists() -> None:
    known = set(typer.main.get_command(cli).commands)  # type: ignore[attr-defined]
    for skill in api.skills():
        named = set(re.findall(r"`roofsmith ([a-z]+)", skill.read()))
        assert named <= known, skill.name


def test_the_example_of_an_answer_fits_the_schema() -> None:
    [block] = blocks(api.skill("roofsmith").read(), "json")
    answer = Answer.model_validate(json.loads(block))
    assert answer.evidence
    assert answer.edits


@pytest.mark.parametrize("agent", ["claude", "codex", "cursor", "gemini", "opencode"])
def test_skills_are_installed_where_an_agent_looks(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["skill", "install", "--agent", agent, "--json"])
    assert result.exit_code == 0, result.output
    places = [Path(path) for path in json.loads(result.stdout)["installed"]]
    assert {place.name for place in places} == NAMES
    for place in places:
        assert place.is_relative_to(tmp_path)
        assert (place / "SKILL.md").read_text() == api.skill(place.name).read()


def test_a_page_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    page = tmp_path / "format-code" / "SKILL.md"
    page.parent.mkdir()
    page.write_text("mine")
    install = ["skill", "install", "--to", str(tmp_path)]
    assert CliRunner().invoke(cli, install).exit_code == 2
    assert page.read_text() == "mine"
    assert [*tmp_path.iterdir()] == [page.parent]
    assert CliRunner().invoke(cli, [*install, "--force"]).exit_code == 0
    assert page.read_text() == api.skill("format-code").read()
    assert CliRunner().invoke(cli, install).exit_code == 0, "once more changes nothing"


def test_unknown_names_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for words in (("show", "nothing"), ("install", "--agent", "nobody")):
        assert CliRunner().invoke(cli, ["skill", *words]).exit_code == 2
    assert not [*tmp_path.iterdir()]


def test_a_page_is_shown_whole() -> None:
    for skill in api.skills():
        result = CliRunner().invoke(cli, ["skill", "show", skill.name])
        assert result.stdout == skill.read()


def test_the_wheel_has_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["skills"] == "roofsmith/skills"
