"""Steps of training on a real GPU: Triton and PyTorch modules with tensors on the device, and
CUDA libraries that are given device pointers.

pytest -m device tests/device/test_transfer_on_device.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip, nvcc_or_skip

from roofsmith.domain.kernel import Built, Candidate, Signature, SourceFile
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.overfitting.hints import audit
from roofsmith.overfitting.trace.tracer import STEPS, TIMED_STEPS, StepTracer
from roofsmith.toolchains.cuda import CudaToolchain

pytestmark = pytest.mark.device


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
    """Steps with a module, written to a folder."""
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


# -- libraries ------------------------------------------------------------------------------

MATMUL = """
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) pack(const float* w, float* packed, int size) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
        packed[i] = w[i];
}

__global__ void __launch_bounds__(256)
product(const float* x, const float* w, float* out, int M, int K, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += x[i / N * K + k] * w[k * N + i % N];
    out[i] = sum;
}

extern "C" void solve(const float* x, const float* w, float* out, int M, int K, int N) {
    static float* packed;
    bool is_new = packed == nullptr;
    if (is_new) cudaMalloc(&packed, sizeof(float) * K * N);
    if (EACH_CALL || is_new) pack<<<(K * N + 255) / 256, 256>>>(w, packed, K * N);
    product<<<(M * N + 255) / 256, 256>>>(x, packed, out, M, K, N);
}
"""
MATMUL_REFERENCE = (
    LINEAR.replace('inputs": values', 'inputs": {**values, **sizes}')
    .replace("    return", '    sizes = {"M": M, "K": K, "N": N}\n    return')
    .replace("reference(x, w, out)", "reference(x, w, out, M, K, N)")
)
ROWS = """
__global__ void __launch_bounds__(256)
rows(const float* x, const float* scale, const int* group_sizes, float* out, int M, int G, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, group = 0;
    if (i >= M * N) return;
    for (int end = SIZE; group < G - 1 && i / N >= end; end += SIZE) ++group;
    out[i] = x[i] * scale[group];
}

extern "C" void solve(const float* x, const float* scale, const int* group_sizes, float* out,
                      int M, int G, int N) {
    rows<<<(M * N + 255) / 256, 256>>>(x, scale, group_sizes, out, M, G, N);
}
"""
ROWS_REFERENCE = """
import torch

def setup(M, G, N, seed):
    torch.manual_seed(seed)
    values = {
        "x": torch.randn(M, N), "scale": torch.randn(G),
        "group_sizes": torch.full((G,), M // G, dtype=torch.int32), "out": torch.empty(M, N),
    }
    return {"inputs": {**values, "M": M, "G": G, "N": N}, "outputs": ["out"]}

def reference(x, scale, group_sizes, out, M, G, N):
    out.copy_(x * scale.repeat_interleave(group_sizes.long())[:, None])
"""


def library_trace(text: str, reference: str, dims: dict[str, int], where: Path) -> Trace:
    """Steps with a library, built in a folder."""
    kernel = SourceFile(path="kernel.cu", text=text)
    given = SourceFile(path="reference.py", text=reference)
    target = Target(
        name="corpus", language="cuda", kernel=kernel, reference=given,
        workloads=(Workload(dims=dims),),
    )  # fmt: skip
    candidate = Candidate(language="cuda", sources=(kernel,))
    toolchain = CudaToolchain(where / "builds", environment_or_skip().device)
    built = toolchain.build(candidate)
    assert isinstance(built, Built), built.detail
    tracer = StepTracer(
        target, built.signature, threads=4, device="cuda", api="cuda", cache_dir=where / "compiled"
    )
    kept = audit(candidate, None, given).kept_values
    found = tracer.trace(built, target.workloads[0], kept)
    assert isinstance(found, Trace), found
    return found


EACH_CALL = {True: MATMUL.replace("EACH_CALL", "1"), False: MATMUL.replace("EACH_CALL", "0")}
SIZES = ("group_sizes[group]", "M / G")
LINEAR_DIMS = {"M": 64, "K": 128, "N": 96}
ROWS_DIMS = {"M": 64, "G": 4, "N": 8}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Trace]]]:
    """All of them at the same time, each in processes of its own: nothing here is a matter of
    speed, and every one imports PyTorch, for its reference and for its module."""
    environment_or_skip()
    modules = {
        "versioned": ((CORPUS / "W1" / "versioned_dict.py").read_text(), LINEAR, LINEAR_DIMS),
        "unversioned": ((CORPUS / "W1" / "unversioned_dict.py").read_text(), LINEAR, LINEAR_DIMS),
        "scale": (SCALE, PRODUCT, {"N": 1000}),
    }
    libraries = {
        **{f"packs {on}": (text, MATMUL_REFERENCE, LINEAR_DIMS) for on, text in EACH_CALL.items()},
        **{size: (ROWS.replace("SIZE", size), ROWS_REFERENCE, ROWS_DIMS) for size in SIZES},
    }
    folder = tmp_path_factory.mktemp
    with ThreadPoolExecutor(len(modules) + len(libraries)) as pool:
        yield {
            **{name: pool.submit(trace, *made, folder("module")) for name, made in modules.items()},
            **{
                name: pool.submit(library_trace, *made, folder("library"))
                for name, made in libraries.items()
            },
        }


def test_a_weight_cache_on_the_device(traces: Mapping[str, Future[Trace]]) -> None:
    found = traces["versioned"].result()
    assert found.failure is None
    assert [(c.lookups, c.hits) for c in found.caches] == [(2 * TIMED_STEPS, TIMED_STEPS)]


def test_a_stale_weight_on_the_device(traces: Mapping[str, Future[Trace]]) -> None:
    found = traces["unversioned"].result()
    assert isinstance(found.failure, Incorrect)
    assert "changed in place" in found.failure.detail


def test_a_triton_kernel_in_bfloat16(traces: Mapping[str, Future[Trace]]) -> None:
    found = traces["scale"].result()
    assert found.failure is None
    assert found.weights == ("w",)


@pytest.mark.parametrize("each_call", [True, False])
def test_a_library_that_packs_its_weights(
    traces: Mapping[str, Future[Trace]], each_call: bool
) -> None:
    nvcc_or_skip()
    found = traces[f"packs {each_call}"].result()
    assert found.weights == ("w",)
    if each_call:
        assert found.failure is None
        assert found.fresh_time_s is not None
        return
    assert isinstance(found.failure, Incorrect)
    assert "changed in place" in found.failure.detail
    assert found.steps == 1


@pytest.mark.parametrize("size", SIZES)
def test_a_library_meets_uneven_groups(traces: Mapping[str, Future[Trace]], size: str) -> None:
    nvcc_or_skip()
    found = traces[size].result()
    assert found.skewed.startswith("group_sizes: ")
    assert (found.failure is None) is (size != "M / G")
    assert found.steps == (STEPS if size != "M / G" else STEPS // 2)
