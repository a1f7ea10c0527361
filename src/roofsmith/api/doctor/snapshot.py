"""What a machine answers: everybody is asked at once, and nobody waited for past a deadline."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import yaml

from roofsmith.config import Settings
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.device import Environment
from roofsmith.domain.examination import Area, Check, Level
from roofsmith.domain.fleet import GpuStatus
from roofsmith.domain.kernel import (
    MODULE_LANGUAGES,
    BuildSpec,
    Built,
    Candidate,
    Language,
    SourceFile,
)
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.errors import MachineError, RoofsmithError
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.machine import frameworks, gpu_tools, probes
from roofsmith.machine.amd import ask_rocminfo, first_visible
from roofsmith.machine.amd_agents import HsaAgent, parse_rocminfo
from roofsmith.machine.clocks_nvidia import NvmlClocks
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.machine.nvidia import ask_cuda
from roofsmith.machine.nvml import GpuSettings, ask_nvml
from roofsmith.machine.plugged import NAMES, Vendor, Vendors
from roofsmith.machine.probes import processor_time
from roofsmith.machine.processes import OwnProcesses
from roofsmith.profilers.ncu import find_ncu
from roofsmith.profilers.rocprof import find_rocprof
from roofsmith.scratch import existing
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_problems import PageProblem
from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.compilers import Compiler, compiler_versions
from roofsmith.toolchains.cuda_toolkit import Toolkit, find_toolkit
from roofsmith.toolchains.hip import find_hipcc

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Said = Mapping[str, Any]
"""What the CUDA driver answered, see `machine.cuda_probe`."""

GPU: tuple[Language, ...] = ("cuda", "hip", *MODULE_LANGUAGES)
ROOT = Path("/")
WAKING_S = 5.0
"""Beyond the deadline, for the operating system alone: without it there is no answer at all, and a
machine that was idle for minutes first reads its programs from the disk. Chosen."""
PROBE_DEADLINE_S = 2.7
"""For one process, where what it has said by then counts, or 0.9 of a shorter deadline. For each
way to a driver's management library but the last, half of it."""
_OPENMP = """\
#include <omp.h>
#ifdef __cplusplus
extern "C"
#endif
void solve(float *y, int n)
{
    #pragma omp parallel for
    for (int i = 0; i < n; i++)
        y[i] = (float)omp_get_num_threads();
}
"""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What the machine is looked at for."""

    name: str | None = None
    """A target's path; None: anything that it could run."""
    language: Language | None = None
    device_language: Language | None = None
    """One whose kernels run where the target's do."""
    compiler: str | None = None
    """That the target insists on."""
    openmp: bool = False
    """Whether its flags or its source ask for OpenMP."""
    command: CommandSpec | None = None
    """Of a command target."""
    brief: bool = False
    """Whether to leave out what no campaign depends on, and what takes long to ask."""

    def about(self, languages: tuple[Language, ...]) -> bool:
        """Whether kernels in one of the languages are asked about, or commands that run there."""
        return self.device_language is None or self.device_language in languages

    def on(self, languages: tuple[Language, ...]) -> tuple[Language, ...]:
        """The languages that a GPU's checks apply to, if kernels in `languages` run on it."""
        return languages if self.command is None else ("command",)


