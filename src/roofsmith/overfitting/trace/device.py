"""Libraries of CUDA and HIP while steps are run: `solve` with device pointers, call by call."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Built
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.layout import host_spec, lay_out
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.overfitting.trace.processes import CALL_DEADLINE_S, ArenaRunner
from roofsmith.scratch import scratch_directory


class DeviceRunner(ArenaRunner):
    """Every call finds its arrays where the last did, in device memory: new activations lie where
    the old ones lay, and weights were changed in place."""

    def __init__(
        self,
        built: Built,
        described: WorkloadDescription,
        *,
        api: Api,
        cache_dir: Path | None,
        isolation: Isolation | None,
    ) -> None:
        """Start the worker and load the library.

        Raises:
            KernelDiedError: it can't be loaded.
        """
        memory = lay_out(described.arrays)
        host = tuple(map(host_spec, described.arrays))
        with contextlib.ExitStack() as opened:
            self._arena = opened.enter_context(
                contextlib.closing(Arena(host, 1, layout=replace(memory, arrays=host)))
            )
            worker = GpuWorkerProcess(
                built, api=api, cache_dir=cache_dir or scratch_directory("compiled"),
                fork_server=None, isolation=isolation, keeps_log=False,
            )  # fmt: skip
            self._worker = opened.enter_context(contextlib.closing(worker))
            worker.wait_until_loaded()
            offsets = {a.name: o for a, o in zip(memory.arrays, memory.offsets, strict=True)}
            self._number = worker.own(self._arena, _arguments(described, offsets))
            self._opened = opened.pop_all()

    def _call_s(self) -> float:
        self._worker.renew(self._number)
        segment = self._worker.run_slots(self._number, [0], warm=(), deadline_s=CALL_DEADLINE_S)
        self._worker.take_back(self._number)
        return segment.elapsed_s


def _arguments(described: WorkloadDescription, offsets: dict[str, int]) -> list[dict[str, Any]]:
    arrays = {a.name: a for a in described.arrays}
    return [
        {
            "name": name, "offset": offsets[name], "dtype": arrays[name].dtype,
            "shape": list(arrays[name].shape),
        }
        if name in arrays
        else {"name": name, "value": described.scalars[name]}
        for name in described.arguments
    ]  # fmt: skip
