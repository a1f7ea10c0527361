"""Kernels as people have them run unchanged: `solve` beside a bare `reference`, `const` or not; and
a module with `setup` and `run_kernel`.

`pytest -m device tests/device/test_plain_contract_on_device.py -rs`: a minute on an H100, and 16 s
where no test before has measured its ceilings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpu_judging import GpuJudging, candidate, judging

from roofsmith.analysis.roofline import below_floor
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Language, SourceFile
from roofsmith.domain.target import Target, default_keep
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError

pytestmark = pytest.mark.device

N = 1 << 26
"""Arrays of 256 MiB each: far beyond the caches (50 MB on an H100), so that a floor 1.67 times too
high would show."""
SMALL_N = 1 << 20
REFERENCE = """
def reference(**given):
    given["total"].copy_(given["left"] + given["right"])
"""
WITH_SETUP = (
    REFERENCE
    + """

def setup(n, seed):
    import torch

    left, right = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    inputs = {"left": left, "right": right, "total": torch.empty_like(left), "n": n}
    return {"inputs": inputs, "outputs": ["total"]}
"""
)
ACCUMULATING = """
def reference(left, right, total, n):
    total += left * right
"""
CUDA = """
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) sums(const float* x, const float* y, float* z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        BODY
}

extern "C" void solve(CONST float* left, CONST float* right, float* total, int n) {
    sums<<<(n + 255) / 256, 256>>>(left, right, total, n);
    AFTER
    cudaDeviceSynchronize();
}
"""
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def sums(left, right, total, n, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = at < n
    x = tl.load(left + at, mask=inside, other=0.0)
    tl.store(total + at, x + tl.load(right + at, mask=inside, other=0.0), mask=inside)


def setup(n=4096, seed=1, **more):
    torch.manual_seed(seed)
    left, right = (torch.randn((n,), device="cuda") for _ in range(2))
    inputs = {"left": left, "right": right, "total": torch.empty_like(left), "n": n}
    return {"inputs": inputs, "outputs": ["total"]}


def run_kernel(**given):
    n = int(given["n"])
    grid = (triton.cdiv(n, 1024),)
    sums[grid](given["left"], given["right"], given["total"], n, WIDTH=1024)
"""


def cuda(const: bool, body: str = "z[i] = x[i] + y[i];", after: str = "") -> str:
    text = CUDA.replace("CONST ", "const " if const else "")
    return text.replace("BODY", body).replace("AFTER", after)


@dataclass(frozen=True)
class Case:
    """What is bound to a reference's process: a kernel's signature, the reference, and a size."""

    kernel: str
    reference: str
    n: int = N
    language: Language = "cuda"

    @property
    def target(self) -> Target:
        """As `roofsmith check kernel.cu --ref ref.py -w n=...` makes it."""
        base = candidate(self.language, self.kernel)
        return Target(
            name="add",
            language=self.language,
            kernel=base.kernel,
            reference=SourceFile(path="ref.py", text=self.reference),
            workloads=(Workload(dims={"n": self.n}),),
            build=base.build,
            entry=base.entry,
            keep=default_keep(self.language),
        )


REFERENCES = {"bare": REFERENCE, "setup": WITH_SETUP}
SIGNATURES = {"open": False, "const": True}
SUMS = {
    f"{kind}, {signature}": Case(cuda(const), reference)
    for kind, reference in REFERENCES.items()
    for signature, const in SIGNATURES.items()
}
PRODUCTS = {
    f"products, {signature}": Case(cuda(const, "z[i] += x[i] * y[i];"), ACCUMULATING, SMALL_N)
    for signature, const in SIGNATURES.items()
}
CASES = {
    **SUMS,
    **PRODUCTS,
    "module": Case(TRITON, REFERENCE, language="triton"),
    "other names": Case(cuda(const=False).replace("left", "in0"), REFERENCE, SMALL_N),
}
WRONG = {
    "leaves one out": ("if (i != 5) z[i] = x[i] + y[i];", "skipped_work"),
    "scribbles in an input": (
        "{ z[i] = x[i] + y[i]; if (i == 5) ((float*)x)[i] = 0; }",
        "input_altered",
    ),
    "adds to what was there": ("z[i] += x[i] + y[i];", "nan_output"),
}
ASSIGNED = "z[i] = x[i] * y[i];"
SLOWER = "sums<<<n / 1024, 256>>>(left, right, total, n / 4);"


