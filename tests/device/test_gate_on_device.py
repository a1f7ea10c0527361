"""The gate in front of a real GPU: it opens, it keeps shut beside others, it sees who comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from test_fleet_on_device import OCCUPANT

from roofsmith.devices.fleet import HostFleet
from roofsmith.devices.lease import FileLeases
from roofsmith.domain.fleet import GpuStatus
from roofsmith.ports import Holder
from roofsmith.testing.clock import FakeClock

pytestmark = pytest.mark.device

KERNEL = """
__global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
extern "C" void solve(const float *x, float *y, int n) {
    twice<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""
REFERENCE = """
import torch

def setup(n, seed=0):
    x = torch.randn(n, device="cuda")
    return {"inputs": {"x": x, "y": torch.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    torch.mul(x, 2, out=y)

def flops(n):
    return n
"""
WHAT = ("--ref", "reference.py", "--workload", "n=16777216")
CHECK = ("check", "twice.cu", *WHAT, "--json")
JUDGE = ("judge", "twice.cu", "--against", "twice.cu", *WHAT, "--budget", "20", "--json")
COME_AND_GO_S = 2.0
STARTED_S = 120.0


@pytest.fixture
def here(tmp_path: Path) -> Path:
    environment_or_skip()
    (tmp_path / "twice.cu").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "leases").mkdir()
    return tmp_path


def start(here: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command with little patience; what else this test starts is none of its children."""
    environment = {
        **os.environ,
        "ROOFSMITH_CACHE": f"{here}/cache",
        "ROOFSMITH_LEASES": f"{here}/leases",
        "ROOFSMITH_GATE_WAIT_S": "3",
        "ROOFSMITH_GATE_GIVE_UP_S": "6",
    }
    command = [sys.executable, "-c", "from roofsmith.cli import main; main()", *arguments]
    return subprocess.Popen(
        command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@contextmanager
def occupied() -> Iterator[int]:
    """Somebody else computes on the GPU; his number."""
    with subprocess.Popen(
        [sys.executable, "-c", OCCUPANT], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def gpu() -> GpuStatus:
    return HostFleet("nvidia").gpus()[0]


def names_processes() -> bool:
    """Whether this container's driver lists processes by the numbers that they have here."""
    with occupied() as pid:
        time.sleep(1.0)
        return pid in {process.pid for process in gpu().processes}


def test_nvml_and_cuda_call_the_product_alike() -> None:
    """So a campaign finds a GPU of its product again before anything is started on one."""
    assert gpu().name == environment_or_skip().device.name


def test_an_idle_gpu_is_had_and_leased_as_long_as_it_is_used(here: Path) -> None:
    leases = FileLeases(FakeClock(), "test", here / "leases")
    process = start(here, *CHECK)
    seen = set()
    while process.poll() is None:
        taken = leases.take(gpu().uuid)
        if isinstance(taken, Holder):
            seen.add(taken.who.partition(":")[0])
        else:
            taken.release()
        time.sleep(0.05)
    code, out, err = done(process)
    assert code == 0, err
    assert json.loads(out)["outcome"] == "passed"
    assert any(who.startswith(f"pid {process.pid} (") for who in seen)


def test_a_gpu_that_somebody_uses_is_waited_for_and_given_up_with_his_name(here: Path) -> None:
    listed = names_processes()
    with occupied() as pid:
        code, out, err = done(start(here, *CHECK))
    assert code == 2
    assert out == ""
    assert "gate: next look in 0:03" in err
    assert "no GPU was idle for 0:" in err
    assert (f"pid {pid}" in err) if listed else ("of its memory" in err or "utilisation" in err)


def test_a_gpu_that_falls_free_is_had(here: Path) -> None:
    with occupied():
        process = start(here, *CHECK)
        time.sleep(COME_AND_GO_S)
    code, out, err = done(process)
    assert code == 0, err
    assert json.loads(out)["outcome"] == "passed"


def test_a_judgement_that_somebody_disturbed_is_made_again(here: Path) -> None:
    if not names_processes():
        pytest.skip("the driver lists no processes in this container: nobody would be seen")
    process = start(here, *JUDGE)
    try:
        workers_are_up(process)
        with occupied() as pid:
            time.sleep(COME_AND_GO_S)
        code, out, err = done(process)
    finally:
        process.kill()
    assert code == 1, err  # a tie is no win
    judgement = json.loads(out)
    assert judgement["outcome"] == "passed"
    again = [note for note in judgement["notes"] if note.startswith("measured again")]
    assert len(again) == 1
    assert f"pid {pid}" in again[0]


def workers_are_up(process: subprocess.Popen[str]) -> None:
    """Wait until kernels are being timed: two processes of the judge, beside the reference."""
    until_s = time.monotonic() + STARTED_S
    while len(gpu().processes) < 3:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until_s, "no workers appeared on the GPU"
        time.sleep(0.1)
