"""Whom doctor asks: each question a function, so that tests can answer for other machines."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.config import Settings
from roofsmith.devices import frameworks, gpu_tools, probes
from roofsmith.devices.amd import ask_rocminfo
from roofsmith.devices.clocks_amd import RocmSmiClocks
from roofsmith.devices.clocks_nvidia import NvmlClocks
from roofsmith.devices.cpu import CpuSource
from roofsmith.devices.fleet import HostFleet
from roofsmith.devices.fleet_amd import AmdSmiFleet, RocmSmiFleet
from roofsmith.devices.fleet_amdsmi import AmdSmiLibraryFleet
from roofsmith.devices.fleet_nvidia_smi import NvidiaSmiFleet
from roofsmith.devices.fleet_nvml import NvmlFleet
from roofsmith.devices.frameworks import TorchBuild
from roofsmith.devices.nvidia import ask_cuda
from roofsmith.devices.nvidia_smi import GpuSettings, ask_nvidia_smi
from roofsmith.devices.nvml import ask_nvml
from roofsmith.devices.plugged import Vendor
from roofsmith.devices.processes import OwnProcesses
from roofsmith.devices.processor_time import processor_time
from roofsmith.domain.device import Environment
from roofsmith.domain.fleet import GpuStatus
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.judge.isolation import isolate
from roofsmith.ports import FleetSource
from roofsmith.profilers.ncu import find_ncu
from roofsmith.profilers.rocprof import find_rocprof
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_problems import PageProblem
from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.compilers import Compiler, compiler_versions
from roofsmith.toolchains.cuda_toolkit import Toolkit, find_toolkit
from roofsmith.toolchains.hip import find_hipcc

Ours = Callable[[Iterable[int]], Collection[int]]

DEADLINE_S = 3.0
"""For all questions together: what is hung by then is a finding. The rest of the five seconds that
people are promised is Python's: starting took 1.5 s on an H100's host."""
SHARE_WITHOUT_GPU = 0.3
"""Of the deadline, where no GPU and no driver of one is to be seen: two seconds are promised there,
of which starting takes one, and nobody waits for drivers and frameworks that wake up. What is left
to ask takes 0.2 s."""
PROBE_DEADLINE_S = 2.7
"""For one process, where what it has said by then counts. For each way to a driver's management
library but the last, half of it."""
ROOT = Path("/")

_OPENMP = """\
#include <omp.h>
void solve(float *y, int n)
{
    #pragma omp parallel for
    for (int i = 0; i < n; i++)
        y[i] = (float)omp_get_num_threads();
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A machine that can be asked. Every function may raise RoofsmithError and OSError."""

    root: Path
    """Where /proc, /sys and /dev are."""
    environment: Callable[[], Environment]
    """The processor, the usual tools and packages."""
    load: Callable[[], float]
    """Processes that run or want to, averaged over a minute."""
    processor_time: Callable[[], ProcessorTime | None]
    """Of all processors, since the machine was started."""
    isolation: Callable[[], Mapping[str, str]]
    """Layers of walls that aren't granted, and why."""
    compilers: Callable[[], Mapping[str, str]]
    """gcc, g++, clang, clang++: version lines of those that are installed."""
    openmp: Callable[[], Built | BuildFailed]
    """Builds a kernel with several threads."""
    toolkit: Callable[[], Toolkit]
    """nvcc, the one that kernels would be built with."""
    hipcc: Callable[[], Compiler]
    tool: Callable[[str], str | None]
    """Version line of one of a GPU vendor's profilers; None: it isn't installed."""
    ncu: Callable[[], str | None]
    rocprof: Callable[[], str | None]
    cuda: Callable[[], Mapping[str, Any]]
    """The CUDA driver's answer, see `devices.cuda_probe`."""
    gpu_settings: Callable[[str], GpuSettings | None]
    """How an NVIDIA GPU is set up, by UUID; None: neither NVML nor nvidia-smi answers."""
    lockable: Callable[[Vendor, str, float | None], None]
    """Raises MachineError if the clocks of a GPU (UUID, maximum clock) can't be locked; changes
    nothing."""
    fleet: Callable[[Vendor], tuple[GpuStatus, ...]]
    """A vendor's GPUs that this process may use, now."""
    ours: Ours
    """Which processes are this one and its children: what they do on a GPU is no other work."""
    rocminfo: Callable[[], str]
    torch_build: Callable[[], TorchBuild | None]
    triton: Callable[[], str | None]
    """Version of Triton."""
    python_headers: Callable[[], Path | None]
    torch_sees: Callable[[], Mapping[str, Any] | None]
    """See `devices.torch_probe`; None: not within the deadline."""
    wiki: Callable[[], Sequence[PageProblem]]
    """What is wrong with pages of the hardware wiki."""
    try_to_write: Callable[[Path], None]
    """Raises OSError if no file can be made in a folder."""
    free_bytes: Callable[[Path], int]


def sources_of(settings: Settings, share: float = 1.0) -> Sources:
    """This machine.

    Args:
        settings: where files go.
        share: of the usual patience with whatever may hang.
    """
    probe_s = PROBE_DEADLINE_S * share
    return Sources(
        root=ROOT,
        environment=CpuSource(tool_deadline_s=min(probe_s, probes.PROBE_DEADLINE_S)).environment,
        load=lambda: os.getloadavg()[0],
        processor_time=processor_time,
        isolation=lambda: isolate("standard").lacking,
        compilers=compiler_versions,
        openmp=partial(_build_openmp, settings.builds_dir),
        toolkit=find_toolkit,
        hipcc=find_hipcc,
        tool=gpu_tools.version,
        ncu=find_ncu,
        rocprof=find_rocprof,
        cuda=ask_cuda,
        gpu_settings=lambda uuid: ask_nvml(uuid) or ask_nvidia_smi(uuid),
        lockable=_require_lockable,
        fleet=lambda vendor: _fleet(vendor, probe_s / 2).gpus(),
        ours=OwnProcesses().among,
        rocminfo=ask_rocminfo,
        torch_build=frameworks.torch_build,
        triton=frameworks.triton_version,
        python_headers=frameworks.python_headers,
        torch_sees=partial(frameworks.ask_torch, probe_s),
        wiki=partial(_wiki_problems, settings),
        try_to_write=_try_to_write,
        free_bytes=lambda path: shutil.disk_usage(path).free,
    )


def _fleet(vendor: Vendor, deadline_s: float) -> HostFleet:
    """As everywhere, but with less patience: if one way hangs, the next still has its time."""
    by_vendor: Mapping[Vendor, tuple[FleetSource, ...]] = {
        "nvidia": (
            NvmlFleet(deadline_s=deadline_s),
            NvidiaSmiFleet(),
        ),
        "amd": (
            AmdSmiLibraryFleet(deadline_s=deadline_s),
            RocmSmiFleet(deadline_s=deadline_s),
            AmdSmiFleet(),
        ),
    }
    return HostFleet(vendor, sources=by_vendor[vendor], ask_cuda=partial(ask_cuda, deadline_s))


def _require_lockable(vendor: Vendor, uuid: str, max_clock_hz: float | None) -> None:
    driver = NvmlClocks() if vendor == "nvidia" else RocmSmiClocks(max_clock_hz)
    driver.require_lockable(uuid)


def _build_openmp(builds_dir: Path) -> Built | BuildFailed:
    source = SourceFile(path="probe.c", text=_OPENMP)
    build = BuildSpec(flags=("-O1", "-fopenmp"))
    return CToolchain(builds_dir).build(Candidate(language="c", sources=(source,), build=build))


def _wiki_problems(settings: Settings) -> tuple[PageProblem, ...]:
    """Bundled pages are right by their tests: without own ones there is nothing to read."""
    folder = settings.own_pages()
    if folder is None or not folder.exists():
        return ()
    return Wiki.load(folder).problems


def _try_to_write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder):
        pass
