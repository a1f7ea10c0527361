"""The parts that a kernel's language asks for: the host's processors, or a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from roofsmith.api.clocks import (
    Find,
    clocked,
    host_clocks,
    let_go_of_abandoned,
    noted,
    noting_locks,
    say,
)
from roofsmith.api.gate import gate_parts, leased_gpu, made_by
from roofsmith.api.system_clock import SystemClock
from roofsmith.config import Settings
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.health import Health
from roofsmith.domain.held_out import HeldOut
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import Survey, threads_for
from roofsmith.errors import MachineError, RoofsmithError, TargetError
from roofsmith.evaluator.guard import Guard
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.lineup import GpuBench
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.gpu.process import server_environment
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle, ReferenceProcess
from roofsmith.judge.host.runner import WorkerRunner
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.sandbox.cgroup import remove_stale_groups
from roofsmith.judge.sandbox.isolation import Isolation, isolate
from roofsmith.judge.timing.bench import Bench
from roofsmith.machine.build_slots import build_slots
from roofsmith.machine.choice import source_for
from roofsmith.machine.clocks import held_clocks
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.gpu_tools import AMD_TOOLS, NVIDIA_TOOLS, ask_ahead
from roofsmith.machine.idle import leaves_unknown
from roofsmith.machine.plugged import Vendor
from roofsmith.machine.processor_time import processor_time
from roofsmith.overfitting.trace.command import CommandTracer
from roofsmith.overfitting.trace.tracer import StepTracer
from roofsmith.ports import (
    Clock,
    DeviceSource,
    Disassembler,
    Inspector,
    Judge,
    KernelRunner,
    Observer,
    Profiler,
    Toolchain,
    Tracer,
)
from roofsmith.profilers.cpu import CpuProfiler
from roofsmith.profilers.disassembly import HostDisassembler
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.proof import Proof, defective
from roofsmith.profilers.repeatability import RepeatInspector
from roofsmith.profilers.sanitizer import TOOLS, SanitizerInspector
from roofsmith.profilers.watching import Watcher
from roofsmith.repository.judging.oracle import RowOracle
from roofsmith.scratch import CACHE_CURE, no_loading, remove_stale
from roofsmith.specs.ceilings import MeasuredCeilings
from roofsmith.specs.cited import CitedCeilings
from roofsmith.specs.gpu_ceilings import GpuCeilings
from roofsmith.specs.wiki import Wiki
from roofsmith.toolchains.disassembly import GpuDisassembler
from roofsmith.toolchains.dispatch import Toolchains
from roofsmith.wording import some_of

YARDSTICK_SWEEPS = 64
"""Per pair of processes: torch.compile takes 5 to 60 s in each, for which two processes may differ
by 0.4%."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes on while an idle GPU is looked for; each waits for it."""

    built: Callable[[], None] = lambda: None
    wiki: Callable[[], Wiki] | None = None

    def known_to(self, machine: Machine) -> Machine:
        """The machine, which reads no pages again."""
        if self.wiki is None:
            return machine
        return replace(machine, specs=replace(machine.specs, wiki=self.wiki))


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that depends on a language, but on no target."""

    clock: Clock
    devices: DeviceSource
    specs: CitedCeilings
    toolchain: Toolchain
    runner: KernelRunner
    gpu: Device | None
    """None: kernels run on the host's processors."""
    isolation: Isolation
    """The walls around kernels."""
    compiled_dir: Path
    """Compilation caches of kernels that are compiled when they run."""
    gate: GpuGate | None = None
    """In front of the GPU that was leased; None where none was: nothing may be measured there."""

    def bench(
        self,
        target: Target,
        oracle: ReferenceOracle | GpuOracle,
        environment: Environment,
        fork_server: ForkServer,
        **patience: int,
    ) -> AbstractContextManager[Bench[Any]]:
        """What the judge measures on."""
        if isinstance(oracle, GpuOracle):
            return GpuBench(
                oracle, target.tolerance, fork_server, api=self._api, cache_dir=self.compiled_dir,
                health=self._reads_health(), timing=target.timing, isolation=self.isolation,
                **patience,
            )  # fmt: skip
        cache_bytes = environment.device.last_level_cache_bytes
        threads = threads_for(target, environment)
        return nullcontext(
            HostBench(oracle, target.tolerance, threads, cache_bytes, self.isolation)
        )

    def yardstick_bench(
        self,
        target: Target,
        oracle: ReferenceOracle | GpuOracle,
        environment: Environment,
        fork_server: ForkServer,
    ) -> AbstractContextManager[Bench[Any] | None]:
        """What yardsticks are measured on: few processes, since each compiles for long.

        None on the host's processors.
        """
        if self.gpu is None:
            return nullcontext()
        return self.bench(
            target, oracle, environment, fork_server, sweeps_per_instance=YARDSTICK_SWEEPS
        )

    def profiler(self, oracle: ReferenceOracle | GpuOracle, known: Survey) -> Profiler:
        """What sees why a kernel takes its time."""
        if self.gpu is None:
            watcher = Watcher(self.runner, oracle, known.threads)
            return CpuProfiler(watcher, build=self.toolchain.build)
        return GpuProfiler(self.runner, oracle, vendor_of(self.gpu))

    def disassembler(self, profiler: Profiler) -> Disassembler:
        """What shows a kernel's instructions; on the host, where the profiler has seen it run."""
        if isinstance(profiler, CpuProfiler):
            return HostDisassembler(profiler.watcher).disassemble
        return GpuDisassembler(self.compiled_dir).disassemble

    def inspector(
        self, oracle: ReferenceOracle | GpuOracle, language: Language, fork_server: ForkServer
    ) -> Inspector | None:
        """What watches a GPU kernel for defects, and sees if it repeats itself; None on the host.

        No sanitizer knows any language but CUDA.
        """
        if language in HOST_LANGUAGES:
            return None
        if language == "cuda":
            return SanitizerInspector(self.runner, oracle, Proof(self.toolchain.build)).inspect
        runner = GpuRunner(self._api, self.compiled_dir, self.isolation, fork_server)
        return RepeatInspector(runner, oracle).inspect

    def tracer(
        self, target: Target, oracle: ReferenceOracle | GpuOracle | RowOracle, known: Survey
    ) -> Tracer:
        """What runs steps of training with a kernel."""
        cache_dir = None if self.gpu is None else self.compiled_dir
        if target.command is not None:
            return CommandTracer(
                target, target.command, threads=known.threads, cache_dir=cache_dir,
                isolation=self.isolation,
            ).trace  # fmt: skip
        return StepTracer(
            target, known.signature, threads=known.threads, cache_dir=cache_dir,
            device="cpu" if self.gpu is None else "cuda",
            api=None if self.gpu is None else self._api,
            isolation=self.isolation,
            oracle=oracle if isinstance(oracle, ReferenceOracle) else None,
        ).trace  # fmt: skip

    def judge(
        self, target: Target, bench: Bench[Any], known: Survey, *, confirms: bool = True
    ) -> Judge:
        """Who decides about candidates; about yardsticks, without confirming what they win."""
        return ProcessJudge(target, bench, known.classes, known.bounds, confirms=confirms)

    def judge_elsewhere(
        self, target: Target, bench: Bench[Any], known: Survey, workloads: tuple[Workload, ...]
    ) -> Judge:
        """Who decides on held-out workloads alone, whose rooflines nobody knows."""
        few = copy(bench)
        cast(Any, few).near_workloads = 0
        classes = HeldOut(salt="", workloads=workloads).classes
        there = target.model_copy(update={"workloads": workloads})
        return self.judge(there, few, replace(known, classes=classes, bounds=()))

    @property
    def guard(self) -> Guard:
        """Around every use of what kernels run on."""
        return Guard(self.gate, processor_time)

    @property
    def _api(self) -> Api:
        return api_of(self.gpu)

    def _reads_health(self) -> Callable[[], Health | None] | None:
        return None if self.gate is None or self.gate.parts.sensors is None else self.gate.sense


