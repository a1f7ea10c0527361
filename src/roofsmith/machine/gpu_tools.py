"""Versions of the programs and packages that GPU kernels are built and profiled with."""

from __future__ import annotations

import re
import shlex
import threading
from functools import partial

from roofsmith.cuda_programs import find_program, find_rocm_program
from roofsmith.errors import MachineError
from roofsmith.machine import probes
from roofsmith.machine.probes import printed_version
from roofsmith.programs import side_by_side

TOOL_DEADLINE_S = 5.0
"""For one `tool --version`; hipcc asks its compiler, which takes a second."""

_VERSION_LINE = re.compile(r"(?im)^.*\b(release|version:?|v?\d+\.\d+\.\d+).*$")
NVIDIA_TOOLS = ("nvcc", "ncu", "compute-sanitizer")
AMD_TOOLS = ("hipcc", "rocprofv3")
PACKAGES = ("torch", "triton", "pytorch-triton-rocm", "nvidia-cuda-nvcc", "nvidia-ml-py")


def find(tool: str) -> str | None:
    """The tool that is used here, as `cuda_programs` says."""
    used = find_program(tool) if tool in NVIDIA_TOOLS else find_rocm_program(tool)
    return None if used is None else str(used)


def versions(tools: tuple[str, ...]) -> dict[str, str]:
    """The version line of every tool that is installed and answers within the deadline."""
    found = side_by_side(_answered, tools)
    return {tool: line for tool, line in found.items() if line is not None}


def ask_ahead(tools: tuple[str, ...]) -> None:
    """Have the tools and those of every host say their versions while this process waits for
    something else: a profiler may take seconds."""
    for question in (probes.tool_versions, partial(versions, tools)):
        threading.Thread(target=question, name="asking ahead", daemon=True).start()


def version(tool: str) -> str | None:
    """The version line of a tool; None if it isn't installed.

    Raises:
        MachineError: it is, and doesn't say its version, or not within the deadline.
    """
    program = find(tool)
    if program is None:
        return None
    printed = printed_version(program, TOOL_DEADLINE_S)
    line = None if printed is None else version_line(printed)
    if line is None:
        asked = shlex.join((program, "--version"))
        raise MachineError(
            f"`{asked}` fails, or says nothing within {TOOL_DEADLINE_S:g} s",
            hint="run that command by hand; reinstall the tool if it hangs or fails there too",
        )
    return line


def version_line(printed: str) -> str | None:
    """The line with the release in what `--version` printed; copyright lines come first."""
    match = _VERSION_LINE.search(printed)
    if match:
        return match.group().strip()
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[0] if lines else None


def _answered(tool: str) -> str | None:
    try:
        return version(tool)
    except MachineError:
        return None


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that compile or run GPU kernels."""
    return probes.package_versions(PACKAGES)
