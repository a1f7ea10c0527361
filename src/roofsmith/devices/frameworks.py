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

from roofsmith.devices import torch_probe
from roofsmith.errors import MachineError

_BUILT_FOR = re.compile(r"(?m)^(cuda|hip)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """An installed PyTorch."""

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
    for package in ("triton", "pytorch-triton-rocm", "pytorch-triton"):
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
    """What PyTorch and Triton see, see `torch_probe.answer`; None if they need longer.

    Raises:
        MachineError: importing them ends the process.
    """
    # -P: the probe's folder has modules of its own names, which torch might take for others.
    command = [sys.executable, "-P", str(torch_probe.__file__)]
    try:
        said = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=deadline_s,
            check=False, text=True, errors="replace", cwd="/",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    try:
        return dict(json.loads(said.stdout))
    except ValueError as error:
        lines = said.stderr.strip().splitlines()
        raise MachineError(
            f"`import torch` ends the process (exit status {said.returncode})"
            + (f": {lines[-1][:200]}" if lines else ""),
            hint="run `python -c 'import torch'` by hand; reinstall torch if it fails there too",
        ) from error
