"""Modules that compile: what their processes are allowed, and locks that end with their holders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofsmith.domain.outcome import TimedOut
from roofsmith.domain.target import Target
from roofsmith.judge.gpu import process
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.host.process import MAX_FILE_BYTES, START_DEADLINE_S, WorkerProcess
from roofsmith.ports import KernelDiedError
from roofsmith.toolchains.signature import read_signature

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

    from roofsmith.judge.extensions import use_locks_that_end

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
    made._built = SimpleNamespace(
        language=language, environment={}, names_extensions=language == "torch"
    )
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
    [
        ("cuda", [20.0, 3.0], MAX_FILE_BYTES),
        ("triton", [120.0, 120.0], 2**28),
        ("torch", [300.0, 300.0], 2**28),
    ],
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
    assert kept & set(environment) == (kept if language != "cuda" else set())
    assert made._writable() == ((tmp_path,) if language != "cuda" else ())  # nobody else's


def test_a_build_without_end_is_too_much_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = worker("torch", tmp_path, monkeypatch)
    monkeypatch.setattr(process, "BUILD_S", 0.01)

    def late(op: str, deadline_s: float) -> dict[str, Any]:
        time.sleep(2 * deadline_s)
        raise KernelDiedError(TimedOut(reason="worker_deadline"))

    made._hear = late
    with pytest.raises(KernelDiedError) as caught:
        made.wait_until_loaded()
    assert caught.value.outcome.kind == "build_failed"
    assert caught.value.outcome.reason == "compiler_timeout"


REFERENCE = '''
import numpy as np
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <Python.h>
static PyObject *factor(PyObject *self, PyObject *none) { return PyLong_FromLong(FACTOR); }
static PyMethodDef methods[] = {{"factor", factor, METH_NOARGS, ""}, {0, 0, 0, 0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, TEXT(TORCH_EXTENSION_NAME), "", -1, methods};
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&module); }
"""
own = load_inline("own", SOURCE.replace("TEXT(TORCH_EXTENSION_NAME)", \'"own"\'),
                  no_implicit_headers=True)


def setup(n, seed=0):
    x = np.ones(n, np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "n": n}, "outputs": ["y"]}


def reference(x, y, n):
    y[:] = own.factor() * x


def flops(n):
    return own.factor() * n
'''


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("ninja", "g++"))), reason="needs ninja and g++")
def test_each_source_is_built_once_and_none_for_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    users = tmp_path / "users"
    monkeypatch.setenv("XDG_CACHE_HOME", str(users))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)

    def flops(factor: int) -> float | None:
        target = Target.model_validate({
            "name": "own",
            "language": "c",
            "kernel": {"path": "k.c", "text": "void solve(const float *x, float *y, int n) {}"},
            "reference": {"path": "r.py", "text": REFERENCE.replace("FACTOR", str(factor))},
            "workloads": [{"dims": {"n": 8}}],
        })  # fmt: skip
        signature = read_signature(target.baseline)
        with ReferenceOracle(target, signature, tmp_path / "compiled") as oracle:
            return oracle.describe(target.workloads[0]).flops

    assert [flops(2), flops(3), flops(2), flops(3)] == [16, 24, 16, 24]  # of one name
    built = list((tmp_path / "compiled").glob("*/extensions-*/own/.ninja_log"))
    assert len(built) == 2
    assert all(log.read_text().count("own.so") == 1 for log in built)
    assert not users.exists()