class Reply(Generic[T_co]):
    """What a question will have brought by the deadline.

    Args:
        who: is asked, for the message if nobody answers.
        question: may raise RoofsmithError and OSError; None: nobody is asked.
        until: by `time.monotonic`.
    """

    def __init__(self, who: str, question: Callable[[], T_co] | None, until: float) -> None:
        self._who, self._until = who, until
        self._done = threading.Event()
        self._value: list[T_co] = []
        self._error: RoofsmithError | OSError | None = None
        if question is None:
            self._error = MachineError(f"{who} wasn't asked")
            self._done.set()
            return
        # A thread that waits for a wedged driver can't be ended, so nobody must wait for it.
        ask = partial(self._ask, question)
        threading.Thread(target=ask, name=f"doctor: {who}", daemon=True).start()

    def _ask(self, question: Callable[[], T_co]) -> None:
        try:
            self._value.append(question())
        except (RoofsmithError, OSError) as error:
            self._error = error
        except (ValueError, TypeError, LookupError) as error:
            # A broken driver or file, read by a library that didn't expect it.
            nonsense = f"{self._who} answered with nonsense: {type(error).__name__}: {error}"
            hint = "ask it by hand; reinstall it if it fails there"
            self._error = MachineError(nonsense, hint=hint)
        finally:
            self._done.set()

    def get(self) -> T_co:
        """Wait for the answer.

        Raises:
            RoofsmithError: what the question raised.
            OSError: as above.
            MachineError: it didn't answer in time.
        """
        if not self._done.wait(max(self._until - time.monotonic(), 0.0)):
            hint = "is a driver or a network file system hanging? `dmesg | tail` may tell"
            raise MachineError(f"{self._who} didn't answer in time", hint=_beside_load(hint))
        if self._error is not None:
            raise self._error
        return self._value[0]

    def value(self, otherwise: S) -> T_co | S:
        """The answer, or what stands in for one that is an error, or doesn't come in time."""
        try:
            return self.get()
        except (RoofsmithError, OSError):
            return otherwise

    @property
    def has_come(self) -> bool:
        """Whether there is an answer, or an error; if not, who was asked may hang, or be slow."""
        return self._done.is_set()


