"""KernelBench: a file per problem with `Model`, `get_inputs` and `get_init_inputs`.

https://github.com/ScalingIntelligence/KernelBench, `KernelBench/level*/N_Name.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import KernelProblem, Unread, hosted, tried

TOLERANCE = "1e-2 absolute and relative, or 1e-4, by the harness's version"
ATOL = 1e-2


def read(place: Path) -> Iterator[KernelProblem | Unread]:
    """The problems of a file, or of a folder and those below it."""
    files = [place] if place.is_file() else sorted(place.rglob("*.py"), key=_order)
    for file in files:
        if file.name.startswith("_") or not (place.is_file() or file.name[:1].isdigit()):
            continue
        level = file.parent.name if file.parent.name.startswith("level") else ""
        name = f"{level}-{file.stem}" if level else file.stem
        yield tried(name, partial(_problem, file, name, level))


def _problem(file: Path, name: str, level: str) -> KernelProblem | Unread:
    text = read_text(file, "problem")
    if "class Model" not in text or "def get_inputs" not in text:
        return Unread(name=name, reason=f"{file} has no Model and get_inputs()")
    return KernelProblem(
        name=name, files={"model.py": hosted(text)}, entry="Model", tolerance=TOLERANCE, atol=ATOL,
        source=f"KernelBench {level} {file.stem}".replace("  ", " "),
        origins={"model.py": str(file)},
    )  # fmt: skip


def _order(file: Path) -> tuple[str, int, str]:
    number = file.stem.partition("_")[0]
    return str(file.parent), int(number) if number.isdigit() else 0, file.stem
