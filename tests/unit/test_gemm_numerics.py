"""Matrix products in styles nobody announced: found, replaced, compiled, compared with NumPy."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.domain.device import Cache, Device
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.products import products_in
from roofsmith.proposers.recipes._gemm import with_products
from roofsmith.proposers.source import Source

QUIET = ["-Wno-unknown-pragmas", "-Wno-unused-variable"]

Array = NDArray[np.float64]

DEVICE = Device(
    kind="cpu",
    name="two small caches",
    cores=2,
    vector_bytes=32,
    caches=(
        Cache(level=1, kind="data", size_bytes=16 * 1024, shared_by=1),
        Cache(level=2, kind="unified", size_bytes=64 * 1024, shared_by=1),
    ),
)

KERNELS = """
#include <math.h>
#include <stddef.h>
#define REAL float
typedef REAL element;

// A comment with for (int i = 0; i < n; i++) in it.
void running_sum(const REAL* A, const REAL* B, REAL* C, int M, int N, int K) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            REAL s = 0;
            for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
            C[i * N + j] = s;
        }
}

void row_pointers(const element *restrict left, const element *restrict right,
                  element *restrict out, int rows, int cols, int depth) {
    for (size_t r = 0; r < rows; ++r) {
        const element *x = left + r * depth;
        element *y = &out[r * cols];
        for (size_t c = 0; c != cols; c += 1) y[c] = 0.0f;
        for (size_t t = 0; t < depth; ++t) {
            const element v = x[t];
            const element *z = right + t * cols;
#pragma omp simd
            for (size_t c = 0; c < cols; ++c) y[c] += v * z[c];
        }
    }
}

void transposed(const REAL* P, const REAL* Q, REAL* R, int m, int n, int k) {
    int i, j, t;
    for (j = 0; j <= n - 1; j++) {
        for (i = 0; i < m; i++) {
            REAL total;
            total = 0.f;
            for (t = 0; t < k; t++) {
                total = total + P[(size_t)t * m + i] * Q[(size_t)j * k + t];
            }
            *(R + i * n + j) = total;
        }
    }
}

void cleared_before(const REAL* A, const REAL* B, REAL* C, long M, long N, long K) {
    for (long a = 0; a < M; a++)
        for (long b = 0; b < N; b++)
            C[a * N + b] = 0;
    #pragma omp parallel for
    for (long i = 0; i < M; i++)
        for (long k = 0; k < K; k++)
            for (long j = 0; j < N; j++)
                C[N * i + j] += B[j + k * N] * A[i * K + k];
}

void scaled(const REAL* A, const REAL* B, REAL* C, int M, int N, int K) {
    const REAL scale = (REAL)1 / (REAL)sqrt((REAL)K);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double acc = 0.0;
            for (int k = 0; k < K; k++) acc = fma(A[i * K + k], B[k * N + j], acc);
            C[i * N + j] = (REAL)(acc * scale) - 0.5f * C[i * N + j];
        }
}

void column_major(const REAL* A, const REAL* B, REAL* C, int M, int N, int K) {
    for (int j = 0; j < N; j++)
        for (int k = 0; k < K; k++)
            for (int i = 0; i < M; i++)
                C[i + j * M] -= A[i + k * M] * B[k + j * K] * 2;
}

void heads(const REAL* Q, const REAL* X, REAL* S, int m, int n, int w) {
    int d = 3 * w;
    for (int head = 0; head < 3; head++) {
        int first = head * w;
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                REAL dot = 0;
                for (int c = 0; c < w; c++) dot += Q[i * d + first + c] * X[j * d + first + c];
                S[(head * m + i) * n + j] = dot;
            }
    }
}

