"""Honest kernels by another formula than their incumbent's, which loses digits on odd inputs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from judge_bench import bench, needs_gcc

from kinds import one_of_each
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.judge.correctness import examiner as module
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

SOFTPLUS = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).uniform(-20, 20, n).astype(np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    np.logaddexp(x, 0, out=y)
"""
SOFTPLUS_KERNEL = """
#include <math.h>
void solve(const float *x, float *y, int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] > 20 ? x[i] : {formula};
}}
"""

DISTANCES = """
import numpy as np
def setup(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((rows, d), dtype=np.float32) for rows in (n, m))
    y = np.empty((n, m), np.float32)
    return {"inputs": {"a": a, "b": b, "y": y, "n": n, "m": m, "d": d}, "outputs": ["y"]}
def reference(a, b, y, n, m, d):
    y[:] = np.sqrt(np.square(a[:, None] - b[None]).sum(axis=2))
"""
DISTANCES_KERNEL = """
#include <math.h>
void solve(const float *a, const float *b, float *y, int n, int m, int d) {{
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {{
        float s = 0, aa = 0, bb = 0, ab = 0;
        for (int l = 0; l < d; l++) {{
            float p = a[i * d + l], q = b[j * d + l];
            s += (p - q) * (p - q); aa += p * p; bb += q * q; ab += p * q;
        }}
        y[i * m + j] = sqrtf({formula});
    }}
}}
"""

VARIANCE = """
import numpy as np
def setup(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "n": n, "d": d}, "outputs": ["y"]}
def reference(x, y, n, d):
    y[:] = x.mean(axis=1) + np.sqrt(x.var(axis=1))
"""
TWO_PASSES = """
#include <math.h>
void solve(const float *x, float *y, int n, int d) {
    for (int i = 0; i < n; i++, x += d) {
        float mean = 0, square = 0;
        for (int j = 0; j < d; j++) mean += x[j];
        mean /= d;
        for (int j = 0; j < d; j++) square += (x[j] - mean) * (x[j] - mean);
        y[i] = mean + sqrtf(square / d);
    }
}
"""
WELFORD = """
#include <math.h>
void solve(const float *x, float *y, int n, int d) {
    for (int i = 0; i < n; i++, x += d) {
        float mean = 0, square = 0;
        for (int j = 0; j < d; j++) {
            float off = x[j] - mean;
            mean += off * (1.0f / (j + 1));
            square += off * (x[j] - mean);
        }
        y[i] = mean + sqrtf(square / d);
    }
}
"""

MANDELBROT = """
import numpy as np
def setup(n, most, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-2, 1, n).astype(np.float32), rng.uniform(-1.2, 1.2, n).astype(np.float32)
    k = np.empty(n, np.int32)
    return {"inputs": {"a": a, "b": b, "k": k, "n": n, "most": most}, "outputs": ["k"]}
def reference(a, b, k, n, most):
    x, y, k[:] = np.zeros_like(a), np.zeros_like(b), 0
    inside = np.ones(n, bool)
    with np.errstate(all="ignore"):
        for _ in range(most):
            x, y = np.where(inside, x * x - y * y + a, x), np.where(inside, 2 * x * y + b, y)
            inside &= x * x + y * y <= 4
            k += inside
"""
MANDELBROT_KERNEL = """
void solve(const float *a, const float *b, int *k, int n, int most) {{
    for (int i = 0; i < n; i++) {{
        float x = 0, y = 0;
        for (k[i] = 0; k[i] < most; k[i]++) {{
            float t = {formula} + a[i];
            y = 2 * x * y + b[i];
            x = t;
            if (!(x * x + y * y <= 4)) break;
        }}
    }}
}}
"""


ELU = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    y[:] = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
"""
ELU_KERNEL = """
#include <math.h>
void solve(const float *x, float *y, int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : {formula};
}}
"""

HISTOGRAM = """
import numpy as np
def setup(n, bins, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "h": np.zeros(bins, np.int32), "n": n, "bins": bins},
            "outputs": ["h"]}
def reference(x, h, n, bins):
    found = np.floor((x + 4) * (bins / x.dtype.type(8))).clip(0, bins - 1).astype(np.int64)
    h[:] = np.bincount(found, minlength=bins)
