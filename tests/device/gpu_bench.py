"""What the tests on a real GPU share: skips where there is none, toolchain, runner and inputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Environment
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, MachineError
from roofsmith.machine.cpu import build_slots
from roofsmith.machine.nvidia import NvidiaSource
from roofsmith.toolchains.cuda import CudaToolchain
from roofsmith.toolchains.cuda_toolkit import find_toolkit

FOLDER = Path(__file__).parent / "bottlenecks"


@functools.cache
def _environment() -> Environment | MachineError:
    try:
        return NvidiaSource().environment()
    except MachineError as error:
        return error


def environment_or_skip() -> Environment:
    """This machine's GPU; the test is skipped where there is none."""
    found = _environment()
    if isinstance(found, MachineError):
        pytest.skip(found.message)
    return found


def nvcc_or_skip() -> list[str]:
    """The beginning of a command line of the nvcc that the toolchain finds; skips without one."""
    try:
        toolkit = find_toolkit()
    except MachineError as error:
        pytest.skip(error.message)
    return [str(toolkit.compiler.path), *(f"-I{folder}" for folder in toolkit.includes)]


def build(name: str, cache: Path) -> Built:
    """One of the kernels in `bottlenecks/`, for this machine's GPU."""
    (built,) = build_all([name], cache)
    return built


def build_all(names: Sequence[str], cache: Path) -> list[Built]:
    """Several of them, side by side."""
    candidates = [
        Candidate(
            language="cuda",
            sources=(SourceFile(path=f"{n}.cu", text=(FOLDER / f"{n}.cu").read_text()),),
        )
        for n in names
    ]
    toolchain = CudaToolchain(cache, environment_or_skip().device, at_once=build_slots())
    made = []
    for built in toolchain.build_all(candidates):
        assert isinstance(built, Built), built.detail
        made.append(built)
    return made


class RandomVector:
    """Port `Oracle`, as far as profilers need it: x random, y empty, N elements of each."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        raise BadReferenceError("profilers don't ask")

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        size = workload.dims["N"]
        x = np.random.default_rng(seed).random(size, dtype=np.float32)
        return {"x": x, "y": np.zeros_like(x), "N": size}
