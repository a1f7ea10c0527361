"""AgentKernelArena: a folder per task with `config.yaml`, which names files and commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import CommandProblem, Unread, tried, yaml_mapping

COMMANDS = {
    "build": "compile_command", "test": "correctness_command", "benchmark": "performance_command",
}  # fmt: skip


def read(place: Path) -> Iterator[CommandProblem | Unread]:
    """The tasks of a folder and those below it."""
    tasks = sorted(place.rglob("config.yaml")) if place.is_dir() else [place]
    for task in tasks:
        yield tried(task.parent.name, partial(_problem, task))


def _problem(task: Path) -> CommandProblem | Unread:
    said, folder = yaml_mapping(read_text(task, "task")), task.parent
    files = _listed(said, "source_file_path")
    commands = {key: " && ".join(_listed(said, name)) for key, name in COMMANDS.items()}
    if not files or not commands["benchmark"]:
        reason = f"{task} names no source_file_path and performance_command"
        return Unread(name=folder.name, reason=reason)
    for file in files:
        if not (folder / file).resolve().is_relative_to(folder.resolve()):
            return Unread(name=folder.name, reason=f"{task}: {file} lies outside its folder")
        if not (folder / file).is_file():
            return Unread(name=folder.name, reason=f"{task}: {file} isn't there")
    return CommandProblem(
        name=folder.name, folder=str(folder), editable=tuple(files),
        commands={key: text for key, text in commands.items() if text},
        source=f"AgentKernelArena {said.get('task_type') or 'task'} {folder.name}",
    )  # fmt: skip


def _listed(said: dict[str, Any], key: str) -> list[str]:
    value = said.get(key) or []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
