"""Steps of training on a real GPU: Triton and PyTorch modules, with tensors on the device.

pytest -m device tests/device/test_transfer_on_device.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_bench import environment_or_skip

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Built, Candidate, Signature, SourceFile
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.judge.transfer.tracer import TIMED_STEPS, StepTracer

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def gpu() -> None:
    environment_or_skip()


CORPUS = Path(__file__).parents[1] / "golden" / "overfitting"

LINEAR = """
import torch

def setup(M, K, N, seed):
    torch.manual_seed(seed)
    values = {"x": torch.randn(M, K), "w": torch.randn(K, N), "out": torch.empty(M, N)}
    return {"inputs": values, "outputs": ["out"], "weights": ["w"]}

def reference(x, w, out):
    out.copy_(x @ w)
"""
SCALE = """
import triton
import triton.language as tl

@triton.jit
def _scale(x, w, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    tl.store(out + at, tl.load(x + at, mask=keep) * tl.load(w + at, mask=keep), mask=keep)

def run_kernel(x, w, out):
    n = x.numel()
    _scale[(triton.cdiv(n, 256),)](x, w, out, n, BLOCK=256)
"""
PRODUCT = """
import torch

def setup(N, seed):
    torch.manual_seed(seed)
    values = {name: torch.randn(N, dtype=torch.bfloat16) for name in ("x", "w", "out")}
    return {"inputs": values, "outputs": ["out"]}

def reference(x, w, out):
    out.copy_(x * w)
"""


def trace(text: str, reference: str, dims: dict[str, int], where: Path) -> Trace:
    path = where / "kernel.py"
    path.write_text(text)
    kernel = SourceFile(path="kernel.py", text=text)
    given = SourceFile(path="reference.py", text=reference)
    target = Target(
        name="corpus", language="triton", kernel=kernel, reference=given,
        workloads=(Workload(dims=dims),), entry="run_kernel",
    )  # fmt: skip
    signature = Signature(entry="run_kernel", parameters=())
    candidate = Candidate(language="triton", sources=(kernel,))
    built = Built(
        candidate_id=candidate.id, language="triton", library=path, signature=signature,
        library_sha256=content_id(path.read_bytes()), environment={}, command="", log=path,
        build_time_s=0,
    )  # fmt: skip
    tracer = StepTracer(target, signature, threads=4, device="cuda", cache_dir=where / "compiled")
    kept = audit(candidate, None, given).kept_values
    found = tracer.trace(built, target.workloads[0], kept)
    assert isinstance(found, Trace), found
    return found


def test_a_weight_cache_on_the_device(tmp_path: Path) -> None:
    text = (CORPUS / "W1" / "versioned_dict.py").read_text()
    found = trace(text, LINEAR, {"M": 64, "K": 128, "N": 96}, tmp_path)
    assert found.failure is None
    assert [(c.lookups, c.hits) for c in found.caches] == [(2 * TIMED_STEPS, TIMED_STEPS)]


def test_a_stale_weight_on_the_device(tmp_path: Path) -> None:
    text = (CORPUS / "W1" / "unversioned_dict.py").read_text()
    found = trace(text, LINEAR, {"M": 64, "K": 128, "N": 96}, tmp_path)
    assert isinstance(found.failure, Incorrect)
    assert "weights that changed in place" in found.failure.detail


def test_a_triton_kernel_in_bfloat16(tmp_path: Path) -> None:
    found = trace(SCALE, PRODUCT, {"N": 1000}, tmp_path)
    assert found.failure is None
    assert found.weights == ("w",)
