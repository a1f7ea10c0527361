"""Modules that compile: what their processes are allowed, and locks that end with their holders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofsmith.judge.gpu import process
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.host.process import MAX_FILE_BYTES, START_DEADLINE_S, WorkerProcess

NINJA = """
import subprocess, sys
from roofsmith.judge.sandbox.confinement import deny_escape
deny_escape(library=False, sockets=False)
sys.exit(subprocess.run(["ninja"], stdout=subprocess.DEVNULL).returncode)
"""


@pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")
def test_ninja_runs_behind_the_walls(tmp_path: Path) -> None:
    rules = "rule write\n command = ps -o pgid= -p $$$$ > $out\nbuild group: write\n"
    (tmp_path / "build.ninja").write_text(rules)
    child = subprocess.Popen([sys.executable, "-c", NINJA], cwd=tmp_path, start_new_session=True)
    assert child.wait(60) == 0
    assert int((tmp_path / "group").read_text()) == child.pid  # whoever is stopped, stops it


def test_a_lock_ends_with_whoever_holds_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.utils.file_baton import FileBaton

    from roofsmith.judge.gpu.extensions import use_locks_that_end

    before = {name: getattr(FileBaton, name) for name in ("try_acquire", "wait", "release")}
    use_locks_that_end()
    try:
        ours, theirs = (FileBaton(str(tmp_path / "lock")) for _ in range(2))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            theirs.try_acquire()
            os.write(write, b"1")
            signal.pause()
        os.read(read, 1)
        assert not ours.try_acquire()
        os.kill(child, signal.SIGKILL)
        ours.wait()
        os.waitpid(child, 0)
        assert ours.try_acquire()
        assert not theirs.try_acquire()
        ours.release()
        assert theirs.try_acquire()
        theirs.release()
    finally:
        for name, method in before.items():
            setattr(FileBaton, name, method)


def worker(language: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[float]]:
    """A worker without a process, and the deadlines that it is waited for with."""
    made: Any = GpuWorkerProcess.__new__(GpuWorkerProcess)
    made._built = SimpleNamespace(language=language, environment={})
    made._cache_dir, made._scratch, made.pid = cache, cache, 1
    made._queues = {}
    waited: list[float] = []

    def hear(op: str, deadline_s: float | None = None) -> dict[str, Any]:
        waited.append(deadline_s or START_DEADLINE_S)
        return {}

    made._hear, made._hear_start = hear, lambda: None
    monkeypatch.setattr(process, "require_loaded", lambda *_: None)
    monkeypatch.setattr(WorkerProcess, "_plan", lambda *_: {"file_bytes": MAX_FILE_BYTES})
    return made, waited


@pytest.mark.parametrize(
    ("language", "deadlines", "files"),
    [("cuda", [20.0, 3.0], MAX_FILE_BYTES), ("triton", [120.0, 120.0], 2**28)],
)
def test_modules_have_time_and_room_to_compile(
    language: str,
    deadlines: list[float],
    files: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, waited = worker(language, tmp_path, monkeypatch)
    made.wait_until_loaded()
    made.end_first_call(3.0)
    assert waited == deadlines
    assert made._plan(None, None)["file_bytes"] == files
    environment = made._device_environment()
    kept = {"TRITON_CACHE_DIR", "TRITON_CACHE_AUTOTUNING", "TORCH_EXTENSIONS_DIR"}
    assert kept & set(environment) == (kept if language == "triton" else set())
