"""Finds a CUDA toolkit, and what it can build for a device and its driver."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofsmith import cuda_programs
from roofsmith.cuda_programs import INSTALL
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.toolchains.compilers import Compiler, ask_compiler, changed_at, compiler_version
from roofsmith.toolchains.diagnostics import diagnose

_WHEEL_PARTS = ("nvidia/cuda_runtime", "nvidia/cuda_cccl")
"""Further wheels of CUDA 12 whose headers and libraries nvcc needs."""
_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_DRIVER = "libcuda.so.1"
_DRIVER_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib",
)  # fmt: skip
"""Where drivers and container runtimes put it."""
ARCH_SPECIFIC_FROM = 9
"""First compute capability whose instructions partly exist in the `a` form of the architecture
only: wgmma and setmaxnreg from 9.0, tcgen05 from 10.0 (PTX ISA, "Target ISA notes")."""
_ARCH_SPECIFIC_NVCC = (12, 0)
"""First nvcc that knows compute_90a."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One installed nvcc and what belongs to it."""

    compiler: Compiler
    release: tuple[int, int]
    """Such as (13, 0)."""
    architectures: tuple[int, ...]
    """What it can build for, such as 90 for compute_90; ascending."""
    root: Path
    includes: tuple[Path, ...]
    """Folders of headers that nvcc doesn't find by itself."""
    libraries: tuple[Path, ...]
    """Folders that may hold the CUDA runtime."""

    @property
    def version(self) -> str:
        """Such as `13.0`."""
        return f"{self.release[0]}.{self.release[1]}"

    @property
    def runtime(self) -> Path | None:
        """The shared CUDA runtime; None if there is only the static one."""
        for folder in self.libraries:
            exact = sorted(folder.glob(f"libcudart.so.{self.release[0]}*"))
            if exact:
                return exact[0]
        return None


@dataclass(frozen=True, slots=True)
class Architecture:
    """What nvcc is told to build for one device."""

    name: str
    """As in resource reports: sm_90a, or compute_90 where only PTX can be made."""
    flag: str
    note: str | None = None
    """What is lost, where the compiler doesn't know the device itself."""

    @property
    def is_ptx(self) -> bool:
        """Whether the driver has to compile it."""
        return self.name.startswith("compute_")


def find_toolkit() -> Toolkit:
    """The toolkit of the nvcc that kernels are built with.

    Raises:
        ToolMissingError: there is none; or CUDA_HOME or CUDA_PATH names a folder without.
        MachineError: it doesn't answer.
    """
    path = cuda_programs.find_nvcc()
    return _toolkit(path.resolve(), changed_at(path))


def is_architecture(text: str) -> bool:
    """Whether it is written as NVIDIA's architectures are: sm_90, sm_90a."""
    return _ARCHITECTURE.fullmatch(text) is not None


