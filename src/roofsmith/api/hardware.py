"""The parts that a kernel's language asks for: the host's processors, or a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from roofsmith.api.clocks import (
    Find,
    clocked,
    let_go_of_abandoned,
    no_clocks,
    noted,
    noting_locks,
    say,
)
from roofsmith.api.gate import gate_parts, leased_gpu, made_by
from roofsmith.api.places import GpuPlace, HostPlace, Place, api_of
from roofsmith.api.system_clock import SystemClock
from roofsmith.config import Settings
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language, SourceFile
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.errors import MachineError, NoGpuError, RoofsmithError, TargetError
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.gpu.process import server_environment
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.judge.host.oracle import ReferenceOracle, ReferenceProcess
from roofsmith.judge.host.runner import WorkerRunner
from roofsmith.judge.sandbox.cgroup import remove_stale_groups
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.machine.admission import LookedAhead
from roofsmith.machine.choice import source_for
from roofsmith.machine.clocks import held_clocks
from roofsmith.machine.cpu import CpuSource, build_slots
from roofsmith.machine.gpu_tools import AMD_TOOLS, NVIDIA_TOOLS, ask_ahead
from roofsmith.machine.idle import leaves_unknown
from roofsmith.machine.plugged import ELSEWHERE
from roofsmith.ports import Observer
from roofsmith.profilers.proof import defective
from roofsmith.profilers.sanitizer import TOOLS
from roofsmith.scratch import CACHE_CURE, no_loading, remove_stale
from roofsmith.specs.ceilings import MeasuredCeilings
from roofsmith.specs.cited import CitedCeilings
from roofsmith.specs.gpu_ceilings import GpuCeilings
from roofsmith.specs.wiki import Wiki
from roofsmith.toolchains.dispatch import Toolchains
from roofsmith.wording import some_of


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes on while an idle GPU is looked for; each waits for it."""

    built: Callable[[], None] = lambda: None
    wiki: Callable[[], Wiki] | None = None

    def known_to(self, machine: Place) -> Place:
        """The machine, which reads no pages again."""
        if self.wiki is None:
            return machine
        return replace(machine, specs=replace(machine.specs, wiki=self.wiki))


@contextmanager
def leased_machine(
    settings: Settings,
    language: Language,
    observer: Observer,
    product: str | None = None,
    looked: LookedAhead = lambda: None,
) -> Iterator[Place]:
    """Where kernels in a language run, to measure there.

    For a GPU's languages that is the idlest GPU. Its first turn has begun: it is this command's
    until it is let go, or the block ends.

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
    held = looked()
    with leased_gpu(parts, kind, devices, product) as gate:
        if held is not None:
            held.release()  # the gate has its own
        machine = _machine(settings, language, locked)
        assert isinstance(machine, GpuPlace)
        measured = replace(machine.specs.measured, gate=gate)
        yield replace(
            machine, gate=gate, specs=replace(machine.specs, measured=measured),
            devices=noted(machine.devices, leaves_unknown(parts.gpu(gate.uuid))),
        )  # fmt: skip


@contextmanager
def on_gpu_alone(kernel: str, language: Language, reference: SourceFile | None) -> Iterator[None]:
    """What is told of a machine without a GPU names the kernel that is for one.

    Raises:
        NoGpuError: instead of one from inside.
    """
    try:
        yield
    except NoGpuError as error:
        if language not in MODULE_LANGUAGES:
            raise
        ref = "REF.py" if reference is None else reference.path
        raise NoGpuError(
            f"{kernel} is judged on a GPU, as every kernel in Python: {error.message}",
            hint="on this machine's processors a kernel in C is judged, by the same reference in"
            f" PyTorch or NumPy: `roofsmith init KERNEL.c --ref {ref}`; or {ELSEWHERE}",
        ) from error


def locked_clocks(machine: Place, settings: Settings, find: Find = clocked) -> Place:
    """The machine with its GPU's clocks held in each of its turns, where that is asked for.

    Args:
        machine: for the language of the kernels.
        settings: say whether it is asked for, and where records are.
        find: who can hold a device's clocks.

    Raises:
        UsageError: kernels run on the host's processors, or on a GPU of AMD's.
        MachineError: the clocks can't be locked, or others use the GPU; nothing was changed.
    """
    if not settings.lock_clocks:
        return machine
    gpu = find(machine.devices)
    if gpu is None:
        raise no_clocks(machine.devices)
    gate = machine.gate
    assert gate is not None, "clocks are those of a GPU that was leased"
    gpu = replace(gpu, partners=partial(gate.parts.leases.partners, gate.uuid))
    locked = gate.around(
        lambda: held_clocks(
            gpu.driver, gpu.uuid, settings.clocks_dir, strangers=gpu.strangers, tell=say
        )
    )  # fmt: skip
    note = f"clocks locked for this run: {locked.sentence}"
    return replace(machine, devices=noted(machine.devices, note))


def machine_of(settings: Settings, language: Language = "c") -> Place:
    """This machine's parts for kernels in a language; clears up after processes that were killed.

    For building and looking; who measures on a GPU asks for a `leased_machine`.

    Raises:
        MachineError: strict isolation is asked for, and the host lacks a layer of it.
        MachineError: the language needs a GPU, and there is none that answers.
    """
    on_host = language in HOST_LANGUAGES
    return _machine(settings, language, frozenset() if on_host else let_go_of_abandoned(settings))


def _machine(settings: Settings, language: Language, locked: Collection[str]) -> Place:
    """As above; `locked` are GPUs whose clocks may be held by another run."""
    if (why := no_loading(settings.cache_dir)) is not None:
        raise MachineError(why, hint=CACHE_CURE)
    remove_stale(settings.cache_dir)
    remove_stale_groups()
    walls = isolate(settings.isolation)
    clock = SystemClock()
    compiled_dir, ceilings_dir = settings.compiled_dir, settings.ceilings_dir
    wiki = partial(Wiki.load, settings.own_pages(), settings.gpu_wiki)
    devices = noting_locks(source_for(language), locked)
    gpu = None if language in HOST_LANGUAGES else devices.device()
    toolchain = Toolchains(settings.builds_dir, gpu, compiled_dir, at_once=build_slots())
    if gpu is None:
        alone = WorkerRunner(walls)
        conditions = CpuSource().conditions
        found = MeasuredCeilings(alone, toolchain, ceilings_dir, clock, conditions=conditions)
        specs = CitedCeilings(found, wiki)
        return HostPlace(clock, devices, specs, toolchain, alone, walls, compiled_dir)
    runner = GpuRunner(api_of(gpu), compiled_dir, walls)
    specs = CitedCeilings(GpuCeilings(runner, toolchain, ceilings_dir, clock), wiki)
    return GpuPlace(clock, devices, specs, toolchain, runner, walls, compiled_dir, gpu)


@contextmanager
def booted_reference(
    target: Target, booted: BootedProcess | None = None
) -> Iterator[BootedProcess | None]:
    """What will hold a reference on a GPU: it imports PyTorch while an idle GPU is looked for.

    None for kernels on the host's processors, for a repository, and without PyTorch.
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
    target: Target, machine: Place, booted: BootedProcess | None = None
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
    with machine.oracle(target, signature, booted) as oracle:
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
    """What forks workers for modules, which it imports torch for; at once where they are judged."""
    if begun is not None:
        yield begun
        return
    with ForkServer(server_environment()) as server:
        if language in MODULE_LANGUAGES:
            server.warm_up()
        yield server
