"""PyTorch and Triton: which builds are installed, without importing them, and what they see."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from roofsmith.domain.dialects import DIALECTS
from roofsmith.errors import MachineError
from roofsmith.machine import torch_probe
from roofsmith.programs import asked, kill

_BUILT_FOR = re.compile(r"(?m)^(cuda|hip)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class TorchBuild:
    version: str
    cuda: str | None = None
    """CUDA release that it was built with, such as 13.0."""
    hip: str | None = None
    """The same of ROCm."""


def torch_build() -> TorchBuild | None:
    """The PyTorch that this Python would import; None without. Reads a file of it."""
    try:
        found = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        return None
    place = Path(str(found.locate_file("torch/version.py")))
    try:
        text = place.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return TorchBuild(found.version, **dict(_BUILT_FOR.findall(text)))


def triton_version() -> str | None:
    """The installed Triton, of either vendor's PyTorch; None without."""
    return installed("triton", "pytorch-triton-rocm", "pytorch-triton")


def dialects() -> dict[str, str]:
    """Versions of other languages of Python modules, by language: those that are there."""
    found = {name: installed(*one.packages) for name, one in DIALECTS.items()}
    return {name: version for name, version in found.items() if version is not None}


def installed(*packages: str) -> str | None:
    """Version of the first package that is there; None without."""
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def python_headers() -> Path | None:
    """The folder with Python.h, which Triton compiles its launchers against; None without."""
    folder = Path(sysconfig.get_path("include"))
    return folder if (folder / "Python.h").is_file() else None


def ask_torch(deadline_s: float) -> dict[str, Any] | None:
    """What PyTorch and Triton see, as far as they said by then; None if neither said anything.

    PyTorch answers first, with `torch` and `arch_list` of `torch_probe.torch_sees`; then `triton`.

    Raises:
        MachineError: importing torch ends the process.
    """
    # -P: the probe's folder has modules of its own names, which torch might take for others.
    command = [sys.executable, "-P", str(torch_probe.__file__)]
    with asked(command, stderr=subprocess.PIPE, cwd="/") as process:
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            kill(process)
            out, _ = process.communicate()
            return _answers(out) or None
    found = _answers(out)
    if "torch" not in found:
        lines = err.decode(errors="replace").strip().splitlines()
        raise MachineError(
            f"`import torch` ends the process (exit status {process.returncode})"
            + (f": {lines[-1][:200]}" if lines else ""),
            hint="run `python -c 'import torch'` by hand; reinstall torch if it fails there too",
        )
    if found["torch"] is None and "triton" not in found:
        found["triton"] = f"importing it ends the process (exit status {process.returncode})"
    return found


def _answers(out: bytes) -> dict[str, Any]:
    """Of lines that are JSON objects, all that they say; a line that was cut off says nothing."""
    found: dict[str, Any] = {}
    for line in out.splitlines():
        try:
            found |= json.loads(line)
        except (ValueError, TypeError):
            continue
    return found
