"""The gate in front of a real GPU: it opens, it keeps shut beside others, it sees who comes.

`pytest -m device -n0 -rsP tests/device/test_gate_on_device.py` prints what was seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_neighbours import gpu, idle_or_skip, named_or_skip, occupied, place, portrait

from roofsmith.domain.facts import FactSheet
from roofsmith.machine.lease import FileLeases, Holder
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
SELDOM_S = 2.0
"""From one look to the next beside a measurement, which more of them might disturb."""
MAX_LOOKS = 150
LOOKS_TOGETHER = 6
"""A tenth of a second apart."""


@pytest.fixture
def here(tmp_path: Path, shared_cache: Path, ceilings: FactSheet) -> Path:
    """A folder with a kernel; ceilings are kept: what is on the GPU are the judge's processes."""
    idle_or_skip()
    (tmp_path / "cache").symlink_to(shared_cache)
    (tmp_path / "twice.cu").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "leases").mkdir()
    return tmp_path


def start(here: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """A command with little patience; what else this test starts is none of its children.

    It watches the GPU for a second, where people's commands watch it for three.
    """
    environment = {
        **os.environ,
        "ROOFSMITH_CACHE": f"{here}/cache",
        "ROOFSMITH_LEASES": f"{here}/leases",
        "ROOFSMITH_GATE_WAIT_S": "3",
        "ROOFSMITH_GATE_GIVE_UP_S": "6",
        "ROOFSMITH_GATE_WINDOW_S": "1",
        **more,
    }
    command = [sys.executable, "-c", "from roofsmith.cli import main; main()", *arguments]
    return subprocess.Popen(
        command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_nvml_and_cuda_call_the_product_alike() -> None:
    """So a campaign finds a GPU of its product again before anything is started on one."""
    name = environment_or_skip().device.name
    assert gpu().name == name


def test_an_idle_gpu_is_had_and_leased_as_long_as_it_is_used(here: Path) -> None:
    leases = FileLeases(FakeClock(), "test", here / "leases")
    process = start(here, *CHECK, ROOFSMITH_GATE_WINDOW_S="")  # as usual
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
    with occupied() as pid:
        code, out, err = done(start(here, *CHECK))
        listed = pid in {process.pid for process in gpu().processes}
    print(err)
    assert code == 2
    assert json.loads(out)["error"]["kind"] == "NoIdleGpuError"
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


@pytest.mark.parametrize("isolation", ["standard", "strict"])
def test_nobody_disturbs_a_judgement_that_is_alone(here: Path, isolation: str) -> None:
    """However the driver numbers our own workers here, they are no strangers."""
    process = start(here, *JUDGE, ROOFSMITH_ISOLATION=isolation)
    portraits = [portrait(gpu())]
    out = err = ""
    while process.returncode is None and len(portraits) < MAX_LOOKS:
        try:
            out, err = process.communicate(timeout=SELDOM_S)
        except subprocess.TimeoutExpired:
            portraits.append(portrait(gpu()))
    process.kill()
    code = process.returncode
    fullest = max(portraits, key=len)
    print(
        f"command {process.pid} from {place()}\n{portraits[0]}\n{fullest}\n{portraits[-1]}\n{err}"
    )
    if code == 2 and "isolation" in err:
        pytest.skip(err)
    assert code == 1, err  # a tie is no win
    judgement = json.loads(out)
    print(judgement["notes"])
    assert judgement["outcome"] == "passed"
    assert not [note for note in judgement["notes"] if note.startswith("measured again")]


def test_a_judgement_that_somebody_disturbed_is_made_again(here: Path) -> None:
    named_or_skip()
    process = start(here, *JUDGE)
    try:
        pairs_are_timed(process)
        with occupied() as pid:
            time.sleep(COME_AND_GO_S)
        code, out, err = done(process)
    finally:
        process.kill()
    assert code == 1, err  # a tie is no win
    judgement = json.loads(out)
    assert judgement["outcome"] == "passed"
    again = [note for note in judgement["notes"] if note.startswith("measured again")]
    print(judgement["notes"])
    assert len(again) == 1
    assert f"pid {pid}" in again[0]


def pairs_are_timed(process: subprocess.Popen[str]) -> None:
    """Wait until two workers have been there beside the reference for a while.

    An examination has one. The worker before it is listed for some tenths of a second more.
    """
    until_s = time.monotonic() + STARTED_S
    together = 0
    while together < LOOKS_TOGETHER:
        together = together + 1 if len(gpu().processes) >= 3 else 0
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until_s, "no pair of workers appeared on the GPU"
        time.sleep(0.1)
