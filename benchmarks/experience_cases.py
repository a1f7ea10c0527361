"""Textbook kernels in C, each with its reference in NumPy: what `experience.py` learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel file; its campaigns are left out together."""

    name: str
    family: str
    """Empty: none that roofsmith knows."""
    dims: Mapping[str, int]
    arrays: Mapping[str, str]
    """Shape of every float array by name, in `solve`'s order; the last one is the output."""
    body: str
    """Of `solve`."""
    expression: str
    """Of the output, in NumPy."""
    draw: str = "rng.standard_normal({shape}, dtype=np.float32)"
    """How an input is drawn."""
    out: str = "float"
    """Element type of the output."""

    def write(self, place: Path) -> Path:
        """The target in a folder of its own; returns `target.yaml`."""
        place.mkdir(parents=True, exist_ok=True)
        files = {
            "kernel.c": self.kernel,
            "reference.py": self.reference,
            "target.yaml": self.target,
        }
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
        return place / "target.yaml"

    @property
    def output(self) -> str:
        """The last array's name."""
        return list(self.arrays)[-1]

    @property
    def kernel(self) -> str:
        """The C file."""
        inputs = [f"const float* {name}" for name in self.arrays if name != self.output]
        sizes = [f"int {name}" for name in self.dims]
        parameters = ", ".join([*inputs, f"{self.out}* {self.output}", *sizes])
        body = "".join(f"    {line}\n" if line else "\n" for line in self.body.strip().splitlines())
        return f"#include <math.h>\n\nvoid solve({parameters}) {{\n{body}}}\n"

    @property
    def reference(self) -> str:
        """The Python file."""
        sizes = ", ".join(self.dims)
        dtype = "np.float32" if self.out == "float" else "np.int32"
        drawn = [
            f"            {name!r}: {self.draw.format(shape=shape)},\n"
            for name, shape in self.arrays.items()
            if name != self.output
        ]
        drawn.append(
            f"            {self.output!r}: np.zeros({self.arrays[self.output]}, dtype={dtype}),\n"
        )
        drawn += [f"            {name!r}: {name},\n" for name in self.dims]
        return (
            "import numpy as np\n\n\n"
            f"def setup({sizes}, seed=0):\n"
            "    rng = np.random.default_rng(seed)\n"
            '    return {\n        "inputs": {\n'
            f"{''.join(drawn)}        }},\n"
            f'        "outputs": [{self.output!r}],\n    }}\n\n\n'
            f"def reference({', '.join([*self.arrays, *self.dims])}):\n"
            f"    {self.output}[...] = {self.expression}\n"
        )

    @property
    def target(self) -> str:
        """The target file."""
        dims = ", ".join(f"{name}: {value}" for name, value in self.dims.items())
        family = f"family: {self.family}\n" if self.family else ""
        return (
            f"name: {self.name}\nlanguage: c\nkernel: kernel.c\nreference: reference.py\n"
            f"{family}workloads:\n  - {{{dims}}}\n"
        )


_ROWS = {"N": 256, "D": 384}
_ROW = {"x": "(N, D)", "y": "(N, D)"}
_SCALED = {"x": "(N, D)", "g": "D", "b": "D", "y": "(N, D)"}
_MATRICES = {"a": "(M, K)", "b": "(K, N)", "c": "(M, N)"}
_GRID = {"H": 320, "W": 320}
_PLANE = {"x": "(H, W)", "y": "(H, W)"}
_VECTORS = {"x": "N", "y": "N", "z": "N"}
_POSITIVE = "rng.random({shape}, dtype=np.float32) + 0.1"


def _rows(*lines: str) -> str:
    inner = "".join(f"    {line}\n" for line in lines)
    return f"for (int i = 0; i < N; i++) {{\n{inner}}}"


