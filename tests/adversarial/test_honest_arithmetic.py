"""Textbook kernels whose references compute otherwise: in float64, in pairs, by other formulas.

None of them is wrong, however its inputs are drawn; a twin that cuts a corner is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from judge_bench import bench, needs_gcc

from roofsmith.domain.kernel import BuildSpec
from roofsmith.domain.outcome import Incorrect, Passed

pytestmark = needs_gcc

CHECKS = 2
"""Examinations of each, on inputs of their own."""

INVERSE = """
// The inverse of each of B matrices of 3 x 3: adjugate over determinant.
void solve(const float *a, float *x, int B)
{
    for (int b = 0; b < B; b++, a += 9, x += 9) {
        float p = a[4] * a[8] - a[5] * a[7], q = a[5] * a[6] - a[3] * a[8];
        float r = a[3] * a[7] - a[4] * a[6], d = 1.0f / (a[0] * p + a[1] * q + a[2] * r);
        x[0] = p * d;
        x[1] = (a[2] * a[7] - a[1] * a[8]) * d;
        x[2] = (a[1] * a[5] - a[2] * a[4]) * d;
        x[3] = q * d;
        x[4] = (a[0] * a[8] - a[2] * a[6]) * d;
        x[5] = (a[2] * a[3] - a[0] * a[5]) * d;
        x[6] = r * d;
        x[7] = (a[1] * a[6] - a[0] * a[7]) * d;
        x[8] = (a[0] * a[4] - a[1] * a[3]) * d;
        FINISH
    }
}
"""
INVERTED = """
import numpy as np

def setup(B, seed=0):
    a = np.random.default_rng(seed).standard_normal((B, 3, 3), dtype=np.float32)
    return {"inputs": {"a": a, "x": np.empty_like(a), "B": B}, "outputs": ["x"]}

def reference(a, x, B):
    x[:] = np.linalg.inv(a)
"""

TRANSFORM = """
#include <complex.h>
#include <math.h>

static void transform(const float complex *x, float complex *y, int n, int step)
{
    if (n == 1) {
        y[0] = x[0];
        return;
    }
    transform(x, y, n / 2, 2 * step);
    transform(x + step, y + n / 2, n / 2, 2 * step);
    for (int k = 0; k < n / 2; k++) {
        float complex w = cexpf(ANGLE * I * k / n), odd = w * y[k + n / 2];
        y[k + n / 2] = y[k] - odd;
        y[k] += odd;
    }
}

// The discrete Fourier transform of each of B rows of N complex numbers.
void solve(const float *x, float *y, int B, int N)
{
    for (int b = 0; b < B; b++)
        transform((const float complex *)x + b * N, (float complex *)y + b * N, N, 1);
}
"""
TRANSFORMED = """
import numpy as np

def setup(B, N, seed=0):
    x = np.random.default_rng(seed).standard_normal((B, N, 2), dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "B": B, "N": N}, "outputs": ["y"]}

def reference(x, y, B, N):
    z = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1)
    y[..., 0], y[..., 1] = z.real, z.imag
"""

QUANTISED = """
#include <math.h>
#include <stdint.h>

// Rows of integers, and what one is worth.
void solve(const float *x, int8_t *q, float *scale, int N, int D)
{
    for (int i = 0; i < N; i++, x += D, q += D) {
        float most = 0.0f;
        for (int j = 0; j < D; j++)
            most = fmaxf(most, fabsf(x[j]));
        scale[i] = most * (1 / 127.0f);
        for (int j = 0; j < D; j++)
            q[j] = (int8_t)ROUND(x[j] * (127.0f / most));
    }
}
"""
QUANTISES = """
import numpy as np

def setup(N, D, seed=0):
    x = np.random.default_rng(seed).standard_normal((N, D), dtype=np.float32)
    empty = {"q": np.empty((N, D), np.int8), "scale": np.empty(N, np.float32)}
    return {"inputs": {"x": x, **empty, "N": N, "D": D}, "outputs": ["q", "scale"]}

def reference(x, q, scale, N, D):
    scale[:] = np.abs(x).max(1) / 127
    q[:] = np.rint(x / scale[:, None])
"""

GREY = """
#include <math.h>
#include <stdint.h>

// What is seen of N pixels without their colours.
void solve(const uint8_t *rgb, uint8_t *grey, int N)
{
    for (int i = 0; i < N; i++, rgb += 3)
        grey[i] = (uint8_t)rintf(0.299f * rgb[0] + 0.587f * rgb[1] + BLUE * rgb[2]);
}
"""
GREYS = """
import numpy as np

atol = 1

def setup(N, seed=0):
    rgb = np.random.default_rng(seed).integers(0, 256, (N, 3), dtype=np.uint8)
    return {"inputs": {"rgb": rgb, "grey": np.empty(N, np.uint8), "N": N}, "outputs": ["grey"]}

def reference(rgb, grey, N):
    grey[:] = np.rint(rgb @ [0.299, 0.587, 0.114])
"""


@dataclass(frozen=True)
class Operator:
    """A kernel with a hole in it: what is right there, and what is wrong."""

    kernel: str
    reference: str
    dims: dict[str, int]
    hole: str
    right: str
    wrong: str


OPERATORS = {
    "inverses of many small matrices": Operator(
        INVERSE, INVERTED, {"B": 500}, "FINISH", "", "x[8] *= 1.1f;"
    ),
    "complex numbers in pairs": Operator(
        TRANSFORM, TRANSFORMED, {"B": 4, "N": 256}, "ANGLE", "-6.283185307f", "-6.2835f"
    ),
    "integers by another formula": Operator(
        QUANTISED, QUANTISES, {"N": 64, "D": 256}, "ROUND", "rintf", "truncf"
    ),
    "integers within a tolerance": Operator(
        GREY, GREYS, {"N": 4000}, "BLUE", "0.114f", "0.124f"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_a_textbook_kernel_is_right_and_a_careless_one_is_not(name: str, tmp_path: Path) -> None:
    operator = OPERATORS[name]
    right = operator.kernel.replace(operator.hole, operator.right)
    wrong = operator.kernel.replace(operator.hole, operator.wrong)
    with bench(
        tmp_path, kernel=right, reference=operator.reference, workloads=[operator.dims],
        build=BuildSpec(flags=("-O2",), link=("-lm",)),
    ) as made:  # fmt: skip
        for _ in range(CHECKS):
            assert made.check(right).outcome == Passed()
        found = made.check(wrong).outcome
        assert isinstance(found, Incorrect), found
