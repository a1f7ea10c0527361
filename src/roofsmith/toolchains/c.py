"""C and C++ candidates to shared libraries, with gcc or clang."""

from __future__ import annotations

from roofsmith.domain.kernel import Candidate
from roofsmith.toolchains.builder import BuildPlan, content_key, included, unfit, units
from roofsmith.toolchains.compilers import find_compiler, resolved_target
from roofsmith.toolchains.compiling import CompilingToolchain
from roofsmith.toolchains.flags import joined, refusal
from roofsmith.toolchains.limits import CompilerLimits

LINES = ("-g1",)
"""Line numbers beside the code, which stays as it is: listings name lines of the source by them."""
_COMPILED = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".C"})


class CToolchain(CompilingToolchain):
    usual = CompilerLimits(deadline_s=60.0, memory_bytes=4 * 1024**3)

    def _refusal(self, candidate: Candidate) -> tuple[str, str] | None:
        return refusal(candidate.build) or unfit(candidate, "gcc", "clang")

    def _plan(self, candidate: Candidate) -> BuildPlan:
        return _plan(candidate, self._canary)


def _plan(candidate: Candidate, canary: str | None) -> BuildPlan:
    compiler = find_compiler(candidate.build, candidate.language)
    flags = joined(candidate.build.flags)
    kind = "c" if candidate.language == "c" else "c++"
    quiet = (
        ("-fno-color-diagnostics", "-ferror-limit=50")
        if compiler.program.startswith("clang")
        else ("-fdiagnostics-color=never", "-fmax-errors=50")
    )
    arguments = (
        *LINES, *flags, "-shared", "-fPIC", "-I.", *quiet,
        *included(canary), "-x", kind, *units(candidate, _COMPILED), "-x", "none",
        *joined(candidate.build.link), "-Wl,-z,defs",
    )  # fmt: skip
    target = resolved_target(compiler, flags)
    key = content_key(candidate, compiler, arguments, canary, target=target)
    return BuildPlan(candidate, compiler, arguments, key=key, canary=canary)
