"""Atrex-Bench: a folder per operator with `reference.py`, `input.py` and `shapes.json`.

https://github.com/alibaba/atrex-bench.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.domain.target import MOST_WEIGHT
from roofsmith.errors import TargetError
from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import (
    WORKLOADS,
    KernelProblem,
    Unread,
    hosted,
    literal,
    tried,
)

MOST_WORKLOADS = 8
"""Of a problem: those that take most time in production; chosen, since each is judged in every
round."""


def read(place: Path) -> Iterator[KernelProblem | Unread]:
    """The problems of a folder and those below it."""
    shapes = sorted(place.rglob("shapes.json")) if place.is_dir() else [place]
    for file in shapes:
        yield tried(file.parent.name, partial(_problem, file))


def _object(file: Path) -> dict[str, Any]:
    found = json.loads(read_text(file, "problem's file"))
    if not isinstance(found, dict):
        raise TargetError(f"{file} is no JSON object")
    return found


def _problem(file: Path) -> KernelProblem | Unread:
    folder, shapes = file.parent, _object(file)
    reference = hosted(read_text(folder / "reference.py", "reference"))
    inputs = hosted(read_text(folder / "input.py", "inputs"))
    metadata = _object(folder / "metadata.json") if (folder / "metadata.json").exists() else {}
    cases = {key: one for key, one in shapes.items() if isinstance(one, dict)}
    if not cases or "def _make_inputs" not in inputs:
        return Unread(name=folder.name, reason=f"{folder} has no shapes and no _make_inputs()")
    time = {key: _time(metadata, key) for key in cases}
    heaviest = sorted(cases, key=lambda key: -time[key])
    made = cases[heaviest[0]].get("init_kwargs") or {}
    alike = [key for key in heaviest if (cases[key].get("init_kwargs") or {}) == made]
    judged, notes = alike[:MOST_WORKLOADS], []
    if len(alike) < len(cases):
        notes.append(
            f"{len(cases) - len(alike)} shapes need a Model of their own, and are left out"
        )
    if len(judged) < len(alike):
        share = sum(time[key] for key in judged) / (sum(time.values()) or 1)
        notes.append(
            f"{len(judged)} of {len(alike)} shapes are judged on"
            + (f": {share:.0%} of the time in production" if share else "")
        )
    is_counted = {key: _is_counted(metadata, key) for key in judged}
    if any(is_counted.values()) and not all(is_counted.values()):
        unknown = next(key for key, known in is_counted.items() if not known)
        notes.append(f"nobody counted the time of shape {unknown}: all shapes count alike")
    weight = _number(metadata.get("importance_score"), 1.0)
    return KernelProblem(
        name=folder.name,
        files={
            "model.py": _module(made, [cases[key].get("input_kwargs") or {} for key in judged]),
            "atrex_reference.py": reference, "atrex_input.py": inputs,
        },
        origins={
            "model.py": str(folder), "atrex_reference.py": str(folder / "reference.py"),
            "atrex_input.py": str(folder / "input.py"),
        },
        entry="Model", source=f"Atrex-Bench {folder.name}",
        weight=weight, notes=tuple(notes),
        weights=tuple(time[key] for key in judged) if all(is_counted.values()) else (),
    )  # fmt: skip


def _number(value: object, otherwise: float) -> float:
    is_one = isinstance(value, (int, float)) and 0 <= value < math.inf
    return min(float(value), MOST_WEIGHT) if is_one else otherwise  # type: ignore[arg-type]


def _time(metadata: Mapping[str, Any], key: str) -> float:
    """That a shape takes in production: calls by the time of one, as far as somebody counted."""
    calls, once = _counted(metadata, key)
    return min(_number(calls, 0.0) * _number(once, 0.0), MOST_WEIGHT)


def _is_counted(metadata: Mapping[str, Any], key: str) -> bool:
    return all(_number(one, -1.0) >= 0 for one in _counted(metadata, key))


def _counted(metadata: Mapping[str, Any], key: str) -> tuple[object, object]:
    """Calls of a shape, and the time of one."""
    said = _mapping(_mapping(metadata.get("shapes")).get(key))
    return said.get("call_count"), _mapping(said.get("production_performance")).get(
        "performance_us"
    )


def _mapping(value: object) -> Mapping[str, Any]:
    """Empty for anything else: only weights depend on it."""
    return value if isinstance(value, dict) else {}


def _module(made: dict[str, Any], cases: list[dict[str, Any]]) -> str:
    return f"""from atrex_input import _make_inputs
from atrex_reference import Model as _Model

_MADE = {literal(made)}
_CASES = {literal(cases)}


class Model(_Model):
    pass


def get_init_inputs():
    return _MADE


def _given(said):
    return _make_inputs(**said)


def get_inputs():
    return _given(_CASES[0])

{WORKLOADS.format(cases="_CASES", shapes="_given")}"""
