"""Killed processes are gone, with the memory that they held, when they are buried."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tool_stand_ins import built_file

from roofsmith.domain.kernel import Built
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.namespaces import PROCESS

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

HOLDER = """
#include <stdlib.h>
#include <string.h>
__attribute__((constructor)) static void hold(void) {
    size_t size = (size_t)1 << 30;
    void *memory = malloc(size);
    if (memory) memset(memory, 1, size);
}
void solve(void) {}
"""
"""Takes the kernel a while to take apart, as a device's context does."""


@pytest.fixture
def holder(tmp_path: Path) -> Built:
    (tmp_path / "holder.c").write_text(HOLDER)
    library = tmp_path / "holder.so"
    command = ["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "holder.c"]
    subprocess.run(command, check=True)
    return built_file(library, "c")


@pytest.mark.skipif(
    PROCESS not in isolate("standard").layers, reason="no process namespace: the worker is ours"
)
def test_the_worker_is_gone_when_its_walls_are(holder: Built) -> None:
    """It is nobody's child here that one could wait for; the process around it is."""
    worker = WorkerProcess(holder, threads=1)
    worker.wait_until_loaded()
    worker.pause()
    assert worker.pid != worker._process.pid
    worker.end()
    worker.close()
    assert state_of(worker.pid) in ("Z", "X")