CASES = (
    Case("softmax", "softmax", _ROWS, _ROW, _rows(
        "float m = x[i * D];",
        "for (int j = 1; j < D; j++) if (x[i * D + j] > m) m = x[i * D + j];",
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) { y[i * D + j] = expf(x[i * D + j] - m); s += y[i * D + j]; }",
        "for (int j = 0; j < D; j++) y[i * D + j] = y[i * D + j] / s;"),
        "np.exp(x - x.max(1, keepdims=True))"
        " / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)"),
    Case("log-softmax", "softmax", _ROWS, _ROW, _rows(
        "float m = x[i * D];",
        "for (int j = 1; j < D; j++) m = fmaxf(m, x[i * D + j]);",
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += expf(x[i * D + j] - m);",
        "float l = logf(s);",
        "for (int j = 0; j < D; j++) y[i * D + j] = x[i * D + j] - m - l;"),
        "x - x.max(1, keepdims=True)"
        " - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))"),
    Case("softmax-temperature", "softmax", {"N": 192, "D": 500}, _ROW, _rows(
        "float m = -1e30f;",
        "for (int j = 0; j < D; j++) { if (x[i * D + j] / 0.7f > m) m = x[i * D + j] / 0.7f; }",
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += expf(x[i * D + j] / 0.7f - m);",
        "for (int j = 0; j < D; j++) y[i * D + j] = expf(x[i * D + j] / 0.7f - m) / s;"),
        "np.exp(x / 0.7 - (x / 0.7).max(1, keepdims=True))"
        " / np.exp(x / 0.7 - (x / 0.7).max(1, keepdims=True)).sum(1, keepdims=True)"),
    Case("logsumexp", "reduction", _ROWS, {"x": "(N, D)", "y": "N"}, _rows(
        "float m = x[i * D];",
        "for (int j = 1; j < D; j++) if (x[i * D + j] > m) m = x[i * D + j];",
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += expf(x[i * D + j] - m);",
        "y[i] = m + logf(s);"),
        "x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))"),
    Case("rmsnorm", "norm", {"N": 512, "D": 512}, {"x": "(N, D)", "g": "D", "y": "(N, D)"}, _rows(
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += x[i * D + j] * x[i * D + j];",
        "float r = sqrtf(s / D + 1e-5f);",
        "for (int j = 0; j < D; j++) y[i * D + j] = x[i * D + j] / r * g[j];"),
        "x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g"),
    Case("layernorm", "norm", {"N": 512, "D": 384}, _SCALED, _rows(
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += x[i * D + j];",
        "float mean = s / D;",
        "float v = 0.0f;",
        "for (int j = 0; j < D; j++) v += (x[i * D + j] - mean) * (x[i * D + j] - mean);",
        "float r = sqrtf(v / D + 1e-5f);",
        "for (int j = 0; j < D; j++) y[i * D + j] = (x[i * D + j] - mean) / r * g[j] + b[j];"),
        "(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b"),
    Case("l2-normalise", "norm", {"N": 384, "D": 640}, _ROW, _rows(
        "float s = 0.0f;",
        "for (int j = 0; j < D; j++) s += x[i * D + j] * x[i * D + j];",
        "float l = sqrtf(s) + 1e-6f;",
        "for (int j = 0; j < D; j++) y[i * D + j] = x[i * D + j] / l;"),
        "x / (np.sqrt((x * x).sum(1, keepdims=True)) + 1e-6)"),
    Case("batch-norm", "norm", {"N": 512, "D": 256}, _SCALED, """
for (int j = 0; j < D; j++) {
    float s = 0.0f;
    for (int i = 0; i < N; i++) s += x[i * D + j];
    float mean = s / N;
    float v = 0.0f;
    for (int i = 0; i < N; i++) v += (x[i * D + j] - mean) * (x[i * D + j] - mean);
    float r = sqrtf(v / N + 1e-5f);
    for (int i = 0; i < N; i++) y[i * D + j] = (x[i * D + j] - mean) / r * g[j] + b[j];
}
""", "(x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * g + b"),
    Case("row-sums", "reduction", {"N": 512, "D": 640}, {"x": "(N, D)", "y": "N"}, _rows(
        "float s = 0.0f;", "for (int j = 0; j < D; j++) s += x[i * D + j];", "y[i] = s;"),
        "x.sum(1)"),
    Case("column-sums", "reduction", {"N": 640, "D": 512}, {"x": "(N, D)", "y": "D"}, """
for (int j = 0; j < D; j++) {
    float s = 0.0f;
    for (int i = 0; i < N; i++) s += x[i * D + j];
    y[j] = s;
}
""", "x.sum(0)"),
    Case("column-variance", "reduction", {"N": 512, "D": 320}, {"x": "(N, D)", "y": "D"}, """
for (int j = 0; j < D; j++) {
    float s = 0.0f;
    for (int i = 0; i < N; i++) s += x[i * D + j];
    float mean = s / N;
    float v = 0.0f;
    for (int i = 0; i < N; i++) v += (x[i * D + j] - mean) * (x[i * D + j] - mean);
    y[j] = v / N;
}
""", "x.var(0)"),
    Case("row-norms", "reduction", {"N": 448, "D": 512}, {"x": "(N, D)", "y": "N"}, _rows(
        "float s = 0.0f;", "for (int j = 0; j < D; j++) s += fabsf(x[i * D + j]);",
        "float q = 0.0f;", "for (int j = 0; j < D; j++) q += x[i * D + j] * x[i * D + j];",
        "y[i] = s / sqrtf(q);"),
        "np.abs(x).sum(1) / np.sqrt((x * x).sum(1))"),
    Case("row-largest", "reduction", {"N": 512, "D": 512}, {"x": "(N, D)", "y": "N"}, _rows(
        "float m = x[i * D];",
        "for (int j = 1; j < D; j++) if (x[i * D + j] > m) m = x[i * D + j];", "y[i] = m;"),
        "x.max(1)"),
    Case("argmin", "reduction", {"N": 384, "D": 512}, {"x": "(N, D)", "y": "N"}, _rows(
        "float m = x[i * D];", "int k = 0;",
        "for (int j = 1; j < D; j++) if (x[i * D + j] < m) { m = x[i * D + j]; k = j; }",
        "y[i] = k;"),
        "x.argmin(1)", out="int"),
    Case("argmax", "reduction", {"N": 256, "D": 900}, {"x": "(N, D)", "y": "N"}, _rows(
        "float m = -1e30f;", "int k = 0;",
        "for (int j = 0; j < D; j++) { if (x[i * D + j] > m) { m = x[i * D + j]; k = j; } }",
        "y[i] = k;"),
        "x.argmax(1)", out="int"),
    Case("dot", "reduction", {"N": 262144}, {"x": "N", "y": "N", "z": "1"}, """
float s = 0.0f;
for (int i = 0; i < N; i++) s += x[i] * y[i];
z[0] = s;
""", "np.dot(x.astype(np.float64), y)", draw=_POSITIVE),
    Case("matmul", "gemm", {"M": 96, "N": 112, "K": 128}, _MATRICES, """
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++) s += a[i * K + k] * b[k * N + j];
        c[i * N + j] = s;
    }
}
""", "a @ b"),
    Case("matmul-transposed", "gemm", {"M": 96, "N": 96, "K": 160},
        {"a": "(M, K)", "b": "(N, K)", "c": "(M, N)"}, """
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++) s += a[i * K + k] * b[j * K + k];
        c[i * N + j] = s;
    }
}
""", "a @ b.T"),
    Case("linear-gelu", "gemm", {"M": 64, "N": 96, "K": 128}, _MATRICES, """
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++) s += a[i * K + k] * b[k * N + j];
        c[i * N + j] = s / (1.0f + expf(-1.702f * s));
    }
}
""", "(a @ b) / (1 + np.exp(-1.702 * (a @ b)))"),
    Case("matvec", "gemv", {"M": 640, "N": 512}, {"a": "(M, N)", "x": "N", "y": "M"}, """
for (int i = 0; i < M; i++) {
    y[i] = 0.0f;
    for (int j = 0; j < N; j++) y[i] += a[i * N + j] * x[j];
}
""", "a @ x"),
    Case("matvec-transposed", "gemv", {"M": 512, "N": 512}, {"a": "(M, N)", "x": "M", "y": "N"}, """
for (int j = 0; j < N; j++) {
    float s = 0.0f;
    for (int i = 0; i < M; i++) s += a[i * N + j] * x[i];
    y[j] = s;
}
""", "a.T @ x"),
    Case("sigmoid", "elementwise", {"N": 65536}, {"x": "N", "y": "N"},
        "for (int i = 0; i < N; i++) y[i] = 1.0f / (1.0f + expf(-x[i]));",
        "1 / (1 + np.exp(-x))"),
    Case("gelu-tanh", "elementwise", {"N": 49152}, {"x": "N", "y": "N"}, """
for (int i = 0; i < N; i++) {
    float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    float e = expf(2.0f * u);
    y[i] = 0.5f * x[i] * (1.0f + (e - 1.0f) / (e + 1.0f));
}
""", "0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))"),
    Case("swiglu", "elementwise", {"N": 65536}, _VECTORS,
        "for (int i = 0; i < N; i++) z[i] = x[i] / (1.0f + expf(-x[i])) * y[i];",
        "x / (1 + np.exp(-x)) * y"),
    Case("normalise-range", "elementwise", {"N": 131072}, {"x": "N", "y": "N"}, """
float low = x[0], high = x[0];
for (int i = 1; i < N; i++) { if (x[i] < low) low = x[i]; }
for (int i = 1; i < N; i++) { if (x[i] > high) high = x[i]; }
for (int i = 0; i < N; i++) y[i] = (x[i] - low) / (high - low);
""", "(x - x.min()) / (x.max() - x.min())"),
    Case("axpy-chain", "elementwise", {"N": 131072}, _VECTORS, """
for (int i = 0; i < N; i++) z[i] = 2.0f * x[i] + y[i];
for (int i = 0; i < N; i++) z[i] = z[i] * x[i] + 1.0f;
for (int i = 0; i < N; i++) z[i] = z[i] / 3.0f - y[i];
""", "((2 * x + y) * x + 1) / 3 - y"),
    Case("transpose", "transpose", {"H": 512, "W": 512}, {"x": "(H, W)", "y": "(W, H)"}, """
for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) y[j * H + i] = x[i * W + j];
}
""", "x.T"),
    Case("column-scale", "elementwise", {"H": 512, "W": 512},
        {"x": "(H, W)", "s": "W", "y": "(H, W)"}, """
for (int j = 0; j < W; j++) {
    for (int i = 0; i < H; i++) y[i * W + j] = x[i * W + j] / s[j];
}
""", "x / s", draw=_POSITIVE),
    Case("jacobi", "", _GRID, _PLANE, """
for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) {
        float s = 0.0f;
        if (i > 0) s += x[(i - 1) * W + j];
        if (i < H - 1) s += x[(i + 1) * W + j];
        if (j > 0) s += x[i * W + j - 1];
        if (j < W - 1) s += x[i * W + j + 1];
        y[i * W + j] = s / 4.0f;
    }
}
""", "sum(np.pad(x, 1)[1 + a:H + 1 + a, 1 + b:W + 1 + b]"
        " for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))) / 4"),
    Case("blur", "", {"H": 192, "W": 256}, _PLANE, """
for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) {
        float s = 0.0f;
        for (int a = -1; a <= 1; a++) {
            for (int b = -1; b <= 1; b++) {
                if (i + a >= 0 && i + a < H && j + b >= 0 && j + b < W)
                    s += x[(i + a) * W + j + b];
            }
        }
        y[i * W + j] = s / 9.0f;
    }
}
""", "sum(np.pad(x, 1)[a:H + a, b:W + b] for a in range(3) for b in range(3)) / 9"),
    Case("convolution", "", {"N": 32768, "K": 15}, {"x": "N + K - 1", "w": "K", "y": "N"}, """
for (int i = 0; i < N; i++) {
    float s = 0.0f;
    for (int k = 0; k < K; k++) s += x[i + k] * w[k];
    y[i] = s;
}
""", "np.correlate(x, w, 'valid')"),
    Case("distances", "", {"M": 96, "N": 128, "K": 64},
        {"a": "(M, K)", "b": "(N, K)", "c": "(M, N)"}, """
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++) s += (a[i * K + k] - b[j * K + k]) \
* (a[i * K + k] - b[j * K + k]);
        c[i * N + j] = sqrtf(s);
    }
}
""", "np.sqrt(((a[:, None] - b[None]) ** 2).sum(2))"),
    Case("gaussian-kernel", "", {"M": 128, "N": 128, "K": 32},
        {"a": "(M, K)", "b": "(N, K)", "c": "(M, N)"}, """
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++) { float d = a[i * K + k] - b[j * K + k]; s += d * d; }
        c[i * N + j] = expf(-s / 32.0f);
    }
}
""", "np.exp(-((a[:, None] - b[None]) ** 2).sum(2) / 32)"),
    Case("cosine-similarity", "", {"N": 512, "D": 320},
        {"x": "(N, D)", "y": "(N, D)", "z": "N"}, _rows(
        "float s = 0.0f, p = 0.0f, q = 0.0f;",
        "for (int j = 0; j < D; j++) s += x[i * D + j] * y[i * D + j];",
        "for (int j = 0; j < D; j++) p += x[i * D + j] * x[i * D + j];",
        "for (int j = 0; j < D; j++) q += y[i * D + j] * y[i * D + j];",
        "z[i] = s / (sqrtf(p) * sqrtf(q));"),
        "(x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))", draw=_POSITIVE),
    Case("cross-entropy", "softmax", {"N": 224, "D": 420},
        {"x": "(N, D)", "t": "(N, D)", "y": "N"}, _rows(
        "float m = x[i * D];",
        "for (int j = 1; j < D; j++) if (x[i * D + j] > m) m = x[i * D + j];",
        "float s = 0.0f, c = 0.0f;",
        "for (int j = 0; j < D; j++) s += expf(x[i * D + j] - m);",
        "for (int j = 0; j < D; j++) c += t[i * D + j] * (m + logf(s) - x[i * D + j]);",
        "y[i] = c;"),
        "(t * (x.max(1, keepdims=True) + np.log(np.exp(x - x.max(1, keepdims=True))"
        ".sum(1, keepdims=True)) - x)).sum(1)", draw=_POSITIVE),
    Case("covariance", "gemm", {"N": 160, "D": 96}, {"x": "(N, D)", "c": "(D, D)"}, """
for (int p = 0; p < D; p++) {
    for (int q = 0; q < D; q++) {
        float s = 0.0f;
        for (int i = 0; i < N; i++) s += x[i * D + p] * x[i * D + q];
        c[p * D + q] = s / N;
    }
}
""", "x.T @ x / N"),
)  # fmt: skip
