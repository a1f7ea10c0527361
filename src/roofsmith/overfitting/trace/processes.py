"""Kernels and their reference while steps are run, seen from the parent."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, Self

import psutil

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built, Signature
from roofsmith.domain.outcome import Crashed
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import KeptValue
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.booting import Process, boot, worker_environment
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.layout import host_spec
from roofsmith.judge.gpu.process import module_caches, server_environment
from roofsmith.judge.host.arena import Arena, lay_out
from roofsmith.judge.host.oracle import MEMORY_SHARE, ReferenceProcess
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.ports import KernelDiedError

CALL_DEADLINE_S = 60.0
"""For one call; the first one may compile."""
LOAD_DEADLINE_S = 120.0
"""For importing PyTorch and the module."""


class StepsReference(ReferenceProcess):
    """The target's reference, for steps: on the host, or on the device that modules run on."""

    module = "roofsmith.overfitting.trace.reference_process"

    def __init__(self, target: Target, signature: Signature, device: str | None) -> None:
        super().__init__(target, signature)
        self._device = device

    def _load(self, path: Path) -> None:
        kernel = self.target.kernel if self.target.language in MODULE_LANGUAGES else None
        message = {
            "path": str(path),
            "signature": self.signature.model_dump(mode="json"),
            "ptr_size": self.target.ptr_size,
            "memory_bytes": int(psutil.virtual_memory().total * MEMORY_SHARE),
            "device": self._device,
            "kernel": str(self._written(kernel, "kernel")) if kernel is not None else None,
            "tf32": self.target.tf32,
            **self._extensions,
        }
        self.ask("load", message)


class LentReference:
    """The reference in the process that the judge asks: none has to be started for steps."""

    def __init__(self, oracle: ReferenceProcess) -> None:
        self._oracle = oracle

    def __enter__(self) -> Self:
        """It is there, and does nothing but what it is asked: steps are timed."""
        self._oracle.rest()
        return self

    def __exit__(self, *why: object) -> None:
        """Have it forget the steps; a process that died has."""
        with contextlib.suppress(BadReferenceError):
            if self._oracle.is_alive:
                self.ask("done", {})

    def described(self, workload: Workload) -> WorkloadDescription:
        """As `ReferenceProcess.described`."""
        return self._oracle.described(workload)

    def ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """As `ReferenceProcess.ask`."""
        return self._oracle.ask("steps", {"step": {"op": op, **message}}, fds)


@dataclass(frozen=True, slots=True)
class StepSeen:
    """What a call came to, by the worker's own word."""

    time_s: float
    sites: Mapping[int, tuple[bool, bool]] = field(default_factory=dict)
    """By number of the kept value: whether it was looked up, and whether it was stored."""


class Runner(Protocol):
    """A kernel that steps are run with."""

    def call(self, inputs: Arena, weights: Sequence[str], *, changed: bool) -> StepSeen:
        """Call it on these inputs; its outputs lie in their arena afterwards.

        Args:
            inputs: one slot, with room for the outputs.
            weights: inputs that are the same arrays as in the call before.
            changed: whether the weights hold something else than before.

        Raises:
            KernelDiedError: it crashed, raised, or ran past its deadline.
        """
        ...

    def close(self) -> None: ...


class ArenaRunner(ABC):
    """`solve` of a library: every call finds its arrays where the last did."""

    _arena: Arena
    _opened: contextlib.ExitStack

    def call(self, inputs: Arena, weights: Sequence[str], *, changed: bool) -> StepSeen:  # noqa: ARG002
        """See `Runner`; all arrays are written before, and read behind it."""
        arrays = self._arena.layout.arrays
        self._arena.prepare(0, {a.name: inputs.view(0, a.name) for a in arrays if a.is_given})
        time_s = self._call_s()
        for array in arrays:
            if array.is_result:
                inputs.view(0, array.name)[...] = self._arena.view(0, array.name)
        return StepSeen(time_s)

    def close(self) -> None:
        """See `Runner`."""
        self._opened.close()

    @abstractmethod
    def _call_s(self) -> float:
        """Call it once on what the arena holds."""


class LibraryRunner(ArenaRunner):
    def __init__(
        self,
        built: Built,
        described: WorkloadDescription,
        threads: int,
        isolation: Isolation | None,
    ) -> None:
        with contextlib.ExitStack() as opened:
            self._arena = opened.enter_context(contextlib.closing(Arena(described.arrays, 1)))
            self._worker = opened.enter_context(
                contextlib.closing(
                    WorkerProcess(built, threads=threads, isolation=isolation, keeps_log=False)
                )
            )
            self._worker.wait_until_loaded()
            self._number = self._worker.map(self._arena)
            self._opened = opened.pop_all()
        arrays = iter(described.arrays)
        numbers = iter(described.numbers.values())
        self._arguments = [
            next(numbers) if p.role == "size" else self._arena.offset(0, next(arrays).name)
            for p in built.signature.parameters
        ]

    def _call_s(self) -> float:
        self._worker.stage(self._number, self._arena, [0])
        segment = self._worker.run(self._number, [self._arguments], CALL_DEADLINE_S)
        self._worker.collect(self._number, self._arena, [0])
        return segment.times_s[0]


