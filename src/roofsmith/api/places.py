"""Where kernels run, with every part that depends on it: the host's processors, or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from roofsmith.domain.device import Device, Environment
from roofsmith.domain.health import Health
from roofsmith.domain.held_out import HeldOut
from roofsmith.domain.kernel import Language, Signature
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import Survey, threads_for
from roofsmith.evaluator.guard import Guard
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.lineup import GpuBench
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.judge.timing.bench import Bench
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.probes import processor_time
from roofsmith.overfitting.trace.command import CommandTracer
from roofsmith.overfitting.trace.tracer import StepTracer
from roofsmith.ports import (
    Clock,
    DeviceSource,
    Disassembler,
    Inspector,
    Judge,
    KernelRunner,
    Profiler,
    Toolchain,
    Tracer,
)
from roofsmith.profilers.cpu import CpuProfiler
from roofsmith.profilers.disassembly import HostDisassembler
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.proof import Proof
from roofsmith.profilers.repeatability import RepeatInspector
from roofsmith.profilers.sanitizer import SanitizerInspector
from roofsmith.profilers.watching import Watcher
from roofsmith.specs.cited import CitedCeilings
from roofsmith.toolchains.disassembly import GpuDisassembler

YARDSTICK_SWEEPS = 64
"""Per pair of processes: torch.compile takes 5 to 60 s in each, for which two processes may differ
by 0.4%."""


@dataclass(frozen=True, slots=True)
class _Parts:
    clock: Clock
    devices: DeviceSource
    specs: CitedCeilings
    toolchain: Toolchain
    runner: KernelRunner
    isolation: Isolation
    """The walls around kernels."""
    compiled_dir: Path
    """Compilation caches of kernels that are compiled when they run."""

    def judge(self, target: Target, bench: Bench[Any], known: Survey, **how: Any) -> ProcessJudge:
        """Who decides about candidates; about yardsticks, without confirming what they win."""
        return ProcessJudge(target, bench, known.classes, known.bounds, **how)

    def judge_elsewhere(
        self, target: Target, bench: Bench[Any], known: Survey, workloads: tuple[Workload, ...]
    ) -> Judge:
        """Who decides on held-out workloads alone, whose rooflines nobody knows."""
        few = copy(bench)
        cast(Any, few).near_workloads = 0
        classes = HeldOut(salt="", workloads=workloads).classes
        there = target.model_copy(update={"workloads": workloads})
        return self.judge(there, few, replace(known, classes=classes, bounds=()), untimed="own")

    def _traced(self, target: Target, known: Survey, **where: Any) -> Tracer:
        where |= {"threads": known.threads, "isolation": self.isolation}
        if target.command is not None:
            return CommandTracer(target, target.command, **where).trace
        return StepTracer(target, known.signature, **where).trace


@dataclass(frozen=True, slots=True)
class HostPlace(_Parts):
    """The host's processors."""

    gpu = gate = None

    @property
    def guard(self) -> Guard:
        """Around every use of them: what a host takes away of them is told."""
        return Guard(processor_times=processor_time)

    def let_go(self) -> None:
        """They are everybody's."""

    def oracle(self, target: Target, signature: Signature, *_: object) -> ReferenceOracle:
        """The reference on the processors."""
        return ReferenceOracle(target, signature, self.compiled_dir)

    def bench(
        self, target: Target, oracle: Any, environment: Environment, *_: object
    ) -> AbstractContextManager[Bench[Any]]:
        """Kernels in turns on the processors."""
        cache_bytes = environment.device.last_level_cache_bytes
        threads = threads_for(target, environment)
        return nullcontext(
            HostBench(oracle, target.tolerance, threads, cache_bytes, self.isolation)
        )

    def yardstick_bench(self, *_: object) -> AbstractContextManager[None]:
        """Yardsticks are a GPU's."""
        return nullcontext()

    def profiler(self, oracle: Any, known: Survey, left: Path) -> CpuProfiler:  # noqa: ARG002
        """Perf, or what stands in for it."""
        watcher = Watcher(self.runner, oracle, known.threads)
        return CpuProfiler(watcher, build=self.toolchain.build)

    def disassembler(self, profiler: Any) -> Disassembler:
        """Hot loops, where the profiler has seen a kernel run."""
        return HostDisassembler(profiler.watcher).disassemble

    def inspectors(self, *_: object) -> tuple[None, None]:
        """Nobody: kernels run behind walls, and what they write is looked at after each call."""
        return None, None

    def tracer(self, target: Target, oracle: Any, known: Survey, *_: object) -> Tracer:
        """Steps on the processors."""
        if target.command is not None:
            return self._traced(target, known, cache_dir=None)
        return self._traced(target, known, cache_dir=None, device="cpu", api=None, oracle=oracle)