@pytest.fixture(scope="module")
def judges(shared_cache: Path, ceilings: FactSheet) -> Iterator[Mapping[str, GpuJudging]]:
    """A reference's process per case, all of which import PyTorch while kernels are built."""
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(judging(case.target, shared_cache, ceilings))
            for name, case in CASES.items()
        }
        bodies = [body for body, _ in WRONG.values()]
        made["bare, open"].prepare(
            [
                *(case.kernel for case in CASES.values() if case.language == "cuda"),
                *(cuda(const, body) for const in (False, True) for body in (*bodies, ASSIGNED)),
                cuda(const=False, after=SLOWER),
            ]
        )
        yield made


def checked(judge: GpuJudging, text: str) -> tuple[str, str | None]:
    """Outcome of a check, and its reason."""
    outcome = judge.check(text).outcome
    return outcome.kind, getattr(outcome, "reason", None)


def moved_bytes(judge: GpuJudging) -> float | None:
    """What the roofline says that a call moves."""
    (bound,) = judge.bounds
    return bound.cost.total_bytes


@pytest.mark.parametrize("name", SUMS)
def test_an_honest_addition_passes_and_is_no_cheat(
    name: str, judges: Mapping[str, GpuJudging]
) -> None:
    judge = judges[name]
    measured = judge.measure(CASES[name].kernel)
    assert measured.outcome.kind == "passed", measured.outcome
    assert moved_bytes(judge) == 12 * N
    (bound,), (timing,) = judge.bounds, measured.timings
    print(f"{name}: {timing.time_s:.4g} s, floor {bound.floor_time_s}, slack {bound.slack:.2f}")
    assert bound.floor_time_s is not None
    assert below_floor(bound, timing.time_s) is None
    # The arrays are large enough: had two of them been counted twice, the fastest honest kernel
    # would be below the floor.
    assert below_floor(bound, bound.floor_time_s * 12 / 20) is not None


def test_it_wins_against_a_slower_one(judges: Mapping[str, GpuJudging]) -> None:
    """Of the signatures, the one that says least: every array looks written."""
    found = judges["bare, open"].compare(cuda(const=False), cuda(const=False, after=SLOWER))
    assert (found.outcome.kind, found.verdict) == ("passed", "faster"), found.outcome.detail


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("how", WRONG)
def test_failures_have_the_same_names_const_or_not(
    how: str, signature: str, judges: Mapping[str, GpuJudging]
) -> None:
    body, reason = WRONG[how]
    text = cuda(SIGNATURES[signature], body)
    assert checked(judges[f"bare, {signature}"], text) == ("incorrect", reason)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_an_output_may_begin_from_something(
    signature: str, judges: Mapping[str, GpuJudging]
) -> None:
    name = f"products, {signature}"
    assert checked(judges[name], CASES[name].kernel) == ("passed", None)
    assigned = cuda(SIGNATURES[signature], ASSIGNED)
    assert checked(judges[name], assigned) == ("incorrect", "wrong_output")


def test_a_module_brings_its_own_setup(judges: Mapping[str, GpuJudging]) -> None:
    judge = judges["module"]
    assert checked(judge, TRITON) == ("passed", None)
    assert moved_bytes(judge) == 12 * N
    less = TRITON.replace("x + tl.load", "x - tl.load")
    assert checked(judge, less) == ("incorrect", "wrong_output")


def test_names_that_do_not_match_are_told(judges: Mapping[str, GpuJudging]) -> None:
    judge = judges["other names"]
    with pytest.raises(BadReferenceError, match=r"reference: KeyError \(line 3\): 'left'") as told:
        judge.check(CASES["other names"].kernel)
    assert told.value.exit_code == 2
    expected = "without a setup, reference is called with solve's names: in0, right, total, n"
    assert expected in (told.value.hint or "")
