"""HIP candidates to shared libraries, with hipcc."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from roofsmith.domain.kernel import BuildSpec, Candidate
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.toolchains import amdgpu_remarks
from roofsmith.toolchains.builder import (
    DEFER_WAITS,
    BuildPlan,
    content_key,
    unfit,
    units,
    unsafe_path,
)
from roofsmith.toolchains.canary import included
from roofsmith.toolchains.compilers import Compiler, compiler_version
from roofsmith.toolchains.compiling import CompilingToolchain
from roofsmith.toolchains.demangling import demangled
from roofsmith.toolchains.flags import is_shell_safe, joined, refusal
from roofsmith.toolchains.limits import CompilerLimits
from roofsmith.toolchains.nvcc_flags import STREAM_MACROS

_COMPILED = frozenset({".hip", ".cu", ".cc", ".cpp", ".cxx", ".c"})
_USUAL = Path("/opt/rocm/bin/hipcc")
_ARCH = re.compile(r"gfx[0-9a-f]+(?::(?:sramecc|xnack)[+-])*")


class HipToolchain(CompilingToolchain):
    """Builds `.hip` candidates for one device."""

    usual = CompilerLimits(deadline_s=120.0, memory_bytes=16 * 1024**3)

    def _refusal(self, candidate: Candidate) -> tuple[str, str] | None:
        return (
            refused_flag(candidate.build)
            or unfit(candidate, "hipcc")
            or unsafe_path(units(candidate, _COMPILED))
        )

    def _plan(self, candidate: Candidate) -> BuildPlan:
        arch = self._arch()  # first: without a device no compiler helps
        return _plan(candidate, find_hipcc(), arch, self._canary)

    def _arch(self) -> str:
        arch = self._device.arch if self._device is not None else None
        if arch is None or _ARCH.fullmatch(arch) is None:
            raise MachineError(
                f"no AMD GPU to build for: the device's architecture is {arch or 'not known'}",
                hint="run on a machine with an AMD GPU; `rocminfo` lists what the driver sees",
            )
        return arch


def _plan(candidate: Candidate, compiler: Compiler, arch: str, canary: str | None) -> BuildPlan:
    arguments = (
        *joined(candidate.build.flags), f"--offload-arch={arch}", "-shared", "-fPIC",
        "-fno-color-diagnostics", "-ferror-limit=50", "-Rpass-analysis=kernel-resource-usage",
        "-include", str(DEFER_WAITS), *included(canary), "-I.",
        "-x", "hip", *units(candidate, _COMPILED), "-x", "none",
        *joined(candidate.build.link), "-Wl,-z,defs",
    )  # fmt: skip
    demangle = partial(demangled, beside=compiler.path.parent)
    return BuildPlan(
        candidate,
        compiler,
        arguments,
        key=content_key(candidate, compiler, arguments, canary, header=DEFER_WAITS.read_text()),
        resources=partial(amdgpu_remarks.read_resources, arch=arch, demangle=demangle),
        canary=canary,
    )


def refused_flag(build: BuildSpec) -> tuple[str, str] | None:
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