def architecture_for(toolkit: Toolkit, arch: str) -> Architecture:
    """How to build for a device, in the form that allows its architecture's own instructions.

    Args:
        arch: of the device, such as sm_90.

    Raises:
        MachineError: the compiler can't build for it.
    """
    capability = _capability(arch)
    known = toolkit.architectures
    if capability in known:
        specific = capability // 10 >= ARCH_SPECIFIC_FROM and toolkit.release >= _ARCH_SPECIFIC_NVCC
        return _real(f"{capability}a" if specific else str(capability))
    family = [a for a in known if a // 10 == capability // 10 and a < capability]
    if family:  # code for 8.6 runs on 8.9 (CUDA C++ Programming Guide, "Binary Compatibility")
        note = (
            f"nvcc {toolkit.version} doesn't know {arch}: built for sm_{family[-1]}, which it runs"
        )
        return _real(str(family[-1]), note)
    older = [a for a in known if a < capability]
    if older:
        note = (
            f"nvcc {toolkit.version} doesn't know {arch}: built as PTX for compute_{older[-1]}, "
            "which the driver compiles when it is loaded: registers, spills and shared memory are "
            "not known; a newer toolkit tells them, and gives faster code"
        )
        ptx = f"compute_{older[-1]}"
        return Architecture(ptx, f"-gencode=arch={ptx},code={ptx}", note)
    listed = ", ".join(f"sm_{a}" for a in known) or "none that it says"
    raise MachineError(
        f"nvcc {toolkit.version} ({toolkit.compiler.path}) doesn't build for {arch} any more; "
        f"it knows {listed}",
        hint="install an older CUDA toolkit (12.x builds for sm_50 and up), and set CUDA_HOME",
    )


def check_driver(toolkit: Toolkit, architecture: Architecture) -> None:
    """See that the driver, where there is one, can run what the toolkit builds.

    Within a major release newer toolkits work with older drivers, but for their PTX, which the
    driver must know (CUDA Compatibility, "Minor Version Compatibility"); across major releases
    they don't. Otherwise the first launch would say CUDA_ERROR_UNSUPPORTED_PTX_VERSION.

    Raises:
        MachineError: the driver is too old.
    """
    driver = driver_release()
    if driver is None:
        return
    if architecture.is_ptx:
        fits, what = driver >= toolkit.release, "PTX, all that it can make for this device,"
        newest = f"{driver[0]}.{driver[1]}"
    else:
        fits, what, newest = driver[0] >= toolkit.release[0], "kernels", f"{driver[0]}.x"
    if not fits:
        raise MachineError(
            f"the NVIDIA driver supports CUDA {driver[0]}.{driver[1]}, but nvcc "
            f"({toolkit.compiler.path}) is of CUDA {toolkit.version}: its {what} can't run",
            hint=f"update the driver, or install a CUDA toolkit up to {newest} and set CUDA_HOME",
        )


def driver_library(toolkit: Toolkit) -> Path | None:
    """What kernels that call the driver API are linked with; None if nothing is there.

    That is the driver itself, which installs no plain libcuda.so, else the toolkit's stub of it.
    """
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    places = [Path(folder, _DRIVER) for folder in (*searched, *_DRIVER_FOLDERS) if folder]
    stubs = [folder / "stubs" / "libcuda.so" for folder in toolkit.libraries]
    return next((path for path in (*places, *stubs) if path.is_file()), None)


@cache
def driver_release() -> tuple[int, int] | None:
    """The newest CUDA release that the installed driver supports; None without a driver.

    Asks the driver's library, which needs no device and makes no context.
    """
    try:
        driver = ctypes.CDLL(_DRIVER)
        version = ctypes.c_int()
        failed = driver.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    if failed or version.value <= 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def cutlass_includes() -> tuple[Path, ...]:
    """Folders of CUTLASS headers, where CUTLASS_PATH names a checkout or a folder of headers.

    Raises:
        MachineError: CUTLASS_PATH is set, but there are no such headers.
    """
    chosen = os.environ.get("CUTLASS_PATH")
    if not chosen:
        return ()
    root = Path(chosen).expanduser().absolute()
    folders = (root / "include", root / "tools" / "util" / "include", root)
    found = tuple(f for f in folders if (f / "cutlass").is_dir())
    if not any((folder / "cutlass" / "cutlass.h").is_file() for folder in found):
        raise MachineError(
            f"CUTLASS_PATH={chosen} holds no include/cutlass/cutlass.h",
            hint="export CUTLASS_PATH=/path/to/cutlass, a checkout of NVIDIA/cutlass",
        )
    return found


@cache
def _toolkit(path: Path, _changed: int) -> Toolkit:
    version = ask_compiler([str(path), "--version"]).stdout
    release = _RELEASE.search(version)
    if release is None:
        raise MachineError(
            f"`{path} --version` doesn't say which release it is",
            hint="run that command by hand; reinstall the toolkit if it fails there too",
        )
    line = next(line for line in version.splitlines() if _RELEASE.search(line)).strip()
    listed = ask_compiler([str(path), "--list-gpu-arch"]).stdout.split()
    root = cuda_programs.toolkit_root(path)
    wheels = next(
        (folder for folder in cuda_programs.pip_folders() if folder in root.parents), None
    )
    parts = [root, *(wheels / part for part in _WHEEL_PARTS if wheels is not None)]
    return Toolkit(
        compiler=Compiler("nvcc", path, line),
        release=(int(release[1]), int(release[2])),
        architectures=tuple(sorted({int(m[1]) for a in listed if (m := _COMPUTE.match(a))})),
        root=root,
        includes=tuple(p / "include" for p in parts[1:] if p.is_dir()),
        libraries=tuple(
            folder
            for part in parts
            for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
            if (folder := part / name).is_dir()
        ),
    )


_COMPUTE = re.compile(r"compute_(\d+)$")


def _capability(arch: str) -> int:
    match = _ARCHITECTURE.fullmatch(arch)
    if match is None:
        raise MachineError(
            f"{arch!r} is not an NVIDIA architecture",
            hint="CUDA kernels need an NVIDIA GPU, whose architecture is written like sm_90",
        )
    return int(match[1])


def _real(number: str, note: str | None = None) -> Architecture:
    """Code for the architecture, and its PTX beside it to be read."""
    flag = f"-gencode=arch=compute_{number},code=[compute_{number},sm_{number}]"
    return Architecture(f"sm_{number}", flag, note)


_COMMAND = re.compile(r"^#\$ (?P<command>(?!\w+=).* -E .*)$", re.MULTILINE)
"""How nvcc says what it runs."""
_ABSENT = re.compile(r"Failed to preprocess host compiler properties|cannot execute ")
_REFUSED = re.compile(r"#error -- (?P<why>unsupported [\w ]+ version! [^!.\n]*)")
_NEWEST = re.compile(r"versions later than (\d+)")


def chosen_host_compiler() -> tuple[str, ...]:
    """nvcc's flag for the compiler that the user chose, as for an nvcc older than the system's."""
    chosen = os.environ.get("NVCC_CCBIN")
    return (f"-ccbin={chosen}",) if chosen else ()


def find_host_compiler(toolkit: Toolkit) -> Compiler:
    """The compiler that nvcc calls, once it has read the runtime's headers with it.

    Nothing of a candidate is compiled: what fails here is the machine's.

    Raises:
        ToolMissingError: there is none, or NVCC_CCBIN names none.
        MachineError: nvcc doesn't work with its version, or lacks headers.
    """
    command = [
        str(toolkit.compiler.path), *chosen_host_compiler(),
        *(f"-I{folder}" for folder in toolkit.includes),
        "--verbose", "-E", "-x=cu", "-o", "/dev/null", "/dev/null",
    ]  # fmt: skip
    asked = ask_compiler(command)
    if asked.returncode != 0:
        raise _trouble(toolkit, asked.stderr, asked.returncode)
    started = _COMMAND.search(asked.stderr)
    program = shlex.split(started["command"])[0] if started else "gcc"
    linker = Path(program).with_name("g++") if Path(program).name == "gcc" else Path(program)
    if shutil.which(linker) is None:  # nvcc compiles with gcc, and links with the g++ beside it
        raise _absent(toolkit, f"{linker}: not found")
    path = Path(shutil.which(program) or program)
    return Compiler(path.name, path, compiler_version(path))


def _trouble(toolkit: Toolkit, complaints: str, returncode: int) -> MachineError:
    said = "\n".join(line for line in complaints.splitlines() if not line.startswith("#"))
    nvcc, chosen = f"nvcc {toolkit.version}", os.environ.get("NVCC_CCBIN")
    refused = _REFUSED.search(said)
    if refused is not None:
        newest = _NEWEST.search(refused["why"])
        program = f"g++-{newest[1]}" if newest else "an older g++"
        return MachineError(
            f"{nvcc} doesn't work with this host compiler "
            f"({chosen or 'gcc, from PATH'}): {refused['why']}",
            hint=f"install {program} and set NVCC_CCBIN to it, or install a newer CUDA toolkit",
        )
    quoted = diagnose(said, {}, returncode).detail
    if _ABSENT.search(said) is None:
        return MachineError(f"{nvcc} can't compile an empty file: {quoted}", hint=INSTALL)
    return _absent(toolkit, quoted)


def _absent(toolkit: Toolkit, why: str) -> ToolMissingError:
    nvcc, chosen = f"nvcc {toolkit.version}", os.environ.get("NVCC_CCBIN")
    if chosen:
        return ToolMissingError(
            f"NVCC_CCBIN={chosen} is no compiler that {nvcc} can use: {why}",
            hint="set NVCC_CCBIN to a g++ that is installed, or unset it to have the one on PATH",
        )
    return ToolMissingError(
        f"{nvcc} needs a C++ compiler for the host, and finds none: {why}",
        hint="install one: `apt-get install g++` (Debian, Ubuntu), `dnf install gcc-c++` (Fedora); "
        "or set NVCC_CCBIN to one that isn't on PATH",
    )
