"""Built GPU kernels, to be read: PTX, SASS, AMD's assembly, their hot loops, their names."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from roofsmith.analysis.instructions import (
    Dialect,
    Function,
    hot_loops,
    mnemonics,
    read_amd_objdump,
    read_gcn,
    read_sass,
)
from roofsmith.cuda_programs import find_program, find_rocm_program
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built
from roofsmith.domain.modes import CodeKind
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError, ToolMissingError, UsageError
from roofsmith.programs import answer
from roofsmith.toolchains.compilers import compiler_environment
from roofsmith.toolchains.elf import code_objects

Printed = Literal["ptx", "sass"]
"""What cuobjdump prints."""
_MACHINE_CODE = "Fatbin elf code:"
"""Begins what cuobjdump prints of each architecture that there is code for."""
_DEADLINE_S = 60.0
_MAX_FILES = 50
"""Kernels of one module that are listed."""
_MAX_CODE_BYTES = 64 * 1024**2
"""A cubin with its line tables has some hundred kilobytes."""
_SUFFIXES: Mapping[CodeKind, str] = {"asm": "amdgcn", "ptx": "ptx", "sass": "cubin"}
"""Of what is kept, by what is made of it."""
_UNKEPT = (
    "its kernels are PyTorch's own, or of a language that keeps none (CuTe DSL does where it is"
    ' asked to: `cute.compile(..., options="--keep-ptx --keep-cubin")`)'
)
_STALLS = 5
"""Instructions that are named for their stalls."""
_PROGRAMS = ("cu++filt", "c++filt", "llvm-cxxfilt")
_RETURNS = re.compile(r"^(?:void|float|double|int) (?=\S)")
_NAMES_DEADLINE_S = 20.0


def listing(built: Built, kind: CodeKind, compiled_dir: Path) -> str:
    """The code of every kernel of a candidate: as cuobjdump prints it, or as Triton kept it.

    Args:
        built: in CUDA; or a module, once it has run.
        kind: of code.
        compiled_dir: where workers keep what Triton compiles, in a folder per candidate.

    Raises:
        UsageError: there is no such code of this kernel.
        ToolMissingError: cuobjdump isn't installed.
        MachineError: it fails.
    """
    match built.language:
        case "cuda" if kind != "asm":
            text = _cuobjdump(kind, built.library)
            if kind == "sass" and _MACHINE_CODE not in text:
                raise UsageError(
                    "it was built as PTX, which has no sass before a driver compiles it",
                    hint="--kind ptx",
                )
            return text
        case language if language in MODULE_LANGUAGES:
            return "\n".join(_kept(built, kind, compiled_dir))
        case "hip" if kind == "asm":
            return "\n".join(hip_objdump(built.library))
        case _:
            raise UsageError(f"a kernel in {built.language} has no {kind}")


def kept_kinds(candidate_id: str, compiled_dir: Path) -> tuple[CodeKind, ...]:
    """What can be listed of the kernels that were compiled for a candidate while it ran."""
    folder = compiled_dir / candidate_id
    return tuple(kind for kind, suffix in _SUFFIXES.items() if kept_files(folder, suffix))


def kept_files(folder: Path, suffix: str) -> tuple[Path, ...]:
    """Files of compiled kernels in a candidate's folder, sorted: in Triton's cache, and what CuTe
    DSL was asked to keep. None that only a forger would leave."""
    found = chain(folder.glob(f"triton/*/*.{suffix}"), folder.glob(f"*.{suffix}"))
    return tuple(
        path
        for path in sorted(islice(found, _MAX_FILES))
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_CODE_BYTES
    )


def _kept(built: Built, kind: CodeKind, compiled_dir: Path) -> Iterator[str]:
    files = kept_files(compiled_dir / built.candidate_id, _SUFFIXES[kind])
    if not files:
        there = kept_kinds(built.candidate_id, compiled_dir)
        raise UsageError(
            f"no {kind} of this kernel was kept",
            hint=f"there is {' and '.join(there)}: --kind {there[0]}"
            if there
            else f"{_UNKEPT}, or it never ran",
        )
    for path in files:
        yield f"// {path.stem}, {path.parent.name}"
        is_text = kind != "sass"
        yield path.read_text(encoding="utf-8", errors="replace") if is_text else sass(path)


def sass(code: Path) -> str:
    """The SASS of every kernel in a library or cubin, as cuobjdump prints it.

    Raises:
        ToolMissingError: cuobjdump isn't installed.
        MachineError: it fails.
    """
    return _cuobjdump("sass", code)


def hip_objdump(library: Path) -> Iterator[str]:
    """What llvm-objdump prints of each code object in a HIP library.

    Raises:
        ToolMissingError: llvm-objdump isn't installed.
        MachineError: it fails, such as one that is older than the GPU; or the library has no code.
    """
    try:
        objects = code_objects(library.read_bytes())
    except (OSError, ValueError) as error:
        raise MachineError(
            f"{library} can't be taken apart: {error}", hint="build it anew"
        ) from error
    if not objects:
        raise MachineError(f"{library} holds no code for AMD's GPUs", hint="is it a HIP library?")
    for target, code in objects.items():
        with TemporaryDirectory(prefix="roofsmith-") as folder:
            path = Path(folder, "code.o")
            path.write_bytes(code)
            yield f"// {target}\n{amd_objdump(path)}"


def amd_objdump(code: Path) -> str:
    """What llvm-objdump prints of one code object, such as Triton's `.hsaco`.

    Raises:
        ToolMissingError: llvm-objdump isn't installed.
        MachineError: it fails, such as one that is older than the GPU.
    """
    program = find_rocm_program("llvm-objdump", "llvm/bin")
    if program is None:
        raise ToolMissingError(
            "llvm-objdump, which reads compiled HIP kernels, is neither in ROCm nor on PATH",
            hint="install ROCm's (`apt-get install rocm-llvm`) or LLVM's (`apt-get install llvm`)",
        )
    try:
        return answer([str(program), "-d", str(code)], _DEADLINE_S)
    except MachineError as error:
        hint = f"{program} is perhaps too old for its GPU: use ROCm's own"
        raise MachineError(error.message, hint=hint) from error


def _cuobjdump(kind: Printed, code: Path) -> str:
    program = find_program("cuobjdump")
    if program is None:
        raise ToolMissingError(
            "cuobjdump, which reads compiled CUDA kernels, is neither beside nvcc nor on PATH, nor "
            "in a wheel",
            hint="install it: `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or "
            "`apt-get install cuda-cuobjdump-13-0 cuda-nvdisasm-13-0` from NVIDIA's repository",
        )
    starts = find_program("nvdisasm")
    folders = [program.parent, *([starts.parent] if starts is not None else [])]
    environment = compiler_environment(Path("/tmp"))
    environment["PATH"] = ":".join([*map(str, folders), environment.get("PATH", "")])
    try:
        return answer([str(program), f"-{kind}", str(code)], _DEADLINE_S, env=environment)
    except MachineError as error:
        raise MachineError(
            error.message,
            hint="cuobjdump needs nvdisasm beside it or on PATH, of the same CUDA release",
        ) from error


def demangled(names: Iterable[str], beside: Path | None = None) -> Mapping[str, str]:
    """Mangled names and what they stand for, without return type and parameters.

    Args:
        names: as a compiler prints them; those that aren't mangled stay as they are.
        beside: a folder that may hold the compiler's own demangler.
    """
    mangled = list(dict.fromkeys(names))
    program = _program(beside)
    if program is None or not mangled:
        return {name: name for name in mangled}
    given, environment = (
        "".join(f"{name}\n" for name in mangled),
        compiler_environment(Path("/tmp")),
    )
    try:
        printed = answer([program], _NAMES_DEADLINE_S, env=environment, given=given).splitlines()
    except MachineError:
        return {name: name for name in mangled}
    if len(printed) != len(mangled):
        return {name: name for name in mangled}
    return {name: without_parameters(text) for name, text in zip(mangled, printed, strict=True)}


def without_parameters(signature: str) -> str:
    """`void scale<128>(float const*, int)` is scale<128>."""
    text = signature.strip()
    if text.endswith(")"):
        depth = 0
        for at in range(len(text) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(text[at], 0)
            if depth == 0:
                text = text[:at].rstrip()
                break
    return _RETURNS.sub("", text) or signature.strip()


def _program(beside: Path | None) -> str | None:
    for name in _PROGRAMS:
        if beside is not None and os.access(beside / name, os.X_OK):
            return str(beside / name)
        found = shutil.which(name)
        if found:
            return found
    return None


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
            try:
                printed = list(hip_objdump(built.library))
            except MachineError as error:
                missing.append(f"{error.message}; {error.hint}")
                return None, "gcn", []
            return "llvm-objdump", "gcn", [f for text in printed for f in read_amd_objdump(text)]
        if built.language == "cuda":
            return "cuobjdump", "sass", _sass_of([built.library], missing)
        folder = self.compiled_dir / built.candidate_id
        assembly = list(_files_of(folder, "amdgcn", kernel))
        if assembly:
            texts = (path.read_text(encoding="utf-8", errors="replace") for path in assembly)
            return "Triton", "gcn", [found for text in texts for found in read_gcn(text)]
        cubins = list(_files_of(folder, "cubin", kernel))
        if not cubins:
            missing.append(f"no code was kept: {_UNKEPT}, or it never ran")
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


def _files_of(folder: Path, suffix: str, kernel: str | None) -> Iterator[Path]:
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