@dataclass(frozen=True, slots=True)
class GpuPlace(_Parts):
    """A GPU, which is leased as long as something is measured on it."""

    gpu: Device
    gate: GpuGate | None = None
    """In front of it; None: nothing may be measured there."""

    @property
    def guard(self) -> Guard:
        """Around every use of it: its gate."""
        return Guard(self.gate)

    def let_go(self) -> None:
        """Nothing is measured for now: others may have their turns."""
        if self.gate is not None:
            self.gate.let_go()

    @property
    def api(self) -> Api:
        """How its driver is called."""
        return api_of(self.gpu)

    def oracle(
        self, target: Target, signature: Signature, booted: BootedProcess | None
    ) -> GpuOracle:
        """The reference on the GPU, which computes in our turns alone."""
        leased = nullcontext if self.gate is None else self.gate.leased
        return GpuOracle(target, signature, booted, leased, self.compiled_dir)

    def bench(
        self,
        target: Target,
        oracle: Any,
        environment: Environment,  # noqa: ARG002 - of the host
        fork_server: ForkServer,
        **patience: int,
    ) -> GpuBench:
        """Kernels in turns on the GPU; none of their processes outlives our turn."""
        bench = GpuBench(
            oracle, target.tolerance, fork_server, api=self.api, cache_dir=self.compiled_dir,
            health=self._reads_health(), timing=target.timing, isolation=self.isolation,
            **patience,
        )  # fmt: skip
        if self.gate is not None:
            self.gate.ends.append(bench.clear)
        return bench

    def yardstick_bench(
        self, target: Target, oracle: Any, environment: Environment, fork_server: ForkServer
    ) -> GpuBench:
        """Few processes, since each compiles for long."""
        patience = {"sweeps_per_instance": YARDSTICK_SWEEPS}
        return self.bench(target, oracle, environment, fork_server, **patience)

    def profiler(self, oracle: Any, known: Survey, left: Path) -> Profiler:  # noqa: ARG002
        """The vendor's profiler."""
        return GpuProfiler(self.runner, oracle, "amd" if self.api == "hip" else "nvidia", left=left)

    def disassembler(self, profiler: Any) -> Disassembler:  # noqa: ARG002 - the host's
        """Instructions as the compiler left them."""
        return GpuDisassembler(self.compiled_dir).disassemble

    def inspectors(
        self, oracle: Any, language: Language, fork_server: ForkServer
    ) -> tuple[Inspector, Inspector | None]:
        """Sanitizers for CUDA, which know no other language; whether it repeats itself for all."""
        if language == "cuda":
            sanitizer = SanitizerInspector(self.runner, oracle, Proof(self.toolchain.build))
            return sanitizer.inspect, RepeatInspector(self.runner, oracle).inspect
        runner = GpuRunner(self.api, self.compiled_dir, self.isolation, fork_server)
        return RepeatInspector(runner, oracle).inspect, None

    def tracer(
        self,
        target: Target,
        oracle: Any,
        known: Survey,
        fork_server: ForkServer | None = None,
    ) -> Tracer:
        """Steps on the GPU."""
        if target.command is not None:
            return self._traced(target, known, cache_dir=self.compiled_dir)
        return self._traced(
            target, known, cache_dir=self.compiled_dir, device="cuda", api=self.api,
            fork_server=fork_server, oracle=oracle,
        )  # fmt: skip

    def _reads_health(self) -> Callable[[], Health | None] | None:
        return None if self.gate is None or self.gate.parts.sensors is None else self.gate.sense


Place: TypeAlias = HostPlace | GpuPlace


def api_of(gpu: Device) -> Api:
    """How a GPU's driver is called."""
    return "hip" if gpu.kind == "amd" else "cuda"
