"""How candidates are formatted before they are built, and what that changed of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.values import Value

FormatTool = Literal["clang-format", "ruff", "command"]

FORMATTED: Mapping[FormatTool, frozenset[str]] = {
    "clang-format": frozenset((
        ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hip", ".hpp", ".hxx", ".inl",
    )),
    "ruff": frozenset((".py", ".pyi")),
}  # fmt: skip
"""Suffixes that a tool knows what to do with; a command says so itself."""


class FormatSpec(Value):
    """A formatter, frozen with its configuration."""

    tool: FormatTool
    command: str = ""
    """Shell command of the tool `command`; `{files}` stands for the files that changed."""
    config: SourceFile | None = None
    """What the tool was configured with, in the folder of the kernel or above; None: its own
    default style, or a command that needs none."""


class Formatting(Value):
    """What formatting made of a proposed candidate."""

    tool: FormatTool
    proposed_id: str
    """The candidate as it was proposed; another one than was judged where files changed."""
    changed: tuple[str, ...] = ()
    """Files that were rewritten."""
    note: str | None = None
    """Why the candidate was judged as it was proposed; None where it wasn't."""