@contextmanager
def leased_machine(
    settings: Settings,
    language: Language,
    observer: Observer,
    product: str | None = None,
    looked: Callable[[], None] = lambda: None,
) -> Iterator[Machine]:
    """This machine's parts for kernels in a language, to measure with.

    For a GPU's languages, the idlest GPU is this command's as long as the block lasts.

    Args:
        settings: where caches are, and how to wait.
        language: of the kernels.
        observer: sees the wait for a GPU.
        product: the only GPU that will do, as its driver prints it.
        looked: waits for a look that was begun before.

    Raises:
        NoIdleGpuError: there is no idle GPU, or the one that was leased is gone.
        MachineError: as `machine_of`.
    """
    if language in HOST_LANGUAGES:
        yield machine_of(settings, language)
        return
    devices, clock = source_for(language), SystemClock()
    kind = made_by(devices)
    ask_ahead(NVIDIA_TOOLS if kind == "nvidia" else AMD_TOOLS)
    locked = let_go_of_abandoned(settings)
    parts = gate_parts(settings, kind, clock, observer)
    looked()
    with leased_gpu(parts, kind, devices, product) as gate:
        machine = _machine(settings, language, locked)
        measured = replace(machine.specs.measured, gate=gate)
        yield replace(
            machine, gate=gate, specs=replace(machine.specs, measured=measured),
            devices=noted(machine.devices, leaves_unknown(parts.gpu(gate.uuid))),
        )  # fmt: skip


