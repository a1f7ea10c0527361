"""Pages for coding agents, and where each agent looks for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml

from roofsmith.errors import StorageError, UsageError

PAGE = "SKILL.md"
MAIN = "roofsmith"
AGENT_FOLDERS: Mapping[str, str] = {
    "agents": ".agents/skills",
    "claude": ".claude/skills",
    "codex": ".agents/skills",
    "copilot": ".copilot/skills",
    "cursor": ".cursor/skills",
    "gemini": ".gemini/skills",
    "opencode": ".config/opencode/skills",
    "qwen": ".qwen/skills",
}
"""Below the home folder. From documentation of codex, gemini and opencode in 2026; the others are
as others' tables have them, and untried. `agents` is the folder that several of them share."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One page with what its front matter says."""

    name: str
    description: str
    folder: Path

    def read(self) -> str:
        """The page, front matter included."""
        return (self.folder / PAGE).read_text(encoding="utf-8")


def skills() -> tuple[Skill, ...]:
    """All pages, the one that a whole campaign needs first.

    Raises:
        UsageError: this installation has none.
    """
    found = [_skill(folder) for folder in _root().iterdir() if (folder / PAGE).is_file()]
    return tuple(sorted(found, key=lambda skill: (skill.name != MAIN, skill.name)))


def skill(name: str) -> Skill:
    """One page by its name.

    Raises:
        UsageError: there is none of that name.
    """
    known = {found.name: found for found in skills()}
    if name not in known:
        raise UsageError(f"there is no skill {name!r}", hint=f"there are {', '.join(known)}")
    return known[name]


def skill_folder(agent: str) -> Path:
    """Where an agent looks for skills of this user.

    Raises:
        UsageError: the agent isn't known, or there is no home.
    """
    if agent not in AGENT_FOLDERS:
        raise UsageError(
            f"where {agent!r} looks for skills isn't known",
            hint=f"known: {', '.join(AGENT_FOLDERS)}; or name the folder with --to DIR",
        )
    home = os.environ.get("HOME")
    if not home:
        raise UsageError("HOME isn't set", hint="name the folder with --to DIR")
    return Path(home) / AGENT_FOLDERS[agent]


def install_skills(folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Copy every page into a folder, each in a folder of its own; where they are then.

    Args:
        folder: made if it isn't there.
        force: replace pages of the same name that hold something else.

    Raises:
        UsageError: there is another page of such a name.
        StorageError: the folder can't be written.
    """
    found = skills()
    for one in found:
        there = folder / one.name / PAGE
        if not force and there.exists() and there.read_bytes() != (one.folder / PAGE).read_bytes():
            raise UsageError(f"{there} exists, and differs", hint="--force replaces it")
    try:
        for one in found:
            shutil.copytree(one.folder, folder / one.name, dirs_exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"can't write skills to {folder}: {error}", hint="name another folder with --to DIR"
        ) from error
    return tuple(folder / one.name for one in found)


def _skill(folder: Path) -> Skill:
    _, front, _ = (folder / PAGE).read_text(encoding="utf-8").split("---\n", 2)
    said = yaml.safe_load(front)
    return Skill(str(said["name"]), str(said["description"]), folder)


def _root() -> Path:
    packaged = Path(str(resources.files("roofsmith"))) / "skills"
    checkout = Path(__file__).resolve().parents[3] / "skills"
    for folder in (packaged, checkout):
        if (folder / MAIN / PAGE).is_file():
            return folder
    raise UsageError("this installation of roofsmith lacks its skills", hint="install it again")
