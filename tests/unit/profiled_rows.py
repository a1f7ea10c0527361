"""Inputs for kernels over rows that tests watch, and two ways in which watching them fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from process_runner import ProcessRunner, ProcessSession

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.outcome import Crashed
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError
from roofsmith.ports import KernelDiedError

WORKLOAD = Workload(dims={"N": 256, "D": 64})


class RowsOracle:
    """N rows of D float32 values in `x`, and as many zeros in `y`."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        raise BadReferenceError("not needed by profilers")

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        shape = workload.dims["N"], workload.dims["D"]
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        return {"x": x, "y": np.zeros_like(x), **workload.dims}


class BrokenOracle(RowsOracle):
    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        raise BadReferenceError("reference.py:3: no setup for these dims")


class DyingRunner(ProcessRunner):
    @contextmanager
    def open(self, *_: object, **__: object) -> Iterator[ProcessSession]:
        raise KernelDiedError(Crashed(reason="signal", detail="SIGSEGV in solve"))
        yield  # a generator, as the port wants