void biased(const REAL* A, const REAL* B, const REAL* bias, REAL* C, int M, int N, int K) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            REAL s = 0;
            for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
            s += bias[j];
            C[i * N + j] = s > 0 ? s : 0;
        }
}
"""


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def _heads(q: Array, x: Array, m: int, n: int, w: int) -> Array:
    rows, columns = _wide(q).reshape(m, 3, w), _wide(x).reshape(n, 3, w)
    return np.einsum("ihc,jhc->hij", rows, columns)


CASES: dict[str, Callable[..., Array]] = {
    "running_sum": lambda a, b, c, m, n, k: _wide(a).reshape(m, k) @ _wide(b).reshape(k, n),
    "row_pointers": lambda a, b, c, m, n, k: _wide(a).reshape(m, k) @ _wide(b).reshape(k, n),
    "transposed": lambda a, b, c, m, n, k: _wide(a).reshape(k, m).T @ _wide(b).reshape(n, k).T,
    "cleared_before": lambda a, b, c, m, n, k: _wide(a).reshape(m, k) @ _wide(b).reshape(k, n),
    "scaled": lambda a, b, c, m, n, k: (
        _wide(a).reshape(m, k) @ _wide(b).reshape(k, n) / np.sqrt(k) - 0.5 * _wide(c).reshape(m, n)
    ),
    "column_major": lambda a, b, c, m, n, k: (
        _wide(c).reshape(n, m) - 2 * _wide(b).reshape(n, k) @ _wide(a).reshape(k, m)
    ),
    "heads": lambda a, b, c, m, n, k: _heads(a, b, m, n, k),
    "biased": lambda a, b, c, m, n, k, bias: np.maximum(
        _wide(a).reshape(m, k) @ _wide(b).reshape(k, n) + bias, 0
    ),
}


def _compiled(folder: Path, text: str, *flags: str) -> ctypes.CDLL:
    source = Source(text)
    nests = [n for f in source.functions for n in products_in(FunctionAccesses(source, f))]
    assert [nest.function for nest in nests] == list(CASES)
    real = "double" if "REAL" not in text else "float"
    (folder / "kernel.c").write_text(with_products(source, nests, real, DEVICE))
    library = folder / "kernel.so"
    command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-Wall", "-Werror", *flags]
    subprocess.run([*command, *QUIET, "kernel.c", "-o", library, "-lm"],
                   check=True, cwd=folder)  # fmt: skip
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return _compiled(tmp_path_factory.mktemp("threaded"), KERNELS, "-fopenmp")


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = KERNELS.replace("#define REAL float", "").replace("REAL", "double")
    return _compiled(tmp_path_factory.mktemp("double"), text)


class Guarded:
    """An array between two bands of NaN."""

    band = 64

    def __init__(self, values: NDArray[np.generic]) -> None:
        self._whole = np.full(values.size + 2 * self.band, np.nan, values.dtype)
        self.array = self._whole[self.band : self.band + values.size]
        self.array[:] = values.ravel()

    @property
    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.array.ctypes.data)

    @property
    def intact(self) -> bool:
        bands = self._whole[: self.band], self._whole[-self.band :]
        return all(bool(np.isnan(band).all()) for band in bands)


def _check(library: ctypes.CDLL, name: str, m: int, n: int, k: int, dtype: type) -> None:
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    times = 3 if name == "heads" else 1
    a = Guarded(rng.standard_normal(m * k * times).astype(dtype))
    b = Guarded(rng.standard_normal(k * n * times).astype(dtype))
    c = Guarded(rng.standard_normal(m * n * times).astype(dtype))
    bias = Guarded(rng.standard_normal(n).astype(dtype))
    extra = {"bias": bias.array} if name == "biased" else {}
    expected = CASES[name](a.array, b.array, c.array.copy(), m, n, k, **extra)
    if name not in ("scaled", "column_major"):
        c.array[:] = np.nan
    kind = ctypes.c_long if name == "cleared_before" else ctypes.c_int
    arrays = [a, b, bias, c] if extra else [a, b, c]
    getattr(library, name)(*(x.pointer for x in arrays), kind(m), kind(n), kind(k))
    assert all(array.intact for array in arrays)
    scale = np.finfo(dtype).eps * 4 * (np.sqrt(k) + 4)
    np.testing.assert_allclose(
        c.array.reshape(expected.shape), expected, rtol=scale, atol=scale * np.sqrt(k)
    )


SIZES = st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(1, 300))


@pytest.mark.parametrize("name", CASES)
@given(size=SIZES)
@example(size=(1, 1, 1))
@example(size=(131, 97, 260))
@example(size=(5, 4200, 17))
@example(size=(300, 1, 129))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_a_replaced_product_agrees_with_numpy(
    threaded: ctypes.CDLL, name: str, size: tuple[int, int, int]
) -> None:
    _check(threaded, name, *size, dtype=np.float32)


@pytest.mark.parametrize("name", CASES)
@given(size=SIZES)
@example(size=(70, 90, 200))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_holds_for_double_without_openmp(
    double: ctypes.CDLL, name: str, size: tuple[int, int, int]
) -> None:
    _check(double, name, *size, dtype=np.float64)
