"""Kernels of about a millisecond whose work is known exactly: the subjects of the judge's rates.

A kernel makes the softmax of N rows, and then of some of them again, into a scratch buffer.
Two versions differ in one initialised word of data; their machine code is the same, and the row
counts say by how much one is slower. The word and the buffer have external linkage in a shared
library, so that the compiler may neither know the count nor drop the extra rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.kernel import BuildSpec, SourceFile
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import Workload

COLUMNS = 128
FLAGS = ("-O3", "-march=native", "-fopenmp")

_KERNEL = """\
// @NOTE@
#include <math.h>

int extra_rows = @EXTRA_ROWS@;
float scratch[@SCRATCH@];

static void softmax_row(const float *row, float *result, int D)
{
    float largest = row[0], sum = 0.0f;
    for (int j = 1; j < D; j++)
        if (row[j] > largest)
            largest = row[j];
    for (int j = 0; j < D; j++) {
        result[j] = expf(row[j] - largest);
        sum += result[j];
    }
    for (int j = 0; j < D; j++)
        result[j] /= sum;
}

void solve(const float *input, float *output, int N, int D)
{
    const int rows = N + extra_rows;
    @PRAGMA@
    for (int i = 0; i < rows; i++) {
        const long from = (long)(i % N) * D;
        softmax_row(input + from, (i < N ? output : scratch) + from, D);
    }
}
"""
_REFERENCE = """\
import numpy as np


def setup(N, D, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((N, D), dtype=np.float32)
    output = np.empty((N, D), dtype=np.float32)
    return {
        "inputs": {"input": values, "output": output, "N": N, "D": D},
        "outputs": ["output"],
    }


def reference(input, output, N, D):
    np.exp(input - input.max(axis=1, keepdims=True), out=output)
    output /= output.sum(axis=1, keepdims=True)


def flops(N, D):
    return 5 * N * D


def bytes(N, D):
    return 8 * N * D
"""


@dataclass(frozen=True, slots=True)
class RateKernel:
    """One kernel that trials are made with."""

    threads: int
    rows: int

    @property
    def name(self) -> str:
        """Such as `softmax-2-threads`."""
        return f"softmax-{self.threads}-thread{'s' * (self.threads > 1)}"

    def extra_rows(self, gain: float) -> int:
        """Rows on top that make a kernel slower by the factor 1 + `gain`."""
        return round(self.rows * gain)

    def source(self, extra_rows: int, note: str) -> SourceFile:
        """The kernel file, with a comment that makes its content, and so its build, its own."""
        pragma = "#pragma omp parallel for schedule(static)" if self.threads > 1 else ""
        filled = {
            "@NOTE@": note,
            "@EXTRA_ROWS@": str(extra_rows),
            "@SCRATCH@": str(self.rows * COLUMNS),
            "@PRAGMA@": pragma,
        }
        text = _KERNEL
        for name, value in filled.items():
            text = text.replace(name, value)
        return SourceFile(path="kernel.c", text=text)

    def target(self, extra_rows: int, budget_s: float) -> Target:
        """A target whose incumbent does `extra_rows` rows of needless work."""
        return Target(
            name=self.name,
            language="c",
            kernel=self.source(extra_rows, "the incumbent"),
            build=BuildSpec(flags=FLAGS),
            reference=SourceFile(path="reference.py", text=_REFERENCE),
            workloads=(Workload(dims={"N": self.rows, "D": COLUMNS}),),
            family="softmax",
            threads=self.threads,
            keep=KeepPolicy(judge_budget_s=budget_s),
        )


KERNELS = {1: RateKernel(threads=1, rows=1900), 2: RateKernel(threads=2, rows=3800)}
"""By thread count."""
