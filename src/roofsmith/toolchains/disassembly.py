"""The hot loops of a GPU kernel: SASS from cuobjdump, or the assembly that Triton kept for AMD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.instructions import (
    Dialect,
    Function,
    hot_loops,
    mnemonics,
    read_gcn,
    read_sass,
)
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError
from roofsmith.toolchains.demangling import demangled
from roofsmith.toolchains.listing import kept_files, sass

_STALLS = 5
"""Instructions that are named for their stalls."""


@dataclass(frozen=True, slots=True)
class GpuDisassembler:
    """Port `Disassembler` for kernels on a GPU.

    Nobody samples them while they run; a profile that sees single instructions (rocprofv3's thread
    trace) says which of them wait.
    """

    compiled_dir: Path
    """Where workers keep what Triton compiles, in a folder per candidate."""

    def disassemble(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        """The loops of the kernel that takes most of the time, the most deeply nested first."""
        del workload
        notes, missing = _stalls(profile), list[str]()
        tool, dialect, functions = self._functions(built, profile.kernel, missing)
        chosen = _named(functions, profile.kernel)
        if functions and not chosen:
            missing.append(f"no code is of the kernel {profile.kernel}: all that there is is shown")
        loops = hot_loops(chosen or functions, dialect)
        if functions and not loops:
            missing.append("it has no loop")
        return Disassembly(
            tool=tool, loops=loops, notes=notes, missing=tuple(missing),
            mnemonics=mnemonics(functions),
        )  # fmt: skip

    def _functions(
        self, built: Built, kernel: str | None, missing: list[str]
    ) -> tuple[str | None, Dialect, list[Function]]:
        """Tool, spelling and functions; what can't be had goes to `missing`."""
        if built.language == "hip":
            missing.append(
                "HIP libraries are not taken apart here: `llvm-objdump --offloading LIBRARY`, then "
                f"`llvm-objdump -d` on what it writes; the library is {built.library}"
            )
            return None, "gcn", []
        if built.language == "cuda":
            return "cuobjdump", "sass", _sass_of([built.library], missing)
        folder = self.compiled_dir / built.candidate_id / "triton"
        assembly = list(_kept(folder, "amdgcn", kernel))
        if assembly:
            texts = (path.read_text(encoding="utf-8", errors="replace") for path in assembly)
            return "Triton", "gcn", [found for text in texts for found in read_gcn(text)]
        cubins = list(_kept(folder, "cubin", kernel))
        if not cubins:
            missing.append("no code of a Triton kernel was kept: it is PyTorch's own, or never ran")
            return None, "sass", []
        return "cuobjdump", "sass", _sass_of(cubins, missing)


def _sass_of(paths: Sequence[Path], missing: list[str]) -> list[Function]:
    found = []
    for path in paths:
        try:
            found += read_sass(sass(path))
        except MachineError as error:
            missing.append(f"{error.message}; {error.hint}")
            break
    return found


def _kept(folder: Path, suffix: str, kernel: str | None) -> Iterator[Path]:
    """Files of compiled kernels, those of the profiled one where there are any."""
    files = kept_files(folder, suffix)
    of_kernel = [path for path in files if path.stem == kernel]
    yield from of_kernel or files


def _named(functions: Sequence[Function], kernel: str | None) -> list[Function]:
    """Those that the profiler calls so; all where it names none."""
    if kernel is None:
        return list(functions)
    names = demangled(function.name for function in functions)
    return [f for f in functions if kernel in (f.name, names[f.name])]


def _stalls(profile: Profile) -> tuple[str, ...]:
    return tuple(
        f"{hot.stall_share:.0%} of all stalls at {hot.instruction}"
        + (f" ({hot.source})" if hot.source else "")
        for hot in profile.hotspots[:_STALLS]
    )
