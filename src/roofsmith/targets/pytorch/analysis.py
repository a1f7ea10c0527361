"""The text of analysis.md: what a program computes, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.targets.pytorch.program import KernelArray, PyTorchProgram
from roofsmith.targets.pytorch.text import sized


def analysis_text(program: PyTorchProgram, origin: str, computation: Sequence[str]) -> str:
    """A page for people.

    Args:
        program: what was found.
        origin: the user's file.
        computation: what it computes, line by line, as `roofsmith explain` tells it.
    """
    rows: list[tuple[str, KernelArray]] = [
        *(("input" if not one.is_changed else "input, changed", one) for one in program.inputs),
        *((f"weight `{one.weight}`", one) for one in program.weights),
        *(("result", one) for one in program.results),
    ]
    lines = [
        f"# `{program.name}` of {origin}",
        "",
        "## Arrays, in the kernel's order",
        "",
        "| array | what | type | shape |",
        "|---|---|---|---|",
        *(f"| `{one.name}` | {what} | {one.dtype} | `{sized(one.shape)}` |" for what, one in rows),
        "",
        "## Sizes",
        "",
        "| dim | get_inputs() gives |",
        "|---|---|",
        *(f"| {name} | {size} |" for name, size in program.dims.items()),
        "",
        "Judged on " + "; ".join(
            ", ".join(f"{name}={size}" for name, size in dims.items()) for dims in program.workloads
        ) + ".",
        "",
        "## What is computed",
        "",
        "As `roofsmith explain` tells it: the kind, each operation with its shape, the counts.",
        "",
        "```",
        *computation,
        "```",
        *(["", "## Notes", "", *(f"- {note}" for note in program.notes)] if program.notes else []),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
