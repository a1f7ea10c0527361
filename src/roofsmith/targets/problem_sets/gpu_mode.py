"""gpu-mode: a folder per problem with `task.yml` and `reference.py`.

https://github.com/gpu-mode/reference-kernels, `problems/<set>/<problem>/`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import (
    WORKLOADS,
    KernelProblem,
    Unread,
    hosted,
    literal,
    tried,
    yaml_mapping,
)

MOST_WORKLOADS = 6
"""Of a problem: its benchmarks, then its tests; chosen, since each is judged in every round."""
SEEDS, SEEDS_IN_VALUES = 2**31 - 1, 1000
"""How many there are; the second where a generator puts the seed into values. Chosen: float32 tells
their sums with numbers around 1 apart."""
_ANYTHING = '''"""Names that the set's own harness has, for references that import them."""


class _Anything:
    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything()
'''
_HARNESS = ("utils", "task", "eval")


def read(place: Path) -> Iterator[KernelProblem | Unread]:
    """The problems of a folder and those below it."""
    tasks = sorted(place.rglob("task.yml")) if place.is_dir() else [place]
    for task in tasks:
        yield tried(task.parent.name, partial(_problem, task))


def _problem(task: Path) -> KernelProblem | Unread:
    folder, said = task.parent, yaml_mapping(read_text(task, "task"))
    text = read_text(folder / "reference.py", "reference")
    cases = [one for key in ("benchmarks", "tests") for one in said.get(key) or ()]
    cases = [one for one in cases if isinstance(one, dict)]
    if not cases:
        return Unread(name=folder.name, reason=f"{folder}/task.yml lists no tests or benchmarks")
    if "def ref_kernel" not in text or "def generate_input" not in text:
        return Unread(
            name=folder.name, reason=f"{folder}/reference.py has no ref_kernel and generate_input"
        )
    sizes = [{key: value for key, value in one.items() if key != "seed"} for one in cases]
    different = [one for index, one in enumerate(sizes) if one not in sizes[:index]]
    seeds = SEEDS_IN_VALUES if _is_in_values(text) else SEEDS
    beside = {f"{name}.py": _ANYTHING for name in _HARNESS if f"{name} import" in text}
    return KernelProblem(
        name=folder.name.removesuffix("_py"),
        files={"model.py": _module(hosted(text), different[:MOST_WORKLOADS], seeds), **beside},
        origins={"model.py": str(folder / "reference.py")},
        entry="ref_kernel", source=f"gpu-mode {folder.parent.name}/{folder.name}",
        notes=(f"the first {MOST_WORKLOADS} of {len(different)} sizes are judged on",)
        if len(different) > MOST_WORKLOADS else (),
    )  # fmt: skip


def _is_in_values(reference: str) -> bool:
    """Whether the generator's seed goes elsewhere than to where random numbers come from."""
    try:
        found = [
            one for one in ast.walk(ast.parse(reference))
            if isinstance(one, ast.FunctionDef) and one.name == "generate_input"
        ]  # fmt: skip
    except (SyntaxError, ValueError):
        return False
    nodes = [node for one in found for node in ast.walk(one)]
    seeding = {
        id(part) for node in nodes if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute) and "seed" in node.func.attr
        for part in ast.walk(node)
    }  # fmt: skip
    return any(
        isinstance(node, ast.Name) and node.id == "seed" and isinstance(node.ctx, ast.Load)
        and id(node) not in seeding for node in nodes
    )  # fmt: skip


def _module(reference: str, sizes: list[dict[str, Any]], seeds: int) -> str:
    return f"""{reference.rstrip()}


import inspect as _inspect

import torch as _torch

_SIZES = {literal(sizes)}


def _given(said):
    names = _inspect.signature(generate_input).parameters
    seed = {{"seed": int(_torch.randint({seeds}, ()))}} if "seed" in names else {{}}
    return [generate_input(**said, **seed)]


def get_inputs():
    return _given(min(_SIZES, key=lambda one: sum(v for v in one.values() if isinstance(v, int))))

{WORKLOADS.format(cases="_SIZES", shapes="_given")}"""
