"""The host's C++ compiler that nvcc works with: which one that is, and whether it will do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

from roofsmith.cuda_programs import INSTALL
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.toolchains.compilers import Compiler, ask_compiler, compiler_version
from roofsmith.toolchains.cuda_toolkit import Toolkit
from roofsmith.toolchains.diagnostics import diagnose

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
