"""A repository of CUDA kernels with a benchmark of its own, profiled by ncu, on a real GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from test_campaign_on_device import roofsmith

pytestmark = pytest.mark.device

LAYERS = Path(__file__).with_name("layers")
"""Three kernels; a softmax with a thread for each row takes most of the time."""
PROFILE = """\
  profile:
    command: >-
      ncu --csv --page raw --print-units base --clock-control none
      --metrics gpu__time_duration.sum --log-file prof/ncu.csv ./bench 1
    results: prof/ncu.csv
  bytes: 8*rows*cols
"""
WALK = """\
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
"""
BY_WARPS = """\
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
"""


def by_warps(text: str) -> str:
    """The softmax with a warp for each row: neighbouring lanes read neighbouring words."""
    head, _, rest = text.partition(WALK)
    body, _, after = rest.partition("}\n\n__global__ void gelu")
    assert after, "layers/src/kernels.cu has changed"
    body = (
        body.replace("float top = in[0];", "float top = -INFINITY;")
        .replace("for (int c = 1; c < cols; c++)", "for (int c = lane; c < cols; c += 32)")
        .replace("for (int c = 0; c < cols; c++)", "for (int c = lane; c < cols; c += 32)")
        .replace(
            "    float sum = 0.0f;\n",
            "    for (int s = 16; s; s /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));\n"
            "    float sum = 0.0f;\n",
        )
    )
    exponents, _, written = body.rpartition("    for (int c = lane")
    joined = "    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);\n"
    kernel = head + BY_WARPS + exponents + joined + "    for (int c = lane" + written
    launch = "(rows + THREADS - 1) / THREADS, THREADS"
    return (kernel + "}\n\n__global__ void gelu" + after).replace(
        launch, "(rows * 32 + 127) / 128, 128"
    )


def test_a_change_is_kept_by_the_profiler_and_every_kernel_has_a_row(
    tmp_path: Path, shared_cache: Path
) -> None:
    environment_or_skip()
    repository, campaign = tmp_path / "layers", tmp_path / "campaign"
    shutil.copytree(LAYERS, repository)
    (repository / "prof").mkdir()
    (repository / "prof" / ".gitkeep").touch()
    git = ("git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Three kernels")):
        subprocess.run([*git, *words], check=True)
    commands = ("--build", "make -j3", "--test", "./check", "--benchmark", "./bench")
    table = ("--gate", "err == 0", "--metric", "us", "--unit", "us", "--rows", "rows,cols")
    where = ("--repo", str(repository), "--editable", "src/kernels.cu", "--device", "gpu")
    roofsmith(shared_cache, "init", *where, *commands, *table, "--classes", "cols")
    target = repository / "target.yaml"
    text = target.read_text(encoding="utf-8")
    target.write_text(text.replace("\ncommand:\n", f"\ncommand:\n{PROFILE}", 1), encoding="utf-8")
    asked = ("--output", str(campaign), "--proposer", "none")
    roofsmith(shared_cache, "optimize", str(target), *asked)
    changed = tmp_path / "kernels.cu"
    changed.write_text(by_warps((LAYERS / "src" / "kernels.cu").read_text(encoding="utf-8")))
    said = ("--hypothesis", "A warp for each row", "--category", "memory_access")
    roofsmith(shared_cache, "tell", str(campaign), "--kernel", str(changed), *said)
    roofsmith(shared_cache, "verify", str(campaign))
    page = (campaign / "performance.md").read_text(encoding="utf-8")
    for kernel in ("row_softmax_kernel", "scale_bias_kernel", "gelu_kernel"):
        assert kernel in page
