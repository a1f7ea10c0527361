"""Honest kernels by another formula than their incumbent's, which loses digits on odd inputs: those
of tests/adversarial/test_honest_formulas.py on a GPU, and some that are written for one.

`pytest -m device tests/device/test_honest_formulas_on_device.py -rs`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, candidate, judging

from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness import examiner as module
from roofsmith.judge.correctness.examiner import Examiner

pytestmark = pytest.mark.device

TIMES = 4

ELEMENTS = """
import torch


def setup(n, seed):
    torch.manual_seed(seed)
    x = DRAWN
    return {"inputs": {"x": x, "y": torch.empty_like(x), "n": n}, "outputs": ["y"]}


def reference(x, y, n):
    y.copy_(RESULT)
"""
ELEMENTS_KERNEL = """
#include <cuda_runtime.h>

__device__ float result(float x) { return FORMULA; }

__global__ void results(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = result(x[i]);
}

extern "C" void solve(const float* x, float* y, int n) {
    results<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""

GATES = """
import torch


def setup(n, seed):
    torch.manual_seed(seed)
    gates, c = torch.randn(4, n, device="cuda"), torch.randn(n, device="cuda")
    made = {"state": torch.empty_like(c), "h": torch.empty_like(c)}
    return {"inputs": {"gates": gates, "c": c, **made, "n": n}, "outputs": list(made)}


def reference(gates, c, state, h, n):
    forgets, lets_in, shows = (gates[i].sigmoid() for i in (0, 1, 3))
    state.copy_(forgets * c + lets_in * gates[2].tanh())
    h.copy_(shows * state.tanh())
"""
GATES_KERNEL = """
#include <cuda_runtime.h>

FORMULA
__global__ void cells(const float* gates, const float* c, float* state, float* h, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = gate(gates[i]) * c[i] + gate(gates[n + i]) * bounded(gates[2 * n + i]);
    state[i] = s;
    h[i] = gate(gates[3 * n + i]) * bounded(s);
}

extern "C" void solve(const float* gates, const float* c, float* state, float* h, int n) {
    cells<<<(n + 255) / 256, 256>>>(gates, c, state, h, n);
}
"""
AS_DEFINED = """
__device__ float gate(float x) { return 1 / (1 + expf(-x)); }
__device__ float bounded(float x) { return tanhf(x); }
"""
BY_EACH_OTHER = """
__device__ float gate(float x) { return 0.5f + 0.5f * tanhf(0.5f * x); }
__device__ float bounded(float x) { return 2 / (1 + expf(-2 * x)) - 1; }
"""

DISTANCES = """
import torch


def setup(n, m, d, seed):
    torch.manual_seed(seed)
    a, b = (torch.randn(rows, d, device="cuda") for rows in (n, m))
    inputs = {"a": a, "b": b, "y": torch.empty(n, m, device="cuda"), "n": n, "m": m, "d": d}
    return {"inputs": inputs, "outputs": ["y"]}


def reference(a, b, y, n, m, d):
    y.copy_((a[:, None] - b[None]).square().sum(2).sqrt())
"""
DISTANCES_KERNEL = """
#include <cuda_runtime.h>

__global__ void distances(const float* a, const float* b, float* y, int m, int d) {
    int j = blockIdx.y * blockDim.x + threadIdx.x;
    if (j >= m) return;
    float s = 0, aa = 0, bb = 0, ab = 0;
    for (int l = 0; l < d; l++) {
        float p = a[blockIdx.x * d + l], q = b[j * d + l];
        s += (p - q) * (p - q);
        aa += p * p;
        bb += q * q;
        ab += p * q;
    }
    y[blockIdx.x * m + j] = sqrtf(FORMULA);
}

extern "C" void solve(const float* a, const float* b, float* y, int n, int m, int d) {
    distances<<<dim3(n, (m + 63) / 64), 64>>>(a, b, y, m, d);
}
"""

VARIANCE = """
import torch


def setup(n, d, seed):
    torch.manual_seed(seed)
    x, y = torch.randn(n, d, device="cuda"), torch.empty(n, device="cuda")
    return {"inputs": {"x": x, "y": y, "n": n, "d": d}, "outputs": ["y"]}


def reference(x, y, n, d):
    y.copy_(x.mean(1) + x.var(1, correction=0).sqrt())
"""
VARIANCE_KERNEL = """
#include <cuda_runtime.h>

__device__ float summed(float part) {
    for (int o = 16; o; o >>= 1) part += __shfl_xor_sync(~0u, part, o);
    return part;
}

__global__ void __launch_bounds__(32) spreads(const float* x, float* y, int d) {
    x += (size_t)blockIdx.x * d;
    float mean = 0, square = 0;
    FORMULA
    if (threadIdx.x == 0) y[blockIdx.x] = mean + sqrtf(square / d);
}

extern "C" void solve(const float* x, float* y, int n, int d) {
    spreads<<<n, 32>>>(x, y, d);
}
"""
TWO_PASSES = """
    for (int j = threadIdx.x; j < d; j += 32) mean += x[j];
    mean = summed(mean) / d;
    for (int j = threadIdx.x; j < d; j += 32) square += (x[j] - mean) * (x[j] - mean);
    square = summed(square);
"""
WELFORD = """
    for (int j = 0; j < d && threadIdx.x == 0; j++) {
        float off = x[j] - mean;
        mean += off * (1.0f / (j + 1));
        square += off * (x[j] - mean);
    }
"""
MERGED = """
    float count = 0;
    for (int j = threadIdx.x; j < d; j += 32) {
        float off = x[j] - mean;
        mean += off * (1.0f / ++count);
        square += off * (x[j] - mean);
    }
    for (int o = 16; o; o >>= 1) {
        float others = __shfl_xor_sync(~0u, count, o), all = count + others;
        float off = __shfl_xor_sync(~0u, mean, o) - mean;
        square += __shfl_xor_sync(~0u, square, o);
        if (others > 0) {
            mean += off * others / all;
            square += off * off * count * others / all;
        }
        count = all;
    }
"""

HISTOGRAM = """
import torch


def setup(n, bins, seed):
    torch.manual_seed(seed)
    x, h = torch.randn(n, device="cuda"), torch.zeros(bins, dtype=torch.int32, device="cuda")
    return {"inputs": {"x": x, "h": h, "n": n, "bins": bins}, "outputs": ["h"]}


def reference(x, h, n, bins):
    found = ((x + 4) * (bins / 8)).floor().clamp(0, bins - 1).long()
    h.copy_(torch.bincount(found, minlength=bins))
"""
HISTOGRAM_KERNEL = """
#include <cuda_runtime.h>

__global__ void count(const float* x, int* h, int n, int bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int b = floorf(FORMULA);
    atomicAdd(&h[b < 0 ? 0 : b < bins ? b : bins - 1], 1);
}

extern "C" void solve(const float* x, int* h, int n, int bins) {
    cudaMemsetAsync(h, 0, bins * sizeof(int), 0);
    count<<<(n + 255) / 256, 256>>>(x, h, n, bins);
}
"""

MANDELBROT = """
import torch


def setup(n, most, seed):
    torch.manual_seed(seed)
    a, b = torch.rand(n, device="cuda") * 3 - 2, torch.rand(n, device="cuda") * 2.4 - 1.2
    k = torch.empty(n, dtype=torch.int32, device="cuda")
    return {"inputs": {"a": a, "b": b, "k": k, "n": n, "most": most}, "outputs": ["k"]}


def reference(a, b, k, n, most):
    x, y = torch.zeros_like(a), torch.zeros_like(b)
    inside = torch.ones_like(a, dtype=torch.bool)
    k.zero_()
    for _ in range(most):
        x, y = torch.where(inside, x * x - y * y + a, x), torch.where(inside, 2 * x * y + b, y)
        inside &= x * x + y * y <= 4
        k += inside
"""
MANDELBROT_KERNEL = """
#include <cuda_runtime.h>

__global__ void orbits(const float* a, const float* b, int* k, int n, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = 0, y = 0;
    int steps = 0;
    for (; steps < most; steps++) {
        float t = FORMULA + a[i];
        y = 2 * x * y + b[i];
        x = t;
        if (!(x * x + y * y <= 4)) break;
    }
    k[i] = steps;
}

extern "C" void solve(const float* a, const float* b, int* k, int n, int most) {
    orbits<<<(n + 255) / 256, 256>>>(a, b, k, n, most);
}
"""

HAVERSINE = """
import torch


def setup(n, seed):
    torch.manual_seed(seed)
    a, b = torch.rand(2, n, device="cuda") * 3 - 1.5
    c, d = torch.rand(2, n, device="cuda") * 6.2 - 3.1
    inputs = {"a": a, "b": b, "c": c, "d": d, "y": torch.empty_like(a), "n": n}
    return {"inputs": inputs, "outputs": ["y"]}


def reference(a, b, c, d, y, n):
    h = ((b - a) / 2).sin() ** 2 + a.cos() * b.cos() * ((d - c) / 2).sin() ** 2
    y.copy_(2 * h.clamp(max=1).sqrt().asin())
"""
HAVERSINE_KERNEL = """
#include <cuda_runtime.h>

__global__ void angles(
    const float* a, const float* b, const float* c, const float* d, float* y, int n
) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = sinf((b[i] - a[i]) / 2), q = sinf((d[i] - c[i]) / 2);
    float h = fminf(p * p + cosf(a[i]) * cosf(b[i]) * q * q, 1);
    y[i] = 2 * FORMULA;
}

extern "C" void solve(
    const float* a, const float* b, const float* c, const float* d, float* y, int n
) {
    angles<<<(n + 255) / 256, 256>>>(a, b, c, d, y, n);
}
"""


@dataclass(frozen=True)
class Case:
    """An operator, and two honest formulas for it in one kernel: the incumbent's, and another."""

    reference: str
    kernel: str
    formula: str
    another: str
    dims: Mapping[str, int]
    refusals: int = 0
    """Of all examinations: an orbit that is chaotic ends elsewhere, once in hundreds of draws."""

    @property
    def incumbent(self) -> str:
        return self.kernel.replace("FORMULA", self.formula)

    @property
    def other(self) -> str:
        return self.kernel.replace("FORMULA", self.another)

    @property
    def target(self) -> Target:
        base = candidate("cuda", self.incumbent)
        return Target(
            name="formulas",
            language="cuda",
            kernel=base.kernel,
            reference=SourceFile(path="reference.py", text=self.reference),
            workloads=(Workload(dims=dict(self.dims)),),
            build=base.build,
            entry=base.entry,
        )


def elements(
    result: str, formula: str, another: str, drawn: str = 'torch.randn(n, device="cuda")'
) -> Case:
    """A function of every element, which torch computes as `result`."""
    reference = ELEMENTS.replace("DRAWN", drawn).replace("RESULT", result)
    return Case(reference, ELEMENTS_KERNEL, formula, another, {"n": 10007})


CASES = {
    "elu": elements(
        "torch.nn.functional.elu(x)", "x > 0 ? x : expm1f(x)", "x > 0 ? x : expf(x) - 1"
    ),
    "tanh": elements("x.tanh()", "tanhf(x)", "1 - 2 / (expf(2 * x) + 1)"),
    "softplus": elements(
        "torch.logaddexp(x, torch.zeros_like(x))",
        "x > 20 ? x : log1pf(expf(x))",
        "x > 20 ? x : logf(1 + expf(x))",
        'torch.rand(n, device="cuda") * 40 - 20',
    ),
    "gates": Case(GATES, GATES_KERNEL, AS_DEFINED, BY_EACH_OTHER, {"n": 10007}),
    "distances": Case(
        DISTANCES, DISTANCES_KERNEL, "s", "fmaxf(aa + bb - 2 * ab, 0)", {"n": 96, "m": 64, "d": 64}
    ),
    "variance": Case(VARIANCE, VARIANCE_KERNEL, TWO_PASSES, WELFORD, {"n": 64, "d": 515}),
    "variance, merged": Case(VARIANCE, VARIANCE_KERNEL, TWO_PASSES, MERGED, {"n": 64, "d": 515}),
    "histogram": Case(
        HISTOGRAM,
        HISTOGRAM_KERNEL,
        "(x[i] + 4) * (bins / 8.0f)",
        "fmaf(x[i], bins / 8.0f, bins / 2.0f)",
        {"n": 20011, "bins": 50},
    ),
    "mandelbrot": Case(
        MANDELBROT,
        MANDELBROT_KERNEL,
        "x * x - y * y",
        "(x - y) * (x + y)",
        {"n": 4096, "most": 64},
        refusals=1,
    ),
    "haversine": Case(
        HAVERSINE,
        HAVERSINE_KERNEL,
        "asinf(sqrtf(h))",
        "atan2f(sqrtf(h), sqrtf(1 - h))",
        {"n": 32768},
    ),
}


@pytest.fixture(scope="module")
def judges(shared_cache: Path) -> Iterator[Mapping[str, GpuJudging]]:
    """A reference's process per case, all of which import PyTorch while kernels are built."""
    environment_or_skip()
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(judging(case.target, shared_cache))
            for name, case in CASES.items()
        }
        kernels = [text for case in CASES.values() for text in (case.incumbent, case.other)]
        made["elu"].prepare(kernels)
        yield made


@pytest.mark.parametrize("name", CASES)
def test_it_passes(
    name: str, judges: Mapping[str, GpuJudging], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINNERS_S", 600.0)  # a winner is tried on every distribution
    case, judge = CASES[name], judges[name]
    examiner = Examiner(judge.target, judge.bench)
    incumbent, built = judge.build(case.incumbent), judge.build(case.other)
    outcome, _ = examiner.examine(incumbent, lambda *_: None)
    assert isinstance(outcome, Passed), outcome.detail
    refused: list[str] = []
    for _ in range(TIMES):
        outcome, _ = examiner.examine(built, lambda *_: None, incumbent)
        further = examiner.look_further(built, incumbent)
        refused += [one.detail for one in (outcome, further) if not isinstance(one, Passed | None)]
    assert len(refused) <= case.refusals, refused