@contextmanager
def locked_clocks(machine: Machine, settings: Settings, find: Find = clocked) -> Iterator[Machine]:
    """The machine with its GPU's clocks held, where that is asked for; let go when the block ends.

    Args:
        machine: for the language of the kernels.
        settings: say whether it is asked for, and where records are.
        find: who can hold a device's clocks.

    Raises:
        UsageError: kernels run on the host's processors.
        MachineError: the clocks can't be locked, or others use the GPU; nothing was changed.
    """
    if not settings.lock_clocks:
        yield machine
        return
    gpu = find(machine.devices)
    if gpu is None:
        raise host_clocks()
    with held_clocks(
        gpu.driver, gpu.vendor, gpu.uuid, settings.clocks_dir, strangers=gpu.strangers, tell=say
    ) as locked:
        note = f"clocks locked for this run: {locked.sentence}"
        yield replace(machine, devices=noted(machine.devices, note))


def machine_of(settings: Settings, language: Language = "c") -> Machine:
    """This machine's parts for kernels in a language; clears up after processes that were killed.

    For building and looking; who measures on a GPU asks for a `leased_machine`.

    Raises:
        MachineError: strict isolation is asked for, and the host lacks a layer of it.
        MachineError: the language needs a GPU, and there is none that answers.
    """
    on_host = language in HOST_LANGUAGES
    return _machine(settings, language, frozenset() if on_host else let_go_of_abandoned(settings))


def _machine(settings: Settings, language: Language, locked: Collection[str]) -> Machine:
    """As above; `locked` are GPUs whose clocks may be held by another run."""
    if (why := no_loading(settings.cache_dir)) is not None:
        raise MachineError(why, hint=CACHE_CURE)
    remove_stale(settings.cache_dir)
    remove_stale_groups()
    walls = isolate(settings.isolation)
    clock = SystemClock()
    devices = noting_locks(source_for(language), locked)
    gpu = None if language in HOST_LANGUAGES else devices.device()
    compiled_dir = settings.compiled_dir
    toolchain = Toolchains(settings.builds_dir, gpu, compiled_dir, at_once=build_slots())
    runner: KernelRunner = (
        WorkerRunner(walls) if gpu is None else GpuRunner(api_of(gpu), compiled_dir, walls)
    )
    place = settings.ceilings_dir
    measured = (
        MeasuredCeilings(runner, toolchain, place, clock, conditions=CpuSource().conditions)
        if gpu is None
        else GpuCeilings(runner, toolchain, place, clock)
    )
    specs = CitedCeilings(measured, partial(Wiki.load, settings.own_pages(), settings.gpu_wiki))
    return Machine(clock, devices, specs, toolchain, runner, gpu, walls, compiled_dir)


def api_of(gpu: Device | None) -> Api:
    """How a GPU's driver is called."""
    return "hip" if gpu is not None and gpu.kind == "amd" else "cuda"


def vendor_of(gpu: Device) -> Vendor:
    """Whose tools see it."""
    return "amd" if gpu.kind == "amd" else "nvidia"


