"""Steps with libraries that are given device pointers, rehearsed on the host.

The driver is a stand-in, whose device is the worker's own memory, gcc builds the kernels, and the
reference is in this process. All else is what runs on a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
from driver_here import has_driver
from tool_stand_ins import built_file

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Candidate, Signature, SourceFile
from roofsmith.domain.outcome import Crashed, Incorrect
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace
from roofsmith.domain.workload import Workload
from roofsmith.judge.steps.server import StepsServer
from roofsmith.overfitting.hints import audit
from roofsmith.overfitting.trace.tracer import FEWEST_STEPS, STEPS, StepTracer
from roofsmith.toolchains.signature import read_signature

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(has_driver(), reason="this machine has a driver of its own"),
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
]

DRIVER = """
#include <stdlib.h>
#include <string.h>
#define SAYS_NOTHING(name) int name() { return 0; }
int cuMemAlloc_v2(void **at, size_t size) { *at = malloc(size); memset(*at, 1, size); return 0; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t n) { memcpy(to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t n) { memcpy(to, from, n); return 0; }
int cuMemHostAlloc(void **at, size_t size, unsigned flags) { *at = calloc(1, size); return 0; }
int cuMemHostGetDevicePointer_v2(void **to, void *host, unsigned flags) { *to = host; return 0; }
int cuEventElapsedTime(float *ms, void *begin, void *end) { *ms = 1.0f; return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return 0; }
SAYS_NOTHING(cuInit) SAYS_NOTHING(cuDevicePrimaryCtxRetain)
SAYS_NOTHING(cuDeviceGet) SAYS_NOTHING(cuCtxSetCurrent) SAYS_NOTHING(cuMemFree_v2)
SAYS_NOTHING(cuMemsetD8_v2) SAYS_NOTHING(cuCtxSynchronize) SAYS_NOTHING(cuIpcGetMemHandle)
SAYS_NOTHING(cuIpcOpenMemHandle_v2) SAYS_NOTHING(cuEventCreate) SAYS_NOTHING(cuEventRecord)
SAYS_NOTHING(cuEventQuery) SAYS_NOTHING(cuEventSynchronize) SAYS_NOTHING(cuStreamWaitValue32_v2)
SAYS_NOTHING(cuMemHostRegister_v2) SAYS_NOTHING(cuStreamWriteValue32_v2)
SAYS_NOTHING(cuProfilerStart) SAYS_NOTHING(cuProfilerStop)
"""
LINEAR = """
import torch

def setup(M, K, N, seed):
    g = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(shape, generator=g) for shape in ((M, K), (K, N)))
    values = {"x": x, "w": w, "out": torch.empty(M, N), "M": M, "K": K, "N": N}
    return {"inputs": values, "outputs": ["out"]}

def reference(x, w, out, M, K, N):
    out.copy_(x @ w)
"""
GROUPED = """
import torch

