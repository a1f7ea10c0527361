"""HIP candidates to shared libraries, with hipcc."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from roofsmith.cuda_programs import find_rocm_program
from roofsmith.domain.kernel import BuildSpec, Candidate, KernelResources
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.toolchains.builder import (
    DEFER_WAITS,
    BuildPlan,
    content_key,
    included,
    unfit,
    units,
    unsafe_path,
)
from roofsmith.toolchains.compilers import Compiler, compiler_version
from roofsmith.toolchains.compiling import CompilingToolchain
from roofsmith.toolchains.disassembly import demangled
from roofsmith.toolchains.flags import is_shell_safe, joined, refusal
from roofsmith.toolchains.limits import CompilerLimits
from roofsmith.toolchains.nvcc_flags import STREAM_MACROS
from roofsmith.toolchains.ptxas import Demangle

_COMPILED = frozenset({".hip", ".cu", ".cc", ".cpp", ".cxx", ".c"})
ARCHITECTURE = re.compile(r"gfx[0-9a-f]+(?::(?:sramecc|xnack)[+-])*")
_REMARK = re.compile(
    r"remark:\s+(?:[^\s:][^:\n]*:\d+:\d+:\s+)?(?P<name>[A-Z]\w+(?: \w+)?)(?: \[[^\]]+\])?: "
    r"(?P<value>.*?)\s*\[-Rpass-analysis=kernel-resource-usage\]\s*$"
)
_START, _END = "Function Name", "LDS Size"


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
        if arch is None or ARCHITECTURE.fullmatch(arch) is None:
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
        resources=partial(read_resources, arch=arch, demangle=demangle),
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
    if path := find_rocm_program("hipcc"):
        return Compiler("hipcc", path, compiler_version(path))
    raise ToolMissingError(
        "no HIP compiler: hipcc found neither in ROCM_PATH, HIP_PATH nor on PATH, nor in /opt/rocm",
        hint="install ROCm's hipcc (`apt-get install hipcc`, from AMD's archive) or set ROCM_PATH",
    )


def read_resources(output: str, arch: str, demangle: Demangle) -> tuple[KernelResources, ...]:
    """The resources of every kernel that the remarks describe, in their order.

    What isn't printed, or is printed as an expression for the linker, is None. Older releases put
    `remark:` in front of the place; the last line, of the LDS, is printed for kernels only (LLVM's
    `AMDGPUAsmPrinter::emitResourceUsageRemarks`).
    """
    described = [found for found in _described(output) if _END in found]
    names = demangle(found[_START] for found in described)
    return tuple(_resources(found, arch, names[found[_START]]) for found in described)


def _described(output: str) -> list[dict[str, str]]:
    functions: list[dict[str, str]] = []
    for line in output.splitlines():
        match = _REMARK.search(line)
        if match is None:
            continue
        if match["name"] == _START:
            functions.append({})
        if functions:
            functions[-1][match["name"]] = match["value"]
    return functions


def _resources(found: Mapping[str, str], arch: str, name: str) -> KernelResources:
    return KernelResources(
        name=name,
        arch=arch,
        registers=_number(found.get("VGPRs")),
        accumulation_registers=_number(found.get("AGPRs")),
        scalar_registers=_number(found.get("SGPRs", found.get("TotalSGPRs"))),
        shared_bytes=_number(found.get(_END)),
        stack_bytes=_number(found.get("ScratchSize")),
        spilled_registers=_number(found.get("VGPRs Spill")),
        occupancy_warps=_number(found.get("Occupancy")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