class ModuleProcess(WorkerProcess):
    """The process of a Python module that steps are run with."""

    def __init__(
        self, built: Built, *, threads: int, device: str, sites: Sequence[KeptValue],
        cache_dir: Path | None, isolation: Isolation | None, root: Path | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:  # fmt: skip
        """Start the process; `wait_until_loaded` before anything else.

        Args:
            built: the module.
            threads: that it may use on the host.
            device: `cpu` or `cuda`.
            sites: kept values whose hits are counted.
            cache_dir: what is compiled lies there, a folder per candidate; None: nothing is kept.
            isolation: the walls around it; None: all that the host grants.
            root: folder that it may import from, and that the sites' paths are relative to; None:
                it is a file of its own, and so are they.
            fork_server: has imported PyTorch; None: the process imports it.

        Raises:
            KernelDiedError: it died at once.
        """
        self._device = device
        self._fork_server = fork_server
        self._root = root
        self._sites = [
            {
                "name": s.name, "looked_up": list(s.looked_up), "stored": list(s.stored),
                "path": str(built.library if root is None else root / s.path),
            }
            for s in sites
        ]  # fmt: skip
        self._cache_dir = cache_dir / built.candidate_id if cache_dir is not None else None
        self.needs_sockets = device != "cpu"
        super().__init__(built, threads=threads, isolation=isolation)

    def _spawn(
        self, theirs: socket.socket, output: IO[bytes], threads: int, launcher: Sequence[str]
    ) -> Process:
        own = {"HOME": str(self._scratch)}
        if self._cache_dir is not None:
            own |= module_caches(self._cache_dir)
        environment = {
            **worker_environment(self._built, threads), **server_environment(), **own,
            **self._built.environment,
        }  # fmt: skip
        module = "roofsmith.overfitting.trace.worker"
        if self._fork_server is not None:
            return self._fork_server.spawn(
                theirs, cwd=self._scratch, log=self.log, environment=environment, module=module
            )
        return boot(
            module, theirs, output, cwd=self._scratch, environment=environment,
            launcher=launcher, bare=False,
        )  # fmt: skip

    def _begin_load(self, threads: int) -> None:  # noqa: ARG002
        # PyTorch maps far more addresses than it uses, so no limit on them.
        self._say("start", self._plan(None, None))

    def wait_until_loaded(self) -> None:
        """Import the module.

        Raises:
            KernelDiedError: it can't be imported.
        """
        self._hear_start()
        self._deadline_s = LOAD_DEADLINE_S
        root = None if self._root is None else str(self._root)
        message = {"device": self._device, "sites": self._sites, "root": root}
        self.told("load", {**self._kernel(), **message})
        self._deadline_s = CALL_DEADLINE_S

    def _plan(self, processors: list[int] | None, memory_bytes: int | None) -> dict[str, Any]:
        plan = super()._plan(processors, memory_bytes)
        if self._root is not None and plan["isolation"] is not None:
            plan["isolation"]["readable"].append(str(self._root))
        return plan

    @property
    def _is_python(self) -> bool:
        return True

    def _writable(self) -> tuple[Path, ...]:
        return (self._cache_dir,) if self._cache_dir is not None else ()

    def told(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """A message's answer, unless it is an error.

        Raises:
            KernelDiedError: it is one, or none came.
        """
        answer = self.ask(op, message, fds=fds)
        if "error" in answer:
            reason = "load_failed" if op == "load" else "raised"
            raise self._died(Crashed(reason=reason, detail=str(answer["error"])))
        return answer

    def garbled(self, answer: object) -> KernelDiedError:
        """What an answer in another form than was asked for means."""
        detail = f"the worker answered {str(answer)[:200]}"
        return self._died(Crashed(reason="garbled_answer", detail=detail))


class ModuleRunner:
    """`run_kernel` of a module: new tensors for activations, the same ones for weights."""

    def __init__(self, process: ModuleProcess, described: WorkloadDescription) -> None:
        self._process = process
        self._mapped: Arena | None = None
        self._described = described

    def call(self, inputs: Arena, weights: Sequence[str], *, changed: bool) -> StepSeen:
        if self._mapped is not inputs:
            message = {"size": inputs.size_bytes, "arguments": self._arguments(inputs)}
            self._process.told("map", message, fds=(inputs.fd,))
            self._mapped = inputs
        answer = self._process.told("run", {"weights": list(weights), "changed": changed})
        took_ns, seen = answer.get("took_ns"), answer.get("seen")
        if type(took_ns) is not int or not 0 < took_ns < 10**15 or not isinstance(seen, list):
            raise self._process.garbled(answer)
        return StepSeen(took_ns * 1e-9, {n: _told(one) for n, one in enumerate(seen)})

    def _arguments(self, arena: Arena) -> list[dict[str, Any]]:
        arrays = {a.name: a for a in self._described.arrays}
        return [
            {
                "name": name, "role": arrays[name].role, "dtype": arrays[name].dtype,
                "shape": list(arrays[name].shape), "offset": arena.offset(0, name),
                "bytes": arrays[name].size_bytes,
            }
            if name in arrays
            else {"name": name, "value": self._described.scalars[name]}
            for name in self._described.arguments
        ]  # fmt: skip

    def close(self) -> None:
        """Whoever started its process ends it."""


def exchange(described: WorkloadDescription) -> Arena:
    """Memory for one set of a workload's arrays, as NumPy can hold them."""
    arrays = tuple(map(host_spec, described.arrays))
    return Arena(arrays, 1, layout=replace(lay_out(arrays), arrays=arrays))


def _told(one: object) -> tuple[bool, bool]:
    """Whether a kept value was looked up and stored, if a worker says so as it was asked to."""
    if not isinstance(one, dict):
        return False, False
    return bool(one.get("looked_up")), bool(one.get("stored"))
