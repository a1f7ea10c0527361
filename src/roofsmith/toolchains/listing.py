"""The instructions of a built GPU kernel, to be read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from roofsmith.cuda_programs import find_program
from roofsmith.domain.kernel import Built
from roofsmith.domain.modes import CodeKind
from roofsmith.errors import MachineError, ToolMissingError, UsageError
from roofsmith.toolchains.compilers import compiler_environment

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
"""Of what Triton keeps, by what is made of it."""


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
        case "triton" | "torch":
            return "\n".join(_kept(built, kind, compiled_dir))
        case "hip":
            raise UsageError(
                "HIP libraries are not taken apart here",
                hint=f"`llvm-objdump --offloading {built.library}`, then `llvm-objdump -d` on what "
                "it writes",
            )
        case _:
            raise UsageError(f"a kernel in {built.language} has no {kind}")


def kept_kinds(candidate_id: str, compiled_dir: Path) -> tuple[CodeKind, ...]:
    """What can be listed of the kernels that Triton compiled for a candidate."""
    folder = compiled_dir / candidate_id / "triton"
    return tuple(kind for kind, suffix in _SUFFIXES.items() if kept_files(folder, suffix))


def kept_files(folder: Path, suffix: str) -> tuple[Path, ...]:
    """Files of compiled kernels in Triton's cache, sorted; none that only a forger would leave."""
    return tuple(
        path
        for path in sorted(islice(folder.glob(f"*/*.{suffix}"), _MAX_FILES))
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_CODE_BYTES
    )


def _kept(built: Built, kind: CodeKind, compiled_dir: Path) -> Iterator[str]:
    files = kept_files(compiled_dir / built.candidate_id / "triton", _SUFFIXES[kind])
    if not files:
        there = kept_kinds(built.candidate_id, compiled_dir)
        raise UsageError(
            f"Triton kept no {kind} of this kernel",
            hint=f"there is {' and '.join(there)}: --kind {there[0]}"
            if there
            else "its kernels are PyTorch's own, whose code only a profiler sees, or it never ran",
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
    return _run([str(program), f"-{kind}", str(code)], folders)


def _run(command: list[str], folders: Sequence[Path]) -> str:
    """What cuobjdump prints; it starts nvdisasm, from the first folder that has it."""
    environment = compiler_environment(Path("/tmp"))
    environment["PATH"] = ":".join([*map(str, folders), environment.get("PATH", "")])
    try:
        finished = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"`{' '.join(command)}` failed: {error}", hint="run that command by hand"
        ) from error
    if finished.returncode != 0:
        said = finished.stderr.strip() or finished.stdout.strip()
        raise MachineError(
            f"`{' '.join(command)}` ended with status {finished.returncode}: {said[:400]}",
            hint="cuobjdump needs nvdisasm beside it or on PATH, of the same CUDA release",
        )
    return finished.stdout
