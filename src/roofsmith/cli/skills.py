"""`roofsmith agent skill`: pages from which a coding agent runs a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.cli.root import agent

skill = typer.Typer(
    no_args_is_help=True, help="Pages from which a coding agent runs a whole campaign."
)
agent.add_typer(skill, name="skill")


@skill.command(name="list")
def list_(as_json: options.Json = False) -> None:
    """Every page, and what it is for."""
    found = api.skills()
    if as_json:
        rows = [{"name": one.name, "description": one.description} for one in found]
        print_json({"skills": rows})
        return
    print_table(("skill", "for"), [(one.name, one.description) for one in found])


@skill.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` has it.")] = "roofsmith",
) -> None:
    """Print one page."""
    print(api.skill(name).read(), end="")


@skill.command()
def install(
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where this one looks: agents (several do), claude, codex, copilot, cursor, "
            "gemini, opencode or qwen.",
        ),
    ] = "claude",
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A folder of skills in place of that, such as .claude/skills of a project.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace pages of the same name that differ.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Copy all pages to where an agent looks for skills."""
    folder = api.skill_folder(agent) if to is None else to
    found = [str(path) for path in api.install_skills(folder, force=force)]
    if as_json:
        print_json({"installed": found})
        return
    print_lines(found)