def _beside_load(fix: str) -> str:
    """What to do about an answer that didn't come; first of all about the machine's load."""
    load, processors = os.getloadavg()[0], len(probes.allowed_processors())
    if load <= processors:
        return fix
    busy = f"load {load:.1f} on {processors} processors"
    return f"ask again when other work is over ({busy}); else: {fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A machine's answers. Those about GPUs come only where a question is about them."""

    root: Path
    """Where /proc, /sys and /dev are."""
    settings: Settings
    plugged: Vendors
    modules: Vendor
    """On whose GPU Triton and PyTorch kernels run here."""
    load: float
    """Processes that run or want to, averaged over a minute."""
    processor_time: ProcessorTime | None
    """Of all processors, since the machine was started."""
    ours: Callable[[Iterable[int]], Collection[int]]
    """Which processes are this one and its children: what they do on a GPU is no other work."""
    environment: Reply[Environment]
    """The processor, the usual tools and packages."""
    isolation: Reply[Mapping[str, str]]
    """Layers of walls that aren't granted, and why."""
    compilers: Reply[Mapping[str, str]]
    """gcc, g++, clang, clang++: version lines of those that are installed."""
    openmp: Reply[Built | BuildFailed]
    """Of a kernel with several threads."""
    wiki: Reply[Sequence[PageProblem]]
    """What is wrong with pages of the hardware wiki."""
    room: Mapping[str, Reply[int]]
    """Free bytes of the folders `cache` and `campaigns`; OSError if no file can be made there."""
    cuda: Reply[Said]
    gpu_settings: Reply[GpuSettings | None]
    """How the NVIDIA GPU is set up; None: NVML doesn't answer."""
    agents: Reply[tuple[HsaAgent, ...]]
    """AMD's GPUs."""
    lockable: Reply[None]
    """MachineError if the clocks of NVIDIA's first GPU can't be locked."""
    fleet: Mapping[Vendor, Reply[tuple[GpuStatus, ...]]]
    """A vendor's GPUs that this process may use, now."""
    toolkit: Reply[Toolkit]
    """The nvcc that kernels would be built with."""
    hipcc: Reply[Compiler]
    ncu: Reply[str | None]
    rocprof: Reply[str | None]
    tools: Mapping[str, Reply[str | None]]
    """Version lines of the vendors' profilers; None: it isn't installed."""
    torch_build: TorchBuild | None
    triton: str | None
    """Version of Triton."""
    nsight_python: str | None = None
    """Its version; None: it isn't installed, which nothing here minds."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    """Versions of what modules may be written in beside Triton, by package."""
    python_headers: Path | None
    torch_sees: Reply[Mapping[str, Any] | None] | None
    """See `machine.torch_probe`; None: there is nothing to see, or it wasn't asked. An answer of
    None: not within the deadline."""

    @property
    def said(self) -> Said:
        """By the CUDA driver; a silence is an error of it, too."""
        try:
            return self.cuda.get()
        except MachineError as error:
            return {"error": error.message, "code": 999, "fix": error.hint}

    @property
    def agent(self) -> HsaAgent | None:
        """AMD's GPU that kernels would run on; None where ROCm doesn't answer or shows none."""
        return _first(self.agents.value(()))


def take(
    settings: Settings,
    question: Inquiry,
    plugged: Vendors,
    modules: Vendor,
    deadline_s: float,
) -> Snapshot:
    """Ask this machine; returns at once.

    Args:
        settings: where files go.
        question: what isn't needed for it isn't asked.
        plugged: whose GPUs are here.
        modules: on whose GPU Triton and PyTorch kernels run here.
        deadline_s: for all answers together.
    """
    probe_s = min(PROBE_DEADLINE_S, 0.9 * deadline_s)
    on_gpu, whole = question.about(GPU), not question.brief
    until = time.monotonic() + deadline_s

    def ask(who: str, asked: Callable[[], T], wanted: bool = True) -> Reply[T]:
        return Reply(who, asked if wanted else None, until)

    def ask_gpu(who: str, asked: Callable[[], T]) -> Reply[T]:
        return ask(who, asked, on_gpu)

    torch = frameworks.torch_build() if on_gpu else None
    made = torch is not None and (torch.hip if modules == "amd" else torch.cuda)
    seen = whole and made and modules in plugged.loaded
    folders = {"cache": settings.cache_dir, "campaigns": settings.campaigns_dir}
    cpu = CpuSource(tool_deadline_s=min(probe_s, probes.PROBE_DEADLINE_S))
    cuda: Reply[Said] = ask_gpu("the CUDA driver", ask_cuda)
    agents = ask_gpu("rocminfo", lambda: parse_rocminfo(ask_rocminfo()))
    return Snapshot(
        root=ROOT, settings=settings, plugged=plugged, modules=modules,
        load=os.getloadavg()[0], processor_time=processor_time(), ours=OwnProcesses().among,
        # PyTorch first, since it takes longest.
        torch_sees=ask("PyTorch", partial(frameworks.ask_torch, probe_s)) if seen else None,
        environment=Reply("the operating system", cpu.environment, until + WAKING_S),
        isolation=ask("the probe of isolation", lambda: isolate("standard").lacking),
        compilers=ask("the C compiler", compiler_versions),
        openmp=ask("the C compiler", partial(build_openmp, settings.builds_dir, question), whole),
        wiki=ask("the wiki", partial(_wiki_problems, settings), whole),
        room={name: ask(str(path), partial(_room, path)) for name, path in folders.items()},
        cuda=cuda,
        gpu_settings=ask_gpu("NVIDIA's driver", lambda: ask_nvml(_uuid(cuda))),
        agents=agents,
        lockable=ask_gpu("NVML", lambda: NvmlClocks().require_lockable(_uuid(cuda))),
        fleet={
            vendor: ask_gpu(f"{name}'s driver", partial(_fleet, vendor, probe_s / 2))
            for vendor, name in NAMES.items()
        },
        toolkit=ask_gpu("nvcc", find_toolkit),
        hipcc=ask_gpu("hipcc", find_hipcc),
        ncu=ask_gpu("nvcc, whose toolkit may hold ncu,", find_ncu),
        rocprof=ask_gpu("ROCm", find_rocprof),
        tools={
            name: ask_gpu(name, partial(gpu_tools.version, name))
            for name in ("ncu", "compute-sanitizer", "rocprofv3")
        },
        torch_build=torch,
        triton=frameworks.triton_version() if on_gpu else None,
        nsight_python=frameworks.installed("nsight-python") if on_gpu else None,
        dialects=frameworks.dialects() if on_gpu else {},
        python_headers=frameworks.python_headers(),
    )  # fmt: skip


def _first(agents: Sequence[HsaAgent]) -> HsaAgent | None:
    index = first_visible()
    return None if index is None or index >= len(agents) else agents[index]


def _uuid(cuda: Reply[Said]) -> str:
    return str(cuda.get()["uuid"])


def _fleet(vendor: Vendor, deadline_s: float) -> tuple[GpuStatus, ...]:
    """As everywhere, but with less patience: if one way hangs, the next still has its time."""
    return HostFleet(vendor, deadline_s=deadline_s).gpus()


def build_openmp(builds_dir: Path, question: Inquiry) -> Built | BuildFailed:
    """With the compiler that the target's kernel is built with."""
    on_host = question.language in {"c", "cpp"}
    candidate = Candidate(
        language="cpp" if question.language == "cpp" else "c",
        sources=(SourceFile(path="probe.c", text=_OPENMP),),
        build=BuildSpec.model_validate(
            {
                "compiler": (question.compiler if on_host else None) or "auto",
                "flags": ("-O1", "-fopenmp"),
            }
        ),
    )
    return CToolchain(builds_dir).build(candidate)