@contextmanager
def booted_reference(
    target: Target, booted: BootedProcess | None = None
) -> Iterator[BootedProcess | None]:
    """What will hold a reference on a GPU: it imports PyTorch while an idle GPU is looked for.

    None for kernels on the host's processors, for a repository, and without PyTorch.

    Args:
        target: has the reference.
        booted: begun before.
    """
    on_gpu = target.command is None and target.language not in HOST_LANGUAGES
    if booted is not None or not on_gpu or importlib.util.find_spec("torch") is None:
        yield booted
        return
    with closing(BootedProcess(GpuOracle.module)) as booted:
        yield booted


@contextmanager
def working_ahead(
    target: Target, settings: Settings, candidates: Sequence[Candidate]
) -> Iterator[Ahead]:
    """For a GPU, candidates are compiled and pages read beside the block: that needs no idle one.

    So are the kernels that sanitizers are tried with, where there are processors left. What goes
    wrong with a build is told where it is built again, for the GPU that was leased.
    """
    if target.command is not None or target.language in HOST_LANGUAGES or not candidates:
        yield Ahead()
        return

    def build() -> None:
        with suppress(RoofsmithError):
            toolchain = _machine(settings, target.language, frozenset()).toolchain
            more = tuple(map(defective, TOOLS)) if target.language == "cuda" else ()
            has_room = toolchain.side_by_side(target.language) >= len(candidates) + len(more)
            toolchain.build_all((*candidates, *more) if has_room else candidates)

    with ThreadPoolExecutor(2) as beside:
        built = beside.submit(build)
        wiki = beside.submit(Wiki.load, settings.own_pages(), settings.gpu_wiki)
        yield Ahead(built.result, wiki.result)


@contextmanager
def oracle_for(
    target: Target, machine: Machine, booted: BootedProcess | None = None
) -> Iterator[ReferenceOracle | GpuOracle]:
    """The target's reference, in a process of its own, which starts at once.

    Args:
        target: has the reference.
        machine: whose toolchain reads the kernel.
        booted: started for it before; None: starts now.

    Raises:
        SignatureError: the kernel has no readable `solve`.
    """
    signature = machine.toolchain.signature(target.baseline)
    made = (
        ReferenceOracle(target, signature)
        if machine.gpu is None
        else GpuOracle(target, signature, booted)
    )
    with made as oracle:
        oracle.start()
        yield oracle


def scored(target: Target, oracle: ReferenceOracle | GpuOracle) -> Target:
    """The target, which workloads whose inputs can't vary are no reason to refuse: they are checked
    and not scored, unless all of them are so."""
    fixed = tuple(one for one in target.workloads if oracle.describe(one).is_fixed)
    left = tuple(one for one in target.workloads if one not in fixed)
    if not fixed or not left:
        return target
    unscored = (*target.unscored, *fixed)
    oracle.target = target.model_copy(update={"workloads": left, "unscored": unscored})
    return oracle.target


def require_fresh_inputs(oracle: ReferenceProcess) -> None:
    """See that another seed gives other inputs.

    Arrays that are always the same are allowed beside such as are not, and so is a kernel that
    reads none: what it computes is the same by nature.

    Raises:
        TargetError: all that is read is the same whatever the seed, and so is the result. A kernel
            that copies its first result would be right for ever.
    """
    found = oracle.tolerated()
    same = set(found.same)
    if found.is_fixed and same and {*found.free, *found.bound} <= same:
        raise TargetError(
            f"setup gives the same inputs whatever its seed is ({some_of(found.same)}): nobody"
            " would notice a kernel that remembers its first result",
            hint="draw them from the seed that setup gets: `np.random.default_rng(seed)`, or"
            " `torch.Generator().manual_seed(seed)` (docs/target.md)",
        )


@contextmanager
def fork_server_for(language: Language, begun: ForkServer | None = None) -> Iterator[ForkServer]:
    """What forks workers for modules, which it imports torch for; at once where they are judged.

    Args:
        language: of the kernels.
        begun: whoever made it ends it.
    """
    if begun is not None:
        yield begun
        return
    with ForkServer(server_environment()) as server:
        if language in MODULE_LANGUAGES:
            server.warm_up()
        yield server
