"""Where CUDA's and ROCm's programs lie: one answer for who runs one and who records which."""

from __future__ import annotations

import os
import shlex
import shutil
import site
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.programs import asked

VARIABLES = ("CUDA_HOME", "CUDA_PATH")
"""Name the folder of a toolkit; the first one that is set is taken."""
_USUAL = Path("/usr/local/cuda")
ROCM = Path("/opt/rocm")
_BELOW = ("bin", "compute-sanitizer")
"""Folders of a toolkit with programs in them."""
_DRY_RUN_DEADLINE_S = 20.0
INSTALL = (
    "`pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl` (found by itself), or "
    "install the CUDA toolkit and put nvcc on PATH or set CUDA_HOME"
)
"""How to get all that CUDA kernels are built with."""
_NSIGHT_COMPUTE = Path("/opt/nvidia/nsight-compute")
"""NVIDIA's packages put each release of ncu into a folder of its own here."""
_TRITON_BRINGS = "triton/backends/nvidia/bin"
"""Its wheel holds NVIDIA's binary utilities: ptxas, cuobjdump, nvdisasm."""


def find_nvcc() -> Path:
    """The nvcc that kernels are built with: of CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, wheels.

    Raises:
        ToolMissingError: there is none; or the user names a toolkit without one, and another would
            be a surprise.
    """
    for variable in VARIABLES:
        if chosen := os.environ.get(variable):
            named = Path(chosen, "bin", "nvcc")
            if _runs(named):
                return named
            raise ToolMissingError(
                f"{variable}={chosen} holds no bin/nvcc",
                hint=f"export {variable}=/path/to/cuda, whose bin/nvcc is there, or unset it: then "
                "nvcc is looked for on PATH, in /usr/local/cuda and in pip's wheels",
            )
    for place in _nvccs():
        if _runs(place):
            return place
    raise ToolMissingError(
        "no CUDA compiler: nvcc found neither in CUDA_HOME, CUDA_PATH nor on PATH, nor in "
        "/usr/local/cuda, nor in the wheel nvidia-cuda-nvcc",
        hint=INSTALL,
    )


def find_program(name: str) -> Path | None:
    """A program of the CUDA toolkit, such as nvcc, ncu or cuobjdump; None if it isn't installed.

    First of the toolkit that builds kernels, so that releases fit: beside nvcc, which may be a
    script that starts another one, and in that one's toolkit. Then on PATH, in other toolkits, in
    pip's wheels, and where packages of single programs put them.
    """
    try:
        nvcc = find_nvcc()
    except ToolMissingError:
        nvcc = None
    if name == "nvcc":
        return nvcc
    return next(filter(_runs, _places(name, nvcc)), None)


def find_rocm_program(name: str, below: str = "bin") -> Path | None:
    """A program of ROCm, such as hipcc or rocprofv3: of ROCM_PATH, HIP_PATH, PATH and /opt/rocm.

    Args:
        name: of the program.
        below: folder of ROCm that it lies in.
    """
    on_path = shutil.which(name)
    homes = (os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH"))
    named = [Path(home, below, name) for home in homes if home]
    own = [ROCM / below / name]
    last = [Path(on_path)] if on_path else []
    # LLVM's own programs on PATH are mostly older than ROCm's.
    places = (*named, *last, *own) if below == "bin" else (*named, *own, *last)
    return next(filter(_runs, places), None)


def toolkit_root(nvcc: Path) -> Path:
    """The folder of the toolkit that an nvcc belongs to; nvcc on PATH may be a script.

    Raises:
        MachineError: it doesn't answer.
    """
    return _root(nvcc.resolve(), nvcc.stat().st_mtime_ns)


def pip_folders() -> tuple[Path, ...]:
    """Folders that pip installs packages for this Python into; they need not be there."""
    own = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    named = (sysconfig.get_path("platlib"), sysconfig.get_path("purelib"))
    return tuple(map(Path, dict.fromkeys((*named, *site.getsitepackages(), *own))))


def _nvccs() -> Iterator[Path]:
    if on_path := shutil.which("nvcc"):
        yield Path(on_path)
    yield _USUAL / "bin" / "nvcc"
    yield from _of_wheels("nvcc")


def _places(name: str, nvcc: Path | None) -> Iterator[Path]:
    if nvcc is not None:
        yield nvcc.parent / name
        with suppress(MachineError):  # then nothing can be built, but perhaps profiled
            yield from _of_toolkit(toolkit_root(nvcc), name)
    if on_path := shutil.which(name):
        yield Path(on_path)
    for home in (*map(os.environ.get, VARIABLES), str(_USUAL)):
        if home:
            yield from _of_toolkit(Path(home), name)
    yield from _of_wheels(name)
    if name == "ncu":
        yield from sorted(_NSIGHT_COMPUTE.glob("*/ncu"), key=_release, reverse=True)
    yield from (folder / _TRITON_BRINGS / name for folder in pip_folders())


def _of_toolkit(root: Path, name: str) -> Iterator[Path]:
    return (root / below / name for below in _BELOW)


def _of_wheels(name: str) -> Iterator[Path]:
    """In NVIDIA's wheels: those of CUDA 13 share one folder, older ones have one each."""
    for folder in pip_folders():
        yield from sorted(folder.glob(f"nvidia/*/bin/{name}"))


def _release(program: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in program.parent.name.split(".") if part.isdecimal())


def _runs(place: Path) -> bool:
    return place.is_file() and os.access(place, os.X_OK)


@cache
def _root(nvcc: Path, _changed: int) -> Path:
    beside = nvcc.parent.parent
    if (nvcc.parent / "nvcc.profile").is_file():
        return beside
    said = _dry_run(nvcc).splitlines()
    tops = [line.partition("TOP=")[2].strip() for line in said if line.startswith("#$ TOP=")]
    return Path(os.path.normpath(tops[0])) if tops else beside


def _dry_run(nvcc: Path) -> str:
    command = [str(nvcc), "--dryrun", "-c", "-x", "cu", "/dev/null"]
    own = {key: text for key, text in os.environ.items() if not key.startswith("NVCC_")}
    try:
        with asked(command, stderr=subprocess.STDOUT, cwd="/", env=own) as process:
            said, _ = process.communicate(timeout=_DRY_RUN_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or f"no answer within {_DRY_RUN_DEADLINE_S:g} s"
        raise MachineError(
            f"`{shlex.join(command)}` doesn't say which toolkit it belongs to: {why}",
            hint="run that command by hand; reinstall the toolkit if it hangs or fails there too",
        ) from error
    return said.decode("utf-8", "replace")
