"""Machines with as much of the CUDA toolkit as a test wants: stand-ins that answer questions."""

from __future__ import annotations

from pathlib import Path

import pytest


def without_cuda(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of CUDA anywhere: PATH is `folder/path`, pip's folder is `folder/pip`."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(folder / "path"))
    monkeypatch.setattr("roofsmith.cuda_programs._USUAL", folder / "usual")
    monkeypatch.setattr("roofsmith.cuda_programs._NSIGHT_COMPUTE", folder / "nsight-compute")
    monkeypatch.setattr("roofsmith.cuda_programs.pip_folders", lambda: (folder / "pip",))


def script(path: Path, text: str = "") -> Path:
    """A program for the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def fake_nvcc(folder: Path, release: str, *, listed: str = "compute_80 compute_90") -> Path:
    """A program that answers as nvcc does, in `folder/bin`."""
    path = script(
        folder / "bin" / "nvcc",
        'case "$1" in\n'
        f"--version) echo 'Cuda compilation tools, release {release}, V{release}.1';;\n"
        f"--list-gpu-arch) for one in {listed}; do echo $one; done;;\n"
        f"--dryrun) echo '#$ TOP={folder}/bin/..' >&2;;\n"
        "esac\n",
    )
    (path.parent / "nvcc.profile").write_text("")
    return path


def wrapping(nvcc: Path, folder: Path) -> Path:
    """A script that starts another nvcc, as distributions put it on PATH."""
    return script(folder / "nvcc", f'exec {nvcc} "$@"\n')
