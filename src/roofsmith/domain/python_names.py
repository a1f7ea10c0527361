"""What a kernel's parameters are called in Python: `in` and `lambda` are words of the language."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping
from typing import TypeVar

T = TypeVar("T")


def python_name(name: str, taken: Collection[str] = ()) -> str:
    """A parameter's name; `in_` where Python, or somebody in `taken`, has it for something else."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def as_arguments(values: Mapping[str, T]) -> dict[str, T]:
    """Arguments by a kernel's names, by those that a function in Python can have."""
    return {python_name(name): value for name, value in values.items()}
