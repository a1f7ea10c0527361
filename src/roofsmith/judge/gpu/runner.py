"""Runs one GPU kernel on one set of arguments: for profilers and for measuring ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.layout import host_spec, kernel_dtype, lay_out
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.ports import Arguments, KernelSession
from roofsmith.scratch import scratch_directory


class GpuRunner:
    """Port `KernelRunner` on the first visible device."""

    def __init__(
        self,
        api: Api = "cuda",
        cache_dir: Path | None = None,
        isolation: Isolation | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            api: of the device's driver.
            cache_dir: holds a compilation cache per candidate; None: a new folder, which goes when
                this process is gone and another one clears up.
            isolation: the walls around kernels, where no launcher is; None: all that there are.
            fork_server: starts workers for modules where no launcher is; None: each imports torch.
        """
        self._isolation = isolation
        self._api: Api = api
        self._fork_server = fork_server
        self._cache_dir = cache_dir or scratch_directory("compiled")

    @contextmanager
    def open(
        self,
        built: Built,
        arguments: Arguments,
        *,
        threads: int = 1,  # noqa: ARG002
        call_deadline_s: float = 60.0,
        launcher: Sequence[str] = (),
    ) -> Iterator[KernelSession]:
        """A worker with the arguments on the device; it ends with the block.

        `threads` means nothing on a GPU: a kernel may use all of it.

        Raises:
            KernelDiedError: the worker could not load the kernel.
        """
        worker = GpuWorkerProcess(
            built, api=self._api, cache_dir=self._cache_dir, fork_server=self._fork_server,
            launcher=launcher, isolation=self._isolation, keeps_log=False,
        )  # fmt: skip
        try:
            worker.wait_until_loaded()
            yield GpuSession(worker, built, arguments, call_deadline_s)
        finally:
            worker.close()


class GpuSession:
    """Port `KernelSession`: the same device memory, called again and again."""

    def __init__(
        self, worker: GpuWorkerProcess, built: Built, arguments: Arguments, call_deadline_s: float
    ) -> None:
        self._worker = worker
        self._deadline_s = call_deadline_s
        arrays = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
        parameters = dict(zip(arguments, built.signature.parameters, strict=False))
        specs = tuple(
            ArraySpec(
                name=name,
                role=parameters[name].role if name in parameters else "inout",
                dtype=parameters[name].dtype if name in parameters else kernel_dtype(array.dtype),
                shape=array.shape,
            )
            for name, array in arrays.items()
        )
        layout = lay_out(specs)
        host = tuple(host_spec(spec) for spec in specs)
        self._arena = Arena(host, 1, layout=replace(layout, arrays=host))
        self._arena.prepare(0, arrays)
        offsets = dict(zip(arrays, layout.offsets, strict=True))
        dtypes = {spec.name: spec.dtype for spec in specs}
        self._number = worker.own(
            self._arena,
            [
                {
                    "name": name, "offset": offsets[name], "dtype": dtypes[name],
                    "shape": list(arrays[name].shape),
                }
                if name in arrays
                else {"name": name, "value": value}
                for name, value in arguments.items()
            ],
        )  # fmt: skip
        self._modules = built.language in MODULE_LANGUAGES
        self._called = False

    @property
    def pid(self) -> int:
        return self._worker.pid

    def call(self, times: int) -> tuple[float, ...]:
        """Call the kernel; the mean time by events, once for every call.

        A profiler around the worker sees all but the first of these.

        Raises:
            KernelDiedError: it crashed or ran past the deadline.
        """
        limit_s = self._deadline_s * (times + 1)
        if self._modules and not self._called:  # the first call compiles
            self._run([], [0], limit_s)
        mean_s = self._run([0] * times, [], limit_s, profile=self._called) / times
        self._called = True
        return (mean_s,) * times

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        self._worker.take_back(self._number)
        return {
            array.name: self._arena.view(0, array.name).copy()
            for array in self._arena.layout.arrays
            if array.role != "input"
        }

    def _run(
        self, slots: Sequence[int], warm: Sequence[int], limit_s: float, *, profile: bool = False
    ) -> float:
        segment = self._worker.run_slots(
            self._number, slots, warm=warm, deadline_s=limit_s, profile=profile
        )
        return segment.elapsed_s
