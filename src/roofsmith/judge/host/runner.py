"""Runs one kernel on one set of arguments: for profilers and for measuring ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.kernel import Built
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.ports import Arguments, KernelSession


class WorkerRunner:
    """Port `KernelRunner` over worker processes."""

    def __init__(self, isolation: Isolation | None = None) -> None:
        """Nothing starts yet.

        Args:
            isolation: the walls around kernels, where no launcher is; None: all that there are.
        """
        self._isolation = isolation

    @contextmanager
    def open(
        self,
        built: Built,
        arguments: Arguments,
        *,
        threads: int,
        call_deadline_s: float = 60.0,
        launcher: Sequence[str] = (),
    ) -> Iterator[KernelSession]:
        """A worker with the arguments staged; it ends with the block.

        Raises:
            KernelDiedError: the worker could not load the library.
        """
        worker = WorkerProcess(
            built, threads=threads, launcher=launcher, isolation=self._isolation, keeps_log=False
        )
        try:
            worker.wait_until_loaded()
            yield WorkerSession(worker, built, arguments, call_deadline_s)
        finally:
            worker.close()


class WorkerSession:
    """Port `KernelSession`: the same slot, called again and again."""

    def __init__(
        self, worker: WorkerProcess, built: Built, arguments: Arguments, call_deadline_s: float
    ) -> None:
        self._worker = worker
        self._deadline_s = call_deadline_s
        arrays = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
        names = dict(zip(arguments, built.signature.parameters, strict=True))
        specs = tuple(
            ArraySpec(name=name, role=names[name].role, dtype=names[name].dtype, shape=array.shape)
            for name, array in arrays.items()
        )
        self._arena = Arena(specs, 1)
        self._arena.prepare(0, arrays)
        self._number = worker.map(self._arena)
        worker.stage(self._number, self._arena, [0])
        self._arguments = [
            self._arena.offset(0, name) if name in arrays else cast(int, value)
            for name, value in arguments.items()
        ]

    @property
    def pid(self) -> int:
        return self._worker.pid

    def call(self, times: int) -> tuple[float, ...]:
        """Call `solve`; nothing else happens in between.

        Raises:
            KernelDiedError: the worker crashed or ran past the deadline.
        """
        calls = [self._arguments] * times
        return self._worker.run(self._number, calls, self._deadline_s * times).times_s

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        self._worker.collect(self._number, self._arena, [0])
        return {
            array.name: self._arena.view(0, array.name).copy()
            for array in self._arena.layout.arrays
            if array.role != "input"
        }
