"""AgentKernelArena: a folder per task with `config.yaml`, which names files and commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import KernelProblem, Unread, tried, yaml_mapping


def read(place: Path) -> Iterator[KernelProblem | Unread]:
    """No problem that can be written as one kernel: of each task the command that takes it."""
    tasks = sorted(place.rglob("config.yaml")) if place.is_dir() else [place]
    for task in tasks:
        yield tried(task.parent.name, partial(_told, task))


def _told(task: Path) -> Unread:
    command = _command(yaml_mapping(read_text(task, "task")), task.parent)
    return Unread(
        name=task.parent.name,
        reason=f"a task of commands is a repository's: {command}"
        if command else f"{task} names no source_file_path and performance_command",
    )  # fmt: skip


def _command(said: dict[str, Any], folder: Path) -> str | None:
    def listed(key: str) -> list[str]:
        value = said.get(key) or []
        return [str(one) for one in value] if isinstance(value, list) else [str(value)]

    files, bench = listed("source_file_path"), listed("performance_command")
    if not files or not bench:
        return None
    words = ["roofsmith", "init", "--repo", str(folder)]
    for file in files:
        words += ["--editable", file]
    for option, key in (("--build", "compile_command"), ("--test", "correctness_command")):
        if commands := listed(key):
            words += [option, " && ".join(commands)]
    return shlex.join([*words, "--benchmark", " && ".join(bench)])
