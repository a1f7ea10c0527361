"""Built CUDA and Triton kernels on a real GPU, called as a worker calls them, in a process of their
own.

pytest -m device tests/device/test_cuda_library.py
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gpu_bench import environment_or_skip
from numpy.typing import NDArray

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.targets.file import load_target
from roofsmith.toolchains import Toolchains, triton_resources
from roofsmith.toolchains.cuda_toolkit import find_toolkit

pytestmark = pytest.mark.device

EXAMPLES = Path(__file__).parents[2] / "examples"

SLOW = """\
__global__ void spin(float *y, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    y[0] += 1.0f;
}
extern "C" void solve(float *y, int n) {
    spin<<<1, 1>>>(y, 200000000LL);
    cudaDeviceSynchronize();
}
"""
"""About 100 ms on any GPU that clocks at 1 to 2 GHz."""

MUCH_SHARED = """\
__global__ void fill(float *y) {
    __shared__ float tile[20000];
    for (int i = threadIdx.x; i < 20000; i += 256) tile[i] = i;
    __syncthreads();
    y[threadIdx.x] = tile[19999 - threadIdx.x];
}
extern "C" void solve(float *y, int n) { fill<<<1, 256>>>(y); }
"""
"""80,000 bytes of static shared memory, which only some architectures take."""


@pytest.fixture(scope="module")
def device() -> Device:
    return environment_or_skip().device


@pytest.fixture(scope="module")
def toolchain(device: Device, shared_cache: Path) -> Toolchains:
    return Toolchains(shared_cache / "builds", device)


def candidate(text: str) -> Candidate:
    return Candidate(language="cuda", sources=(SourceFile(path="kernel.cu", text=text),))


def built(result: object) -> Built:
    assert isinstance(result, Built), result
    return result


class Runtime:
    """The CUDA runtime that the libraries are linked with."""

    def __init__(self) -> None:
        path = find_toolkit().runtime
        assert path is not None, "the toolkit has no shared CUDA runtime"
        self._library = ctypes.CDLL(str(path))

    def check(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    @contextmanager
    def array(self, host: NDArray[np.float32]) -> Iterator[ctypes.c_void_p]:
        """A copy of an array on the device."""
        pointer = ctypes.c_void_p()
        size = ctypes.c_size_t(host.nbytes)
        self.check("cudaMalloc", ctypes.byref(pointer), size)
        try:
            self.check("cudaMemcpy", pointer, ctypes.c_void_p(host.ctypes.data), size, 1)
            yield pointer
        finally:
            self.check("cudaFree", pointer)

    def fetch(self, pointer: ctypes.c_void_p, host: NDArray[np.float32]) -> None:
        size = ctypes.c_size_t(host.nbytes)
        self.check("cudaMemcpy", ctypes.c_void_p(host.ctypes.data), pointer, size, 2)


def softmax_of(library: Path, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What `solve` makes of rows."""
    runtime, solve = Runtime(), ctypes.CDLL(str(library)).solve
    y = np.full_like(x, np.nan)
    with runtime.array(x) as given, runtime.array(y) as result:
        solve(given, result, *x.shape)
        runtime.check("cudaDeviceSynchronize")
        runtime.fetch(result, y)
    return y


def spun(path: Path) -> tuple[dict[int, float], float]:
    """Seconds that `solve` takes, waiting (0) and not (1); and what it had added up by then."""
    runtime, library = Runtime(), ctypes.CDLL(str(path))
    defer = ctypes.c_int.in_dll(library, "roofsmith_defer_waits")
    with runtime.array(np.zeros(1, np.float32)) as y:
        library.solve(y, 1)  # loads the module
        took = {}
        for on in (0, 1):
            defer.value = on
            start = time.perf_counter()
            library.solve(y, 1)
            took[on] = time.perf_counter() - start
            runtime.check("cudaDeviceSynchronize")
        host = np.zeros(1, np.float32)
        runtime.fetch(y, host)
    return took, float(host[0])


def filled(library: Path) -> float:
    """The first of 256 elements that `solve` writes."""
    runtime, y = Runtime(), np.zeros(256, np.float32)
    with runtime.array(y) as pointer:
        ctypes.CDLL(str(library)).solve(pointer, 256)
        runtime.check("cudaDeviceSynchronize")
        runtime.check("cudaGetLastError")
        runtime.fetch(pointer, y)
    return float(y[0])


def test_the_bundled_softmax_computes(toolchain: Toolchains, own_process: Executor) -> None:
    made = built(toolchain.build(load_target(EXAMPLES / "cuda/softmax").baseline))
    x = np.random.default_rng(0).standard_normal((300, 1000), dtype=np.float32)
    y = own_process.submit(softmax_of, made.library, x).result()
    weights = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)


def test_waits_are_deferred_only_when_asked(toolchain: Toolchains, own_process: Executor) -> None:
    made = built(toolchain.build(candidate(SLOW)))
    took, total = own_process.submit(spun, made.library).result()
    assert took[1] < took[0] / 5
    assert total == 3


def test_static_shared_memory_that_compiles_runs(
    toolchain: Toolchains, own_process: Executor
) -> None:
    """A build that passes must be one that can be launched: the toolchain refuses the others."""
    result = toolchain.build(candidate(MUCH_SHARED))
    if not isinstance(result, Built):
        assert result.reason == "too_much_shared_memory"
        return
    assert own_process.submit(filled, result.library).result() == 19999


RUN = """
import importlib.util, json, sys
import torch
spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
made = module.setup(**json.loads(sys.argv[2]))
module.run_kernel(**made["inputs"])
torch.cuda.synchronize()
"""


@pytest.mark.parametrize(
    ("name", "dims", "kernel"),
    [
        ("triton/softmax", {"N": 64, "D": 1000}, "softmax_rows"),
        ("triton/matmul", {"M": 64, "N": 64, "K": 64}, "matmul_tile"),
    ],
)
def test_triton_writes_down_what_its_kernels_take(
    device: Device,
    toolchain: Toolchains,
    tmp_path: Path,
    name: str,
    dims: dict[str, int],
    kernel: str,
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    made = built(toolchain.build(load_target(EXAMPLES / name).baseline))
    command = [sys.executable, "-c", RUN, str(made.library), json.dumps(dims)]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, env=environment, check=True, timeout=300)
    (found,) = triton_resources(tmp_path)
    assert (found.name, found.arch) == (kernel, device.arch)
    assert found.num_warps == 4
    assert found.shared_bytes is not None
