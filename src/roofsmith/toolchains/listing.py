"""The instructions of a built CUDA kernel, to be read."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Literal

from roofsmith.domain.kernel import Built
from roofsmith.errors import MachineError, ToolMissingError, UsageError
from roofsmith.toolchains.compilers import compiler_environment
from roofsmith.toolchains.cuda_toolkit import find_toolkit

Listing = Literal["ptx", "sass"]
_DEADLINE_S = 60.0
_TRITON_BRINGS = "triton/backends/nvidia/bin"
"""Its wheel holds NVIDIA's binary utilities: ptxas, cuobjdump, nvdisasm."""


def listing(built: Built, kind: Listing) -> str:
    """The PTX or the SASS of every kernel in a library, as cuobjdump prints it.

    Raises:
        UsageError: this kernel isn't of CUDA.
        ToolMissingError: cuobjdump isn't installed.
        MachineError: it fails.
    """
    if built.language != "cuda":
        raise UsageError(
            f"a listing of {kind.upper()} is made from CUDA libraries; this kernel is in "
            f"{built.language}",
            hint="Triton keeps its own .ptx files in TRITON_CACHE_DIR",
        )
    return _cuobjdump(kind, built.library)


def sass(code: Path) -> str:
    """The SASS of every kernel in a library or cubin, as cuobjdump prints it.

    Raises:
        ToolMissingError: cuobjdump isn't installed.
        MachineError: it fails.
    """
    return _cuobjdump("sass", code)


def find_cuobjdump() -> Path | None:
    """Beside nvcc, on PATH, or the one that Triton brings; None if there is none."""
    try:
        found = find_toolkit().program("cuobjdump")
    except MachineError:
        on_path = shutil.which("cuobjdump")
        found = Path(on_path) if on_path else None
    if found is not None:
        return found
    brought = Path(sysconfig.get_path("purelib")) / _TRITON_BRINGS / "cuobjdump"
    return brought if brought.is_file() else None


def _cuobjdump(kind: Listing, code: Path) -> str:
    program = find_cuobjdump()
    if program is None:
        raise ToolMissingError(
            "cuobjdump, which reads compiled CUDA kernels, is neither beside nvcc nor on PATH",
            hint="install it: `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or "
            "`apt-get install cuda-cuobjdump-13-0 cuda-nvdisasm-13-0` from NVIDIA's repository",
        )
    return _run([str(program), f"-{kind}", str(code)], program.parent)


def _run(command: list[str], folder: Path) -> str:
    environment = compiler_environment(Path("/tmp"))
    environment["PATH"] = f"{folder}:{environment.get('PATH', '')}"  # it starts nvdisasm
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