def setup(M, G, N, seed):
    g = torch.Generator().manual_seed(seed)
    values = {
        "x": torch.randn(M, N, generator=g), "scale": torch.randn(G, generator=g),
        "group_sizes": torch.full((G,), M // G, dtype=torch.int32), "out": torch.empty(M, N),
    }
    return {"inputs": {**values, "M": M, "G": G, "N": N}, "outputs": ["out"]}

def reference(x, scale, group_sizes, out, M, G, N):
    out.copy_(x * scale.repeat_interleave(group_sizes.long())[:, None])
"""
MATMUL = """
static float packed[1 << 16];
static int is_packed;

void solve(const float *x, const float *w, float *out, int M, int K, int N)
{
    if (EACH_CALL || !is_packed)
        for (int i = 0; i < K * N; i++) packed[i] = w[i];
    is_packed = 1;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += x[m * K + k] * packed[k * N + n];
            out[m * N + n] = sum;
        }
}
"""
ROWS = """
void solve(const float *x, const float *scale, const int *group_sizes, float *out,
           int M, int G, int N)
{
    for (int group = 0, row = 0; group < G; group++)
        for (int end = row + SIZE; row < end; row++)
            for (int n = 0; n < N; n++) out[row * N + n] = x[row * N + n] * scale[group];
}
"""
SMALL = {"M": 4, "K": 8, "N": 6}


class Here:
    """The reference, in this process: importing PyTorch takes seconds in one of its own."""

    def __init__(self, target: Target, signature: Signature) -> None:
        module = ModuleType("reference")
        exec(target.reference.text, module.__dict__)
        kind = pytest.importorskip("roofsmith.judge.gpu.reference").GpuReference
        found = kind(module, None, signature, None, tf32=False, device="cpu")
        self._server = StepsServer(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self._server.done({})

    def described(self, workload: Workload) -> WorkloadDescription:
        told = self._server.describe({"dims": workload.dims})
        arrays = (
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"])) for a in told["arrays"]
        )
        return WorkloadDescription(
            tuple(arrays), told["scalars"], None, None, None, None, tuple(told["arguments"])
        )

    def ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        return self._server.answer({"op": op, **message}, [os.dup(fd) for fd in fds])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    compiled(DRIVER, tmp_path / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return tmp_path


def compiled(source: str, library: Path) -> Path:
    library.with_suffix(".c").write_text(source)
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", library, library.with_suffix(".c")]
    subprocess.run(command, check=True)
    return library


def trace(text: str, reference: str, dims: dict[str, int], where: Path) -> Trace:
    kernel = SourceFile(path="kernel.cu", text=text)
    given = SourceFile(path="reference.py", text=reference)
    candidate = Candidate(language="cuda", sources=(kernel,))
    target = Target(
        name="sample", language="cuda", kernel=kernel, reference=given,
        workloads=(Workload(dims=dims),),
    )  # fmt: skip
    library = compiled(text, where / "kernel.so")
    plain = Candidate(language="c", sources=(kernel.model_copy(update={"path": "kernel.c"}),))
    signature = read_signature(plain)
    built = built_file(library, "cuda", candidate.id, signature)
    tracer = StepTracer(target, signature, threads=1, api="cuda", cache_dir=where / "compiled")
    tracer._reference = lambda device: Here(target, signature)  # type: ignore[method-assign,assignment,return-value]
    found = tracer.trace(built, target.workloads[0], audit(candidate, None, given).kept_values)
    assert isinstance(found, Trace), found
    return found


@pytest.mark.rule("libraries-run-steps")
def test_weights_that_were_packed_once_are_stale_in_the_second_step(folder: Path) -> None:
    found = trace(MATMUL.replace("EACH_CALL", "0"), LINEAR, SMALL, folder)
    assert isinstance(found.failure, Incorrect)
    assert "changed in place" in found.failure.detail
    assert (found.steps, found.weights) == (1, ("w",))


def test_weights_that_are_packed_in_every_call_are_right(folder: Path) -> None:
    found = trace(MATMUL.replace("EACH_CALL", "1"), LINEAR, SMALL, folder)
    assert found.failure is None
    assert found.steps in (FEWEST_STEPS, STEPS)
    assert found.kept_time_s == pytest.approx(1e-3), "by the device's events"


@pytest.mark.rule("libraries-run-steps")
@pytest.mark.parametrize(("size", "is_right"), [("group_sizes[group]", True), ("M / G", False)])
def test_uneven_groups(folder: Path, size: str, is_right: bool) -> None:
    found = trace(ROWS.replace("SIZE", size), GROUPED, {"M": 64, "G": 4, "N": 8}, folder)
    assert found.skewed.startswith("group_sizes: ")
    assert (found.failure is None) is is_right
    assert found.steps == (STEPS if is_right else STEPS // 2)


def test_a_library_that_dies_is_a_candidates_failure(folder: Path) -> None:
    text = "#include <stdlib.h>\n" + MATMUL.replace("EACH_CALL || !is_packed", "(abort(), 1)")
    found = trace(text, LINEAR, SMALL, folder)
    assert isinstance(found.failure, Crashed)
    assert found.failure.reason == "signal_sigabrt"
