"""What to install, to set or to name where a header, a library or a symbol isn't there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_HEADER = re.compile(
    r"fatal error: (?P<gcc>\S+): No such file|cannot open source file \"(?P<nvcc>[^\"]+)\"|"
    r"'(?P<clang>[^']+)' file not found"
)
_CUTLASS = ("cutlass/", "cute/")
_CCCL = ("cub/", "thrust/", "cuda/", "nv/target")
_LIBRARIES = ("cublas", "cufft", "curand", "cusolver", "cusparse", "npp")
"""Each is a package of the toolkit's, by that name, and its headers begin with it."""
_FOR_DRIVER = (
    "of the CUDA driver API, which `-lcuda` in `link` takes from the driver (libcuda.so.1) or the "
    "toolkit's stub (package cuda-driver-dev), whichever is installed"
)
_DRIVER_FUNCTION = re.compile(r"cu[A-Z]\w*")
"""So the CUDA driver API names its functions: cuTensorMapEncodeTiled."""
_NO_OPENMP_LIBRARY = re.compile(
    r"cannot find -l:?(?:lib)?g?omp\b|unable to find library -lg?omp\b|"
    r"cannot read spec file '?libgomp\.spec"
)
_FOR_OPENMP = (
    "of OpenMP: install libomp-dev for clang (libomp-14-dev for clang-14, ...), libgomp1 for gcc"
)
_OPENMP_FUNCTION = re.compile(r"(?:omp_|GOMP_|__kmpc_)\w+")
"""So OpenMP's runtimes name theirs."""
_FOR_OPENMP_SYMBOL = "of OpenMP's runtime, which -fopenmp in `flags` links"
_NO_DRIVER_LIBRARY = re.compile(r"cannot find -l:?(?:lib)?cuda\b|unable to find library -lcuda\b")


def for_headers(errors: Iterable[str]) -> list[str]:
    """What to do about headers that a compiler didn't find, a line per package."""
    missing = [name for error in errors if (name := _missing_header(error)) is not None]
    return list(dict.fromkeys(map(_for_header, missing)))


def for_symbol(name: str) -> str | None:
    """What to do about an undefined symbol; None where nobody knows whose it is."""
    if _DRIVER_FUNCTION.fullmatch(name):
        return _FOR_DRIVER
    return _FOR_OPENMP_SYMBOL if _OPENMP_FUNCTION.fullmatch(name) else None


def for_libraries(facts: Sequence[str]) -> list[str]:
    """What to do where the linker finds no library of the CUDA driver's, or of OpenMP."""
    if any(_NO_OPENMP_LIBRARY.search(fact) for fact in facts):
        return [f"it is {_FOR_OPENMP}"]
    if not any(_NO_DRIVER_LIBRARY.search(fact) for fact in facts):
        return []
    return [
        "libcuda comes with NVIDIA's driver; to link without one, install the toolkit's stub of it "
        "(package cuda-driver-dev), or ask cudaGetDriverEntryPoint for its functions"
    ]


def _missing_header(error: str) -> str | None:
    found = _HEADER.search(error)
    return next(name for name in found.groups() if name) if found else None


def _for_header(name: str) -> str:
    if name == "omp.h":
        return f"{name} is {_FOR_OPENMP}"
    if name.startswith(_CUTLASS):
        return f"{name} is of CUTLASS: set CUTLASS_PATH to a checkout of NVIDIA/cutlass that has it"
    if name.startswith(_CCCL):
        return (
            f"{name} is of the CUDA toolkit's C++ libraries: install its package cuda-cccl, or "
            "nvidia-cuda-cccl beside nvcc's wheel"
        )
    library = next((known for known in _LIBRARIES if name.startswith(known)), None)
    if library is None:
        return (
            f"if {name} is the kernel's own, put it beside the kernel, or name it: `init --include "
            "FILE`, `includes` in a target"
        )
    return (
        f"{name} is of the CUDA toolkit's {library}: install its package lib{library}-dev, or "
        f"nvidia-{library} beside nvcc's wheel"
    )
