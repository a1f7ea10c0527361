"""`roofsmith selftest --tools`: whatever is missing, fails or hangs, the rest is kept."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from roofsmith.selftest import tools
from roofsmith.selftest.tools import collect


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_what_fails_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "DEADLINE_S", 1.0)
    there = {
        "rocminfo": program(tmp_path, "rocminfo", "echo gfx942"),
        "amd-smi": program(tmp_path, "amd-smi", "echo broken >&2; exit 3"),
        "rocprofv3": program(
            tmp_path, "rocprofv3", 'test "$1" = --version && echo 1.1 || exec sleep 60'
        ),
        "hipcc": tmp_path,  # a folder can't be started
    }
    folder, said = tmp_path / "sent", list[str]()
    packed, came = collect(folder, said.append, there.get)
    assert came["rocminfo"] == "exit 0"
    assert came["amd-smi-static"] == "exit 3"
    assert came["rocprofv3-trace"] == "no answer in 1 s"
    assert came["hipcc-version"].startswith("can't be started")
    assert came["hip-run"] == came["nvidia-smi"] == "not installed"
    assert (folder / "rocminfo.txt").read_text() == f"$ {there['rocminfo']}\ngfx942\n"
    assert (folder / "amd-smi-static.txt").read_text().endswith("\nbroken\n")
    assert json.loads((folder / "index.json").read_text()) == came
    assert list(came) == said
    with tarfile.open(packed) as tar:
        assert {"sent/index.json", "sent/rocminfo.txt", "sent/tiny.cu"} <= set(tar.getnames())


def test_without_any_tool_it_says_so_of_each(tmp_path: Path) -> None:
    asked = list[str]()
    _, came = collect(tmp_path / "none", lambda _: None, asked.append)
    assert len(came) == len(asked) > 10
    assert set(came.values()) == {"not installed"}
    assert not any("{" in name for name in asked)
