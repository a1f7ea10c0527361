"""Who writes the first kernel in a language: one place to register another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roofsmith.computation.graph import Graph
from roofsmith.domain.kernel import KernelLanguage
from roofsmith.targets.pytorch.program import Program


@dataclass(frozen=True)
class Backend:
    """Writes kernels of one language."""

    file: str
    """The kernel's."""
    render: Callable[[Graph, Program], str] | None
    """Its source, whose entry takes the program's inputs, weights, results and dims, in this
    order; None: the program itself, called as it is."""


BACKENDS: Mapping[KernelLanguage, Backend] = {
    "torch": Backend("kernel.py", None),
}
