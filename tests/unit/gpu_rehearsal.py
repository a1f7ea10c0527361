"""A GPU's slots and their reference, on the host's memory and in one process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import OperationCount
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Signature
from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Budgets, Finding
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.judge.gpu import device_arena
from roofsmith.judge.gpu.arenas import Arenas
from roofsmith.judge.gpu.launch_gate import Latch
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.reference_process import GpuServer
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.gpu.stage import Stage
from roofsmith.judge.gpu.watching import Sample

Kernel = Callable[..., None]
"""Takes the arrays of a slot by name."""


def setup(N: int, seed: int) -> dict[str, object]:
    """A reference's: one vector in, one out."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, generator=generator)
    return {"inputs": {"x": x, "y": torch.empty(N)}, "outputs": ["y"]}


class HostMemory:
    """Stands for the driver: memory that any process could map."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def alloc(self, size: int) -> int:
        """Memory of the host."""
        buffer = (ctypes.c_char * size)()
        address = ctypes.addressof(buffer)
        self._held[address] = buffer
        return address

    def give(self, base: int) -> bytes:
        """A handle."""
        return base.to_bytes(8, "little")

    def free(self, base: int) -> None:
        """Forget it."""
        del self._held[base]

    def wait(self) -> None:
        """Nothing runs by itself."""


class Event:
    """Stands for a device's: no time passes."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Now."""

    def query(self) -> bool:
        """Whether it has passed."""
        return False

    def synchronize(self) -> None:
        """It has passed."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        return 0.0


class Watch:
    """Looks when calls are done: here, nothing can be queued."""

    def __init__(self) -> None:
        self._sample: Sample | None = None

    @contextlib.contextmanager
    def queued(self, sample: Sample) -> Iterator[None]:
        """Later."""
        self._sample = sample
        yield

    def see(self, latch: Latch, turn: int, patience_s: float) -> float | None:
        """Let calls go and look."""
        assert self._sample is not None
        latch.release(turn)
        is_done = latch.is_done(turn, patience_s)
        self._sample.look()
        return time.perf_counter() if is_done else None


def bytes_of_host(address: int, size: int) -> torch.Tensor:
    """Stands for `bytes_at`."""
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)


class Oracle:
    """Answers as the reference's process would, without one."""

    is_alive, starts = True, 0

    def __init__(self, server: GpuServer, workload: Workload) -> None:
        self.server = server
        self._workload = workload
        self._tolerated: Tolerated | None = None

    def describe(self, workload: Workload) -> WorkloadDescription:
        """Arrays of a workload."""
        told = self.server.describe({"dims": workload.dims})
        arrays = tuple(
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"])) for a in told["arrays"]
        )
        return WorkloadDescription(
            arrays, told["scalars"], told["flops"], told["bytes"], told["atol"], told["rtol"],
            tuple(told["arguments"]), OperationCount.model_validate(told["counted"]),
            told["written_bytes"],
        )  # fmt: skip

    def ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """One message and its answer; descriptors are sent as copies."""
        return self.server.answer({"op": op, **message}, [os.dup(fd) for fd in fds])

    def tolerated(self) -> Tolerated:
        """The distributions that the operator tolerates."""
        if self._tolerated is None:
            found = self.ask("explore", {"dims": self._workload.dims})
            self._tolerated = Tolerated.model_validate(found)
        return self._tolerated


class Rehearsal:
    """One workload's slots; kernels are Python functions over tensors."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        setup: Callable[..., dict[str, Any]] | None,
        reference: Callable[..., None],
        dims: Mapping[str, int],
        slots: int = 3,
        signature: Signature | None = None,
    ) -> None:
        monkeypatch.setattr(device_arena, "bytes_at", bytes_of_host)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(Arenas, "_reserve", lambda arenas: None)
        monkeypatch.setattr(Arenas, "_free_bytes", lambda arenas: 2**40)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        module = ModuleType("reference")
        module.setup, module.reference = setup, reference  # type: ignore[attr-defined]
        self.server = GpuServer()
        self.server._reference = made = GpuReference(
            module, None, signature or Signature(parameters=()), None, tf32=False, device="cpu"
        )
        arenas, watch = Arenas(HostMemory()), Watch()  # type: ignore[arg-type]
        self.server._stage = Stage(made, arenas, watch, None, self.server._on)  # type: ignore[arg-type]
        self.arenas = arenas
        workload = Workload(dims=dict(dims))
        self.slots = Slots(Oracle(self.server, workload), 0, workload, slots)  # type: ignore[arg-type]
        self.budgets = Budgets(Tolerance())

    def draw(self) -> None:
        """Fresh inputs in all slots."""
        every = range(self.slots.count)
        self.slots.draw(every, [secrets.randbits(31) for _ in every])
        self.slots.fill(every)

    def run(self, kernel: Kernel, slot: int, number: int = 0) -> None:
        """One call on a slot of an arena."""
        arena = self.arenas[number]
        kernel(**{a.name: arena.view(slot, i) for i, a in enumerate(arena.layout.arrays)})

    def turn(self, kernel: Kernel, *, exact: bool = True) -> list[Finding]:
        """Fresh inputs, a call on every slot, and what was found."""
        self.draw()
        for slot in range(self.slots.count):
            self.run(kernel, slot)
        known = self.budgets.knows(self.slots.workload.label, self.slots.outputs)
        lost = set()
        for slot in range(self.slots.count if exact else 0 if known else 1):
            # Every draw has an honest error of its own, and a meaning of its own to lose.
            self.slots.learn(slot, self.budgets)
            if not self.slots._counts:
                lost.add(slot)
        self.slots._counts = len(lost) < self.slots.count  # else nothing was learned, maybe ever
        found = self.slots.verify(range(self.slots.count), self.budgets, exact=exact)
        return [
            replace(finding, failure=None, counts=False) if slot in lost else finding
            for slot, finding in enumerate(found)
        ]
