"""Whether a sanitizer's silence means anything: it must find what is known to be wrong elsewhere.

A tool that can't see into a process says that all is well there, in so many words. So nothing is
called clean before the same tool, started in the same way, has found the defect of a kernel that
has one of its kind.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

from roofsmith.domain.inspection import InspectionFound, SanitizerTool, ToolReport, Unavailable
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Arguments

ELEMENTS = 4096
"""Of the arrays that a defective kernel is given."""


@dataclass(slots=True)
class Proof:
    """Which tools have found the defect of their kernel; who hasn't is tried again each time."""

    build: Callable[[Candidate], Built | BuildFailed]
    _proven: set[SanitizerTool] = field(default_factory=set)
    _locks: defaultdict[SanitizerTool, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )
    """Tools look side by side; none is tried twice at once."""

    def doubt(
        self, tool: SanitizerTool, run: Callable[[Built, Arguments], ToolReport]
    ) -> str | None:
        """Why the tool's silence says nothing; None if it does."""
        with self._locks[tool]:
            if tool in self._proven:
                return None
            doubt = self._tried(run, defective(tool))
            if doubt is None:
                self._proven.add(tool)
            return doubt

    def _tried(
        self, run: Callable[[Built, Arguments], ToolReport], kernel: Candidate
    ) -> str | None:
        try:
            built = self.build(kernel)
        except RoofsmithError as error:
            return f"what it can see is unknown: {error.message}"
        if isinstance(built, BuildFailed):
            return f"what it can see is unknown: {kernel.sources[0].path} didn't build"
        x, y = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
        report = run(built, {"x": x, "y": y, "N": ELEMENTS})
        match report:
            case InspectionFound():
                return None
            case Unavailable():
                return f"what it can see is unknown: {report.reason}"
            case _:
                return (
                    "it can't see into the worker: it found nothing in a kernel that has a defect"
                    f" of its kind ({kernel.sources[0].path}); try another version of it"
                )


def defective(tool: SanitizerTool) -> Candidate:
    """A kernel with a defect that this tool is there for: `solve(const float* x, float* y, N)`.

    None waits for the device, as few kernels do: whether the worker waits so that tools see what
    ran is a part of what is proven.
    """
    path = f"{tool}.cu"
    text = files("roofsmith.profilers").joinpath("defects", path).read_text(encoding="utf-8")
    return Candidate(language="cuda", sources=(SourceFile(path=path, text=text),))
