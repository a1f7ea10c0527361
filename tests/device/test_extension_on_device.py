"""Honest modules that compile C++ and CUDA for themselves. They hold Python's lock while they wait
for the device, so that nothing in their process can end that wait."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, judging, softmax_target

pytestmark = pytest.mark.device

EXTENSION = '''
import torch
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>

__global__ void exponentials(const float* x, float* y, float* sums, int D) {
    const float* row = x + (size_t)blockIdx.x * D;
    float* out = y + (size_t)blockIdx.x * D;
    __shared__ float partial[256];
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < D; i += 256) largest = fmaxf(largest, row[i]);
    partial[threadIdx.x] = largest;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + half]);
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < D; i += 256) sum += out[i] = __expf(row[i] - largest);
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

__global__ void scale(float* y, const float* sums, int D) {
    float* out = y + (size_t)blockIdx.x * D;
    for (int i = threadIdx.x; i < D; i += 256) out[i] /= sums[blockIdx.x];
}

void softmax(torch::Tensor x, torch::Tensor y) {
    auto sums = torch::empty({x.size(0)}, x.options());
    int N = x.size(0), D = x.size(1);
    exponentials<<<N, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), sums.data_ptr<float>(), D);
    scale<<<N, 256>>>(y.data_ptr<float>(), sums.data_ptr<float>(), D);
    AFTER
}
"""
module = load_inline(
    "softmax", "void softmax(torch::Tensor x, torch::Tensor y);", CUDA, functions=["softmax"]
)


def run_kernel(x, y, N, D):
    module.softmax(x, y)
'''
AFTER = {"returns at once": "", "waits for the device": "cudaDeviceSynchronize();"}


@pytest.fixture(scope="module")
def extensions(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    if not all(map(shutil.which, ("ninja", "nvcc", "g++"))):
        pytest.skip("extensions need ninja, nvcc and g++")
    target = softmax_target("torch", EXTENSION.replace("AFTER", ""))
    with judging(target, shared_cache) as made:
        yield made


@pytest.mark.parametrize("way", AFTER)
def test_an_extension_is_judged_as_any_other_kernel(extensions: GpuJudging, way: str) -> None:
    text, same = (EXTENSION.replace("AFTER", AFTER[way] + note) for note in ("", " // the same"))
    found = extensions.compare(same, text)
    assert found.outcome.kind == "passed", found.outcome
    print(way, found.verdict, found.comparison and found.comparison.overall)
    assert found.verdict in ("tie", "inconclusive")