def _wiki_problems(settings: Settings) -> tuple[PageProblem, ...]:
    """Bundled pages are right by their tests: without own ones there is nothing to read."""
    folder = settings.own_pages()
    return Wiki.load(folder).problems if folder is not None and folder.exists() else ()


def _room(folder: Path) -> int:
    place = existing(folder)
    with tempfile.TemporaryFile(dir=place):
        return shutil.disk_usage(place).free


@cache
def minimums() -> Mapping[str, Mapping[str, Any]]:
    """What things have to be at least, by the name of their check."""
    text = resources.files(__package__).joinpath("minimums.yaml").read_bytes()
    return {name: {"better": one["least"]} | one for name, one in yaml.safe_load(text).items()}


def release(version: str) -> tuple[int, ...]:
    """`2.4.0+cu124` as numbers that can be compared; empty where there are none."""
    match = re.search(r"\d+(?:\.\d+)*", version)
    return () if match is None else (*map(int, match[0].split(".")), 0, 0)[:4]


@dataclass(frozen=True, slots=True)
class Topic:
    """What a check is about; makes checks of what was found."""

    area: Area
    name: str
    languages: tuple[Language, ...] = get_args(Language)
    required: bool = False

    def found(self, detail: str, fix: str | None = None, *, version: str | None = None) -> Check:
        """It is there; limited if something is to be fixed, missing if its version is too old for
        a campaign to begin (`minimums.yaml`)."""
        least = minimums().get(self.name, {})
        known = release(version or "")
        if not least or not known or known >= release(least["least"]):
            if least and known and known < release(least["better"]):
                detail += f"; {least['of']} {least['better']} or newer is recommended"
            return self._check("limited" if fix else "ok", detail, fix, self.required, None)
        wanted = f"{least['of']} {least['least']}"
        detail = f"{detail}: older than {wanted}, the least"
        if not least["stops"]:
            return self.limited(f"{detail}; {least['else']}", least["fix"])
        old = self.missing(detail, least["fix"], f"{least['of']} older than {least['least']}")
        return old.model_copy(update={"below": wanted})

    def limited(self, detail: str, fix: str | None) -> Check:
        """It works, but worse."""
        return self._check("limited", detail, fix, self.required, None)

    def missing(self, detail: str, fix: str | None, lack: str | None = None) -> Check:
        """Kernels in the topic's languages can't run."""
        return self._check("missing", detail, fix, True, lack)

    def _check(
        self, level: Level, detail: str, fix: str | None, required: bool, lack: str | None
    ) -> Check:
        return Check(
            area=self.area, name=self.name, level=level, detail=detail, fix=fix,
            languages=self.languages, required=required, lack=lack,
        )  # fmt: skip
