"""Whether a GPU kernel repeats itself: two fresh processes, one call each, side by side, compared
bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Built
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Arguments, KernelDiedError, KernelRunner, Oracle
from roofsmith.profilers.attempts import SEED

CALL_DEADLINE_S = 60.0
"""For a call, which compiles first where the kernel is a module."""
_UNKNOWN = "whether it repeats itself is not known"


@dataclass(frozen=True, slots=True)
class RepeatInspector:
    """Port `Inspector` where no sanitizer knows the language: Triton, PyTorch, HIP."""

    runner: KernelRunner
    oracle: Oracle
    threads: int = 1

    def inspect(self, built: Built, workload: Workload) -> Inspection:
        """Two calls, each in a process of its own; no tool has a say.

        What can't be seen is a note, never an exception.
        """
        try:
            arguments = self.oracle.inputs(workload, SEED)
        except RoofsmithError as error:
            note = f"{_UNKNOWN}: there are no inputs: {error.message}"
            return Inspection(workload=workload.label, reports=(), notes=(note,))
        repeatable, note = repeats(self.runner, built, arguments, threads=self.threads)
        return Inspection(workload=workload.label, reports=(), repeatable=repeatable, notes=(note,))


def repeats(
    runner: KernelRunner,
    built: Built,
    arguments: Arguments,
    *,
    threads: int,
    deadline_s: float = CALL_DEADLINE_S,
) -> tuple[bool | None, str]:
    """Whether two fresh processes make the same of the same inputs, and a sentence that says so.

    One process called twice would not do: its second call finds the first one's outputs.

    Returns:
        None first where it isn't known.
    """

    def outputs(_: int) -> Mapping[str, NDArray[np.generic]]:
        with runner.open(built, arguments, threads=threads, call_deadline_s=deadline_s) as session:
            session.call(1)
            return session.outputs()

    try:
        with ThreadPoolExecutor(2) as both:
            first, second = both.map(outputs, range(2))
    except KernelDiedError as died:
        return None, f"{_UNKNOWN}: {died}"
    if not first:
        return None, f"{_UNKNOWN}: it has no outputs to compare"
    different = [name for name in first if _bits(first[name]) != _bits(second[name])]
    if different:
        names = ", ".join(different)
        return False, f"two runs on the same inputs differ in {names}: it is not deterministic"
    return True, "two runs on the same inputs made the same outputs, bit for bit"


def _bits(array: NDArray[np.generic]) -> bytes:
    return np.ascontiguousarray(array).tobytes()
