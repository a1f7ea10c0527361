"""Which sets can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from roofsmith.targets.problem_sets import atrex, definitions, gpu_mode, kernel_arena, kernelbench
from roofsmith.targets.problem_sets.problem import Problem, Unread

READERS: Final[Mapping[str, Callable[[Path], Iterator[Problem | Unread]]]] = {
    "kernelbench": kernelbench.read,
    "sol-execbench": definitions.read,
    "flashinfer": definitions.read,
    "atrex-bench": atrex.read,
    "gpu-mode": gpu_mode.read,
    "agentkernelarena": kernel_arena.read,
}
