"""A judge over real GPU workers, with the kernels that the tests vary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from roofsmith.api.hardware import fork_server_for, machine_of, oracle_for
from roofsmith.api.places import Place
from roofsmith.config import Settings
from roofsmith.domain.bound import Bound
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Built, Candidate, Language, SourceFile, default_build
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.survey import bound_of
from roofsmith.judge.gpu.lineup import GpuBench
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.parent import ProcessJudge
from roofsmith.ports import Measured
from roofsmith.testing.observer import SilentObserver

REFERENCE = """
import torch


def setup(N, D, seed):
    torch.manual_seed(seed)
    x = torch.randn(N, D, device="cuda")
    return {"inputs": {"x": x, "y": torch.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}


def reference(x, y, N, D):
    y.copy_(torch.softmax(x, dim=-1))


def flops(N, D):
    return 5 * N * D


def bytes(N, D):
    return 8 * N * D
"""

CUDA = """
#include <cuda_runtime.h>
BEFORE
__global__ void softmax_rows(const float* x, float* y, int D) {
    __shared__ float partial[8];
    const float* row = x + (size_t)blockIdx.x * D;
    float* out = y + (size_t)blockIdx.x * D;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < D; i += blockDim.x) largest = fmaxf(largest, row[i]);
    for (int o = 16; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int i = 0; i < 8; i++) largest = fmaxf(largest, partial[i]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < D; i += blockDim.x) sum += __expf(row[i] - largest);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 8; i++) sum += partial[i];
    float scale = 1.0f / sum;
    INSIDE
    for (int i = threadIdx.x; i < D; i += blockDim.x) out[i] = __expf(row[i] - largest) * scale;
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    softmax_rows<<<N, 256>>>(x, y, D);
    AFTER
    cudaDeviceSynchronize();
}
"""

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * D + at, mask=at < D, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * D + at, v / tl.sum(v, 0), mask=at < D)


def setup(N=4096, D=4096, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(N, D, device="cuda")
    return {"inputs": {"x": x, "y": torch.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}


def run_kernel(x, y, N, D):
    softmax_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D), num_warps=WARPS)
"""


def cuda(before: str = "", inside: str = "", after: str = "") -> str:
    """The CUDA softmax with something put in."""
    return CUDA.replace("BEFORE", before).replace("INSIDE", inside).replace("AFTER", after)


def triton(warps: int, note: str = "") -> str:
    """The Triton softmax with so many warps."""
    return f"{TRITON.replace('WARPS', str(warps))}\n# {note}\n"


@dataclass
class GpuJudging:
    """A judge for one kernel's variants. Nothing is asked of the reference before it is needed:
    several of them import PyTorch at the same time."""

    machine: Place
    target: Target
    oracle: GpuOracle
    bench: GpuBench
    facts: FactSheet | None = None
    """Ceilings; None: there is no floor."""

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """The roofline of every workload; none without ceilings."""
        if self.facts is None or self.machine.gpu is None:
            return ()
        return tuple(
            bound_of(w, self.oracle.describe(w), self.target, self.facts, self.machine.gpu, 1)
            for w in self.target.workloads
        )

    @cached_property
    def judge(self) -> ProcessJudge:
        """Of the target, all of whose workloads are one class."""
        labels = tuple(workload.label for workload in self.target.workloads)
        everything = ConfigClass(name="all", workloads=labels, reason="the only one")
        return ProcessJudge(self.target, self.bench, [everything], self.bounds)

    def prepare(self, texts: Iterable[str]) -> None:
        """Build variants side by side, whatever comes of it: `build` finds them then."""
        every = [candidate(self.target.language, text) for text in texts]
        self.machine.toolchain.build_all(every)

    def build(self, text: str) -> Built:
        """A variant, built."""
        built = self.machine.toolchain.build(candidate(self.target.language, text))
        assert not isinstance(built, BuildFailed), built.detail
        return built

    def check(self, text: str) -> Measured:
        """Examine a variant without timing it."""
        return self.judge.measure(self.build(text), SilentObserver(), timed=False)

    def measure(self, text: str) -> Measured:
        """Examine a variant, and time it on its own."""
        return self.judge.measure(self.build(text), SilentObserver())

    def compare(self, text: str, against: str) -> Judgement:
        """Judge a variant against another."""
        return self.judge.compare(self.build(text), self.build(against), SilentObserver())


def candidate(language: Language, text: str) -> Candidate:
    """One kernel file."""
    path = "kernel.cu" if language == "cuda" else "kernel.py"
    return Candidate(
        language=language,
        sources=(SourceFile(path=path, text=text),),
        build=default_build(language),
        entry="solve" if language == "cuda" else "run_kernel",
    )


def softmax_target(
    language: Language,
    text: str,
    rows: int = 4096,
    columns: Sequence[int] = (4096,),
    *,
    reference: str = REFERENCE,
    tf32: bool = False,
) -> Target:
    """One kernel on one shape or several, with the softmax's reference unless there is another."""
    base = candidate(language, text)
    return Target(
        name="softmax",
        language=language,
        kernel=base.kernel,
        reference=SourceFile(path="reference.py", text=reference),
        workloads=tuple(Workload(dims={"N": rows, "D": each}) for each in columns),
        tf32=tf32,
        build=base.build,
        entry=base.entry,
        keep=KeepPolicy(noise_band=0.005),
    )


@cache
def machine_for(language: Language, cache_dir: Path) -> Place:
    """This machine's parts, without a gate; asked for once."""
    return machine_of(Settings(cache_dir, cache_dir), language)


@contextmanager
def judging(
    target: Target, cache_dir: Path, facts: FactSheet | None = None
) -> Iterator[GpuJudging]:
    """A judge of a target's variants; it has a floor if there are ceilings.

    Args:
        target: as `softmax_target` makes it.
        cache_dir: of builds; `shared_cache`, unless others' builds are in the way.
        facts: `ceilings`.
    """
    machine = machine_for(target.language, cache_dir)
    with oracle_for(target, machine) as oracle, fork_server_for(target.language) as fork_server:
        assert isinstance(oracle, GpuOracle)
        with GpuBench(
            oracle, target.tolerance, fork_server, api="cuda", cache_dir=machine.compiled_dir
        ) as bench:
            yield GpuJudging(machine, target, oracle, bench, facts)
