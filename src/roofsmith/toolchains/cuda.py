"""CUDA candidates to shared libraries, with nvcc."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed
from roofsmith.errors import MachineError
from roofsmith.toolchains import ptxas
from roofsmith.toolchains.builder import (
    DEFER_WAITS,
    BuildPlan,
    content_key,
    included,
    unfit,
    units,
    unsafe_path,
)
from roofsmith.toolchains.compilers import Compiler
from roofsmith.toolchains.compiling import CompilingToolchain
from roofsmith.toolchains.cuda_toolkit import (
    Architecture,
    Toolkit,
    architecture_for,
    check_driver,
    chosen_host_compiler,
    cutlass_includes,
    driver_library,
    find_host_compiler,
    find_toolkit,
)
from roofsmith.toolchains.diagnostics import LESS_SHARED, TOO_MUCH_SHARED
from roofsmith.toolchains.disassembly import demangled
from roofsmith.toolchains.limits import CompilerLimits
from roofsmith.toolchains.nvcc_flags import normalised, refusal

_COMPILED = frozenset({".cu", ".cc", ".cpp", ".cxx", ".c"})
_DRIVER_CALL = re.compile(r"\bcu[A-Z]\w*\s*\(")
"""Of a function such as cuTensorMapEncodeTiled."""
_LINK_DRIVER = "--library=cuda"


@dataclass(frozen=True, slots=True)
class _Setup:
    """What this machine builds with; found once."""

    toolkit: Toolkit
    host: Compiler
    architecture: Architecture
    cutlass: tuple[Path, ...]


class CudaToolchain(CompilingToolchain):
    """Builds `.cu` candidates for one device.

    A driver that is older than the toolkit is a `MachineError`, and so is a host compiler that is
    missing, or too new for nvcc.
    """

    usual = CompilerLimits(
        deadline_s=120.0, memory_bytes=16 * 1024**3
    )  # nvcc's processes map a lot

    _found: _Setup | None = None

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """As for every toolchain; what no block could launch has failed.

        What is lost on this device is noted here, since the cache gives one build to several.
        """
        made = super().build_all(candidates)
        return tuple(self._noted(self._fits(one)) for one in made)

    def _refusal(self, candidate: Candidate) -> tuple[str, str] | None:
        return (
            refusal(candidate.build)
            or unfit(candidate, "nvcc")
            or unsafe_path(units(candidate, _COMPILED))
        )

    def _plan(self, candidate: Candidate) -> BuildPlan:
        return _plan(candidate, self._setup(), self._canary)

    def _setup(self) -> _Setup:
        if self._found is None:
            arch = self._arch()
            toolkit = find_toolkit()
            architecture = architecture_for(toolkit, arch)
            self._require_driver(toolkit, architecture)
            host = find_host_compiler(toolkit)
            self._found = _Setup(toolkit, host, architecture, cutlass_includes())
        return self._found

    def _arch(self) -> str:
        arch = self._device.arch if self._device is not None else None
        if arch is None:
            raise MachineError(
                "no GPU whose architecture nvcc could build for",
                hint="run on a machine with an NVIDIA GPU; `nvidia-smi` shows whether the driver "
                "sees it",
            )
        return arch

    def _require_driver(self, toolkit: Toolkit, architecture: Architecture) -> None:
        """See that what is built can run here."""
        check_driver(toolkit, architecture)

    def _noted(self, made: Built | BuildFailed) -> Built | BuildFailed:
        note = self._setup().architecture.note if isinstance(made, Built) else None
        return made if note is None else made.model_copy(update={"notes": (note,)})

    def _fits(self, built: Built | BuildFailed) -> Built | BuildFailed:
        """A kernel whose static shared memory no block can have would fail at its first launch."""
        if isinstance(built, BuildFailed):
            return built
        limit = self._device.limits.get("max_shared_bytes_per_block") if self._device else None
        for kernel in built.resources:
            if limit is not None and (kernel.shared_bytes or 0) > limit:
                return BuildFailed(
                    reason="too_much_shared_memory",
                    detail=f"kernel {kernel.name} {TOO_MUCH_SHARED} {kernel.shared_bytes:,} bytes; "
                    f"a block can have {limit:,} ({LESS_SHARED})",
                    log=built.log,
                )
        return built


class CudaReadingToolchain(CudaToolchain):
    """Builds `.cu` candidates to be read: no GPU has to be here, nor a driver that runs them.

    Args:
        cache_dir: as of every toolchain.
        arch: of the device that they would run on, such as sm_90.
    """

    def __init__(self, cache_dir: Path, arch: str) -> None:
        super().__init__(cache_dir)
        self._built_for = arch

    def _arch(self) -> str:
        return self._built_for

    def _require_driver(self, toolkit: Toolkit, architecture: Architecture) -> None:
        """Nothing is run."""


def _plan(candidate: Candidate, setup: _Setup, canary: str | None) -> BuildPlan:
    toolkit, host = setup.toolkit, setup.host
    driver = _driver(candidate, toolkit)
    flags, link = (
        [word for word in normalised(words) if not driver or word != _LINK_DRIVER]
        for words in (candidate.build.flags, candidate.build.link)
    )
    arguments = (
        *flags, "-shared", *chosen_host_compiler(), setup.architecture.flag,
        "-Xptxas=-v", "-Xcompiler=-fPIC,-fdiagnostics-color=never,-fmax-errors=50",
        f"-include={DEFER_WAITS}", "-I.",
        *(f"-I{folder}" for folder in (*setup.cutlass, *toolkit.includes)),
        *included(canary, by_nvcc=True), "-x=cu", *units(candidate, _COMPILED),
        *link, *_runtime(toolkit), *driver, "-Xlinker=-z,defs",
    )  # fmt: skip
    if not {"--debug", "--device-debug"} & {*arguments}:
        arguments = (*arguments, "-Xlinker=-s")  # else the object files' random names stay in it
    demangle = partial(demangled, beside=toolkit.root / "bin")
    key = content_key(
        candidate, toolkit.compiler, arguments, canary,
        header=DEFER_WAITS.read_text(), host=f"{host.path}: {host.version}",
    )  # fmt: skip
    return BuildPlan(
        candidate,
        toolkit.compiler,
        arguments,
        key=key,
        settled=True,
        keep_temporary=_keep_temporary if _distinct_stems(candidate) else lambda _: (),
        explain=partial(ptxas.explain, demangle=demangle),
        resources=partial(ptxas.read_resources, demangle=demangle),
        canary=canary,
    )


def _runtime(toolkit: Toolkit) -> tuple[str, ...]:
    """Link with the shared CUDA runtime where there is one.

    Then a kernel and PyTorch in one worker share one runtime and its state. The wheels lack the
    plain name libcudart.so that nvcc looks for.
    """
    runtime = toolkit.runtime
    if runtime is None:
        return ()
    folder = runtime.parent
    plain = (folder / "libcudart.so").exists()
    linked = ("-cudart=shared",) if plain else ("-cudart=none", f"-l:{runtime.name}")
    return (f"-L{folder}", *linked, f"-Xlinker=-rpath={folder}")


def _driver(candidate: Candidate, toolkit: Toolkit) -> tuple[str, ...]:
    """Link with the driver's library where sources call it, or `-lcuda` asks for it.

    Only its file is named: the plain libcuda.so that `-lcuda` means comes with stubs alone.
    """
    words = normalised((*candidate.build.flags, *candidate.build.link))
    calls = any(_DRIVER_CALL.search(source.text) for source in candidate.sources)
    library = driver_library(toolkit) if calls or _LINK_DRIVER in words else None
    return (f"-L{library.parent}", f"-l:{library.name}") if library is not None else ()


def _keep_temporary(folder: Path) -> tuple[str, ...]:
    return ("--keep", f"--keep-dir={folder}")


def _distinct_stems(candidate: Candidate) -> bool:
    """Whether intermediate files, which are named after their sources, can lie in one folder."""
    stems = [PurePosixPath(path).stem for path in units(candidate, _COMPILED)]
    return len(stems) == len(set(stems))
