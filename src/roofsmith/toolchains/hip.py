"""HIP candidates to shared libraries, with hipcc."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import (
    BuildSpec,
    Built,
    Candidate,
    KernelResources,
    Language,
    Signature,
)
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.toolchains import amdgpu_remarks
from roofsmith.toolchains.builder import (
    DEFER_WAITS,
    FORMAT,
    LibraryBuilder,
    Plan,
    unfit,
    units,
    unsafe_path,
)
from roofsmith.toolchains.canary import header, included
from roofsmith.toolchains.compilers import Compiler, compiler_version
from roofsmith.toolchains.demangling import demangled
from roofsmith.toolchains.flags import is_shell_safe, joined, refusal
from roofsmith.toolchains.limits import Limits
from roofsmith.toolchains.nvcc_flags import STREAM_MACROS
from roofsmith.toolchains.signature import read_signature

_COMPILED = frozenset({".hip", ".cu", ".cc", ".cpp", ".cxx", ".c"})
_USUAL = Path("/opt/rocm/bin/hipcc")
_ARCH = re.compile(r"gfx[0-9a-f]+(?::(?:sramecc|xnack)[+-])*")


class HipToolchain:
    """Builds `.hip` candidates for one device, each content once, under limits.

    Args:
        cache_dir: folder of finished builds, as for every other toolchain.
        device: the GPU that the candidates are for; None can read signatures only.
        deadline_s: wall time that one build may take.
        memory_bytes: address space that each process of a build may take.
        canary: compiled into every library.
        at_once: builds that may run at the same time.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    def __init__(
        self,
        cache_dir: Path,
        device: Device | None,
        *,
        deadline_s: float = 120.0,
        memory_bytes: int = 16 * 1024**3,
        canary: str | None = None,
        at_once: int = 1,
    ) -> None:
        self._builder = LibraryBuilder(cache_dir, Limits(deadline_s, memory_bytes), at_once)
        self._canary = canary
        self._device = device

    def signature(self, candidate: Candidate) -> Signature:
        """Read the entry's parameters from the source; nothing is compiled.

        Raises:
            SignatureError: no such function, or a parameter outside the contract.
        """
        return read_signature(candidate)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile, or take the same content from the cache.

        Raises:
            ToolMissingError: hipcc isn't installed.
            MachineError: there is no AMD device to build for.
            StorageError: the cache can't be written.
        """
        return self.build_all((candidate,))[0]

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """The same for several, side by side; no GPU is used.

        Raises:
            ToolMissingError: hipcc isn't installed.
            MachineError: there is no AMD device to build for.
            StorageError: the cache can't be written.
        """
        return self._builder.build_all([self._planned(candidate) for candidate in candidates])

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        """As many as it was told."""
        return self._builder.at_once

    def differs(self, candidate: Candidate) -> bool:
        """Whether the cache holds another library than compiling a candidate gives now.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        return self._builder.differs(_plan(candidate, find_hipcc(), self._arch(), self._canary))

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """As clang remarked when it was built."""
        return built.resources

    def _planned(self, candidate: Candidate) -> Plan | BuildFailed:
        refused = (
            _refusal(candidate.build)
            or unfit(candidate, "hipcc")
            or unsafe_path(units(candidate, _COMPILED))
        )
        if refused is not None:
            return BuildFailed(reason=refused[0], detail=refused[1])
        arch = self._arch()
        return _plan(candidate, find_hipcc(), arch, self._canary)

    def _arch(self) -> str:
        arch = self._device.arch if self._device is not None else None
        if arch is None or _ARCH.fullmatch(arch) is None:
            raise MachineError(
                f"no AMD GPU to build for: the device's architecture is {arch or 'not known'}",
                hint="run on a machine with an AMD GPU; `rocminfo` lists what the driver sees",
            )
        return arch


def _plan(candidate: Candidate, compiler: Compiler, arch: str, canary: str | None) -> Plan:
    arguments = (
        *joined(candidate.build.flags), f"--offload-arch={arch}", "-shared", "-fPIC",
        "-fno-color-diagnostics", "-ferror-limit=50", "-Rpass-analysis=kernel-resource-usage",
        "-include", str(DEFER_WAITS), *included(canary), "-I.",
        "-x", "hip", *units(candidate, _COMPILED), "-x", "none",
        *joined(candidate.build.link), "-Wl,-z,defs",
    )  # fmt: skip
    content = {
        "format": FORMAT,
        "language": candidate.language,
        "entry": candidate.entry,
        "sources": [[source.path, source.text] for source in candidate.sources],
        "arguments": arguments,
        **header(canary),
        "header": DEFER_WAITS.read_text(),
        "compiler": [str(compiler.path), compiler.version],
    }
    demangle = partial(demangled, beside=compiler.path.parent)
    return Plan(
        candidate,
        compiler,
        arguments,
        key=content_id(canonical_json(content))[:32],
        resources=partial(amdgpu_remarks.read_resources, arch=arch, demangle=demangle),
        canary=canary,
    )


def _refusal(build: BuildSpec) -> tuple[str, str] | None:
    """As for clang; further, what would reach a shell or another default stream."""
    for flag in joined((*build.flags, *build.link)):
        if any(macro in flag for macro in STREAM_MACROS):
            why = "measurements rely on the legacy default stream"
        elif flag.endswith("=native"):
            why = "the architecture is that of the device"
        elif not is_shell_safe(flag):
            why = "hipcc hands it to a shell; flags are made of plain characters"
        else:
            continue
        return "flag_not_allowed", f"flag `{flag}` is not allowed: {why}"
    return refusal(build)


def find_hipcc() -> Compiler:
    """The first hipcc of ROCM_PATH, HIP_PATH, PATH and /opt/rocm.

    Raises:
        ToolMissingError: there is none.
        MachineError: it doesn't answer.
    """
    for path in _candidates():
        if path.is_file() and os.access(path, os.X_OK):
            return Compiler("hipcc", path, compiler_version(path))
    raise ToolMissingError(
        "no HIP compiler: hipcc found neither in ROCM_PATH, HIP_PATH nor on PATH, nor in /opt/rocm",
        hint="install ROCm's hipcc (`apt-get install hipcc`, from AMD's archive) or set ROCM_PATH",
    )


def _candidates() -> Iterator[Path]:
    for variable in ("ROCM_PATH", "HIP_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "hipcc"
    found = shutil.which("hipcc")
    if found:
        yield Path(found)
    yield _USUAL
