"""Kernels whose work is known exactly: the subjects of the judge's rates on a GPU.

The softmax makes N rows, and then `EXTRA` of them again into a scratch buffer, in one launch: two
versions differ in one number, and the row counts say by how much one does more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofsmith.domain.kernel import SourceFile, default_build
from roofsmith.domain.target import KeepPolicy, Target, default_keep
from roofsmith.domain.workload import Workload

MAX_EXTRA_ROWS = 256

_SOFTMAX = """\
// @NOTE@
#include <cuda_runtime.h>

constexpr int extra_rows = @EXTRA@;
__device__ float scratch[@SCRATCH@];

__device__ float over_block(float value, bool largest) {
    __shared__ float partial[8];
    for (int o = 16; o; o >>= 1) {
        float other = __shfl_xor_sync(~0u, value, o);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int i = 1; i < 8; i++) value = largest ? fmaxf(value, partial[i]) : value + partial[i];
    __syncthreads();
    return value;
}

template <int PER_THREAD>
__global__ void softmax_rows(const float* input, float* output, int N) {
    const int D = PER_THREAD * 1024;
    const bool again = blockIdx.x >= N;
    const int row = again ? blockIdx.x - N : blockIdx.x;
    const float4* in = (const float4*)(input + (size_t)row * D);
    float4* out = (float4*)((again ? scratch : output) + (size_t)row * D);
    float4 v[PER_THREAD];
    float largest = -INFINITY, sum = 0;
    for (int i = 0; i < PER_THREAD; i++) {
        v[i] = in[threadIdx.x + i * 256];
        largest = fmaxf(largest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    largest = over_block(largest, true);
    for (int i = 0; i < PER_THREAD; i++) {
        v[i].x = __expf(v[i].x - largest);
        v[i].y = __expf(v[i].y - largest);
        v[i].z = __expf(v[i].z - largest);
        v[i].w = __expf(v[i].w - largest);
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    float scale = 1 / over_block(sum, false);
    for (int i = 0; i < PER_THREAD; i++)
        out[threadIdx.x + i * 256] =
            make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale);
}

extern "C" void solve(const float* input, float* output, int N, int D) {
    softmax_rows<@COLUMNS@ / 1024><<<N + extra_rows, 256>>>(input, output, N);
}
"""
_SOFTMAX_REFERENCE = """\
import torch


def setup(N, D, seed):
    torch.manual_seed(seed)
    input = torch.randn(N, D, device="cuda")
    inputs = {"input": input, "output": torch.empty_like(input), "N": N, "D": D}
    return {"inputs": inputs, "outputs": ["output"]}


def reference(input, output, N, D):
    output.copy_(torch.softmax(input, dim=-1))


def flops(N, D):
    return 5 * N * D


def bytes(N, D):
    return 8 * N * D
"""
_TRITON = """\
# @NOTE@
import torch
import triton
import triton.language as tl

EXTRA_ROWS = @EXTRA@
scratch = []


@triton.jit
def softmax_rows(input, output, beside, N, D: tl.constexpr):
    row = tl.program_id(0)
    again = row >= N
    row = tl.where(again, row - N, row)
    columns = tl.arange(0, D)
    value = tl.load(input + row * D + columns)
    value = tl.exp(value - tl.max(value, 0))
    value /= tl.sum(value, 0)
    tl.store(output + row * D + columns, value, mask=columns < tl.where(again, 0, D))
    tl.store(beside + row * D + columns, value, mask=columns < tl.where(again, D, 0))


def run_kernel(input, output, N, D):
    if not scratch:
        scratch.append(torch.empty(max(EXTRA_ROWS, 1), D, device=input.device))
    softmax_rows[(N + EXTRA_ROWS,)](input, output, scratch[0], N, D, num_warps=8)
"""
_GEMM = """\
// @NOTE@
#include <cuda_runtime.h>

__global__ void product(const float* A, const float* B, float* C, int N) {
    __shared__ float a[32][32], b[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < N; k += 32) {
        a[threadIdx.y][threadIdx.x] = A[row * N + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * N + column];
        __syncthreads();
        for (int i = 0; i < 32; i++) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    C[row * N + column] = sum;
}

extern "C" void solve(const float* A, const float* B, float* C, int N) {
    product<<<dim3(N / 32, N / 32), dim3(32, 32)>>>(A, B, C, N);
}
"""
_GEMM_REFERENCE = """\
import torch


def setup(N, seed):
    torch.manual_seed(seed)
    A, B = torch.randn(N, N, device="cuda"), torch.randn(N, N, device="cuda")
    return {"inputs": {"A": A, "B": B, "C": torch.empty_like(A), "N": N}, "outputs": ["C"]}


def reference(A, B, C, N):
    torch.matmul(A, B, out=C)


def flops(N):
    return 2 * N**3


def bytes(N):
    return 12 * N * N
"""


@dataclass(frozen=True, slots=True)
class GpuRateKernel:
    """One kernel that trials are made with."""

    name: str
    source_text: str
    reference: str
    dims: dict[str, int]
    language: Literal["cuda", "triton"] = "cuda"

    def extra_rows(self, slowdown: float) -> int:
        """Rows on top that make the softmax do more by the factor 1 + `slowdown`.

        Raises:
            ValueError: more rows than the scratch buffer holds, or none at all to add.
        """
        extra = round(self.dims["N"] * slowdown)
        if not 0 <= extra <= MAX_EXTRA_ROWS or (extra and "@EXTRA@" not in self.source_text):
            raise ValueError(f"{self.name} can't be made slower by {slowdown}")
        return extra

    def source(self, extra_rows: int, note: str) -> SourceFile:
        """The kernel file, with a comment that makes its content, and so its build, its own."""
        columns = self.dims.get("D", 0)
        text = self.source_text
        filled = {
            "@NOTE@": note, "@EXTRA@": extra_rows, "@COLUMNS@": columns,
            "@SCRATCH@": MAX_EXTRA_ROWS * columns,
        }  # fmt: skip
        for name, value in filled.items():
            text = text.replace(name, str(value))
        return SourceFile(path="kernel.cu" if self.language == "cuda" else "kernel.py", text=text)

    def target(self, budget_s: float) -> Target:
        """A target whose incumbent does no needless work."""
        keep: KeepPolicy = default_keep(self.language)
        keep = keep.model_copy(update={"judge_budget_s": budget_s})
        return Target(
            name=self.name,
            language=self.language,
            kernel=self.source(0, "incumbent"),
            build=default_build(self.language),
            reference=SourceFile(path="reference.py", text=self.reference),
            workloads=(Workload(dims=self.dims),),
            keep=keep,
        )


KERNELS = {
    kernel.name: kernel
    for kernel in (
        GpuRateKernel("softmax", _SOFTMAX, _SOFTMAX_REFERENCE, {"N": 4096, "D": 4096}),
        GpuRateKernel("small-softmax", _SOFTMAX, _SOFTMAX_REFERENCE, {"N": 1280, "D": 2048}),
        GpuRateKernel("gemm", _GEMM, _GEMM_REFERENCE, {"N": 2112}),
        GpuRateKernel(
            "triton-softmax", _TRITON, _SOFTMAX_REFERENCE, {"N": 4096, "D": 4096}, "triton"
        ),
    )
}