"""
HISTOGRAM_KERNEL = """
#include <math.h>
#include <string.h>
void solve(const float *x, int *h, int n, int bins) {{
    memset(h, 0, bins * sizeof(int));
    for (int i = 0; i < n; i++) {{
        int b = floorf({formula});
        h[b < 0 ? 0 : b < bins ? b : bins - 1]++;
    }}
}}
"""

HAVERSINE = """
import numpy as np
def setup(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(-1.5, 1.5, (2, n)).astype(np.float32)
    q = rng.uniform(-3.1, 3.1, (2, n)).astype(np.float32)
    inputs = {"a": p[0], "b": p[1], "c": q[0], "d": q[1], "y": np.empty(n, np.float32), "n": n}
    return {"inputs": inputs, "outputs": ["y"]}
def reference(a, b, c, d, y, n):
    h = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin((d - c) / 2) ** 2
    y[:] = 2 * np.arcsin(np.sqrt(np.minimum(h, 1)))
"""
HAVERSINE_KERNEL = """
#include <math.h>
void solve(const float *a, const float *b, const float *c, const float *d, float *y, int n) {
    for (int i = 0; i < n; i++) {
        float p = sinf((b[i] - a[i]) / 2), q = sinf((d[i] - c[i]) / 2);
        y[i] = 2 * asinf(sqrtf(fminf(p * p + cosf(a[i]) * cosf(b[i]) * q * q, 1)));
    }
}
"""

GATE = """
import numpy as np
def setup(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return {"inputs": {"x": x, "k": np.empty((n, 2), np.int32), "n": n, "d": d}, "outputs": ["k"]}
def reference(x, k, n, d):
    p = np.exp(x - x.max(axis=1, keepdims=True))
    k[:] = np.argsort(-p / p.sum(axis=1, keepdims=True), axis=1, kind="stable")[:, :2]
"""
GATE_KERNEL = """
#include <math.h>
void solve(const float *x, int *k, int n, int d) {{
    for (int i = 0; i < n; i++, x += d, k += 2) {{
        float p[d], most = -INFINITY;
        for (int j = 0; j < d; j++) most = fmaxf(most, x[j]);
        for (int j = 0; j < d; j++) p[j] = {weight};
        k[0] = k[1] = -1;
        for (int j = 0; j < d; j++)
            if (k[0] < 0 || p[j] > p[k[0]]) k[1] = k[0], k[0] = j;
            else if (k[1] < 0 || p[j] > p[k[1]]) k[1] = j;
    }}
}}
"""


class Twin(NamedTuple):
    """A kernel, and an honest one by another formula."""

    reference: str
    kernel: str
    other: str
    workload: dict[str, int]
    apart: str
    """Where the two differ."""


TWINS = {
    "softplus": Twin(
        SOFTPLUS, SOFTPLUS_KERNEL.format(formula="log1pf(expf(x[i]))"),
        SOFTPLUS_KERNEL.format(formula="logf(1 + expf(x[i]))"), {"n": 10007}, "small results",
    ),
    "distances": Twin(
        DISTANCES, DISTANCES_KERNEL.format(formula="s"),
        DISTANCES_KERNEL.format(formula="fmaxf(aa + bb - 2 * ab, 0)"),
        {"n": 96, "m": 64, "d": 64}, "sums that cancel",
    ),
    "variance": Twin(VARIANCE, TWO_PASSES, WELFORD, {"n": 64, "d": 515}, "sums that cancel"),
    "mandelbrot": Twin(
        MANDELBROT, MANDELBROT_KERNEL.format(formula="x * x - y * y"),
        MANDELBROT_KERNEL.format(formula="(x - y) * (x + y)"), {"n": 4096, "most": 64},
        "orbits",
    ),
    "elu": Twin(
        ELU, ELU_KERNEL.format(formula="expm1f(x[i])"),
        ELU_KERNEL.format(formula="expf(x[i]) - 1"), {"n": 10007}, "small results",
    ),
    "histogram": Twin(
        HISTOGRAM, HISTOGRAM_KERNEL.format(formula="(x[i] + 4) * (bins / 8.0f)"),
        HISTOGRAM_KERNEL.format(formula="fmaf(x[i], bins / 8.0f, bins / 2.0f)"),
        {"n": 20011, "bins": 50}, "counts",
    ),
    "gate": Twin(
        GATE, GATE_KERNEL.format(weight="expf(x[j] - most)"),
        GATE_KERNEL.format(weight="x[j]"), {"n": 200, "d": 8}, "places of equals",
    ),
    "haversine": Twin(
        HAVERSINE, HAVERSINE_KERNEL, HAVERSINE_KERNEL + "/* again */", {"n": 32768}, "nowhere",
    ),
}  # fmt: skip


@pytest.mark.parametrize("twin", one_of_each(TWINS, lambda twin: twin.apart))
def test_it_passes(
    twin: Twin, builds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINNERS_S", 600.0)  # on a machine that is as busy as it likes
    with bench(
        builds, kernel=twin.kernel, reference=twin.reference, workloads=[twin.workload]
    ) as made:
        examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
        incumbent, built = made.built(twin.kernel), made.built(twin.other)
        assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
        refused: list[Outcome] = []
        for _ in range(2):
            outcome, _ = examiner.examine(built, lambda *_: None, incumbent)
            further = examiner.look_further(built, incumbent)
            refused += [one for one in (outcome, further) if not isinstance(one, Passed | None)]
        # An orbit that is chaotic ends elsewhere, once in hundreds of draws.
        assert len(refused) <= 1, refused
