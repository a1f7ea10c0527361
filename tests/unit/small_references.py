"""Small references over every kind of operator, in NumPy and in PyTorch: what readers are tried on.

Of each: a workload, what is given (an expression by name), results (shape and dtype), the body.
"""

# ruff: noqa: E501 - one function is one row
from __future__ import annotations

import textwrap
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SmallReference:
    """One function."""

    dims: dict[str, int]
    given: dict[str, str]
    results: dict[str, str]
    body: str
    numbers: dict[str, float | int] = field(default_factory=dict)
    kind: str | None = None

    def text(self, library: str) -> str:
        """A reference's file.

        Args:
            library: `numpy` or `torch`.
        """
        names = [*self.given, *self.results, *self.dims, *self.numbers]
        entries = [f'"{name}": {made},' for name, made in self.given.items()]
        entries += [f'"{name}": {made},' for name, made in self.results.items()]
        entries += [f'"{name}": {name},' for name in self.dims]
        entries += [f'"{name}": {value!r},' for name, value in self.numbers.items()]
        inner = textwrap.indent("\n".join(entries), " " * 12)
        body = textwrap.indent(textwrap.dedent(self.body).strip(), " " * 4)
        return (
            f"{HEADS[library]}\n\ndef setup({', '.join(self.dims)}, seed=0):\n"
            f'    made = Made(seed)\n    return {{\n        "inputs": {{\n{inner}\n        }},\n'
            f'        "outputs": {list(self.results)!r},\n    }}\n\n\n'
            f"def reference({', '.join(names)}):\n{body}\n"
        )


HEADS = {
    "numpy": """import math
import numpy as np

class Made:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
    def f(self, *shape, dtype="float32"):
        return self.rng.standard_normal(shape).astype(dtype)
    def p(self, *shape, dtype="float32"):
        return (self.rng.random(shape) + 0.1).astype(dtype)
    def i(self, high, *shape, dtype="int64"):
        return self.rng.integers(0, high, shape).astype(dtype)
    def b(self, *shape):
        return self.rng.random(shape) < 0.5

def out(*shape, dtype="float32"):
    return np.empty(shape, dtype)
""",
    "torch": """import math
import torch
import torch.nn.functional as F

class Made:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
    def f(self, *shape, dtype=torch.float32):
        return torch.randn(shape, generator=self.g).to(dtype)
    def p(self, *shape, dtype=torch.float32):
        return (torch.rand(shape, generator=self.g) + 0.1).to(dtype)
    def i(self, high, *shape, dtype=torch.int64):
        return torch.randint(0, high, shape, generator=self.g).to(dtype)
    def b(self, *shape):
        return torch.rand(shape, generator=self.g) < 0.5

def out(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)
""",
}
ND = {"N": 64, "D": 96}

NUMPY = {
    "softmax": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        y[:] = e / e.sum(axis=-1, keepdims=True)""", kind="softmax"),
    "log_softmax": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        shifted = x - np.max(x, axis=0, keepdims=True)
        np.subtract(shifted, np.log(np.exp(shifted).sum(0, keepdims=True)), out=y)""",
        kind="log-softmax"),
    "layer_norm": SmallReference(ND, {"x": "made.f(N, D)", "w": "made.f(D)", "b": "made.f(D)"},
        {"y": "out(N, D)"}, """
        mean = x.mean(axis=1, keepdims=True)
        var = x.var(axis=1, keepdims=True)
        y[...] = (x - mean) / np.sqrt(var + eps) * w + b""", {"eps": 1e-5}, "normalisation"),
    "rms_norm": SmallReference(ND, {"x": "made.f(N, D)", "w": "made.f(D)"}, {"y": "out(N, D)"}, """
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1) + 1e-6)
        y[:] = x * scale[:, None] * w""", kind="normalisation"),
    "stencil_7": SmallReference({"X": 24, "Y": 20, "Z": 28}, {"u": "made.f(X, Y, Z)"},
        {"v": "out(X, Y, Z)"}, """
        v[:] = u
        v[1:-1, 1:-1, 1:-1] = a * u[1:-1, 1:-1, 1:-1] + b * (
            u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1]
            + u[1:-1, 2:, 1:-1] + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:])""",
        {"a": 0.5, "b": 1 / 12}, "stencil"),
    "gemm_bias_gelu": SmallReference({"M": 48, "N": 40, "K": 32},
        {"a": "made.f(M, K)", "b": "made.f(K, N)", "bias": "made.f(N)"}, {"c": "out(M, N)"}, """
        h = alpha * (a @ b) + bias
        c[:] = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))""",
        {"alpha": 1.5}, "contraction"),
    "batched_einsum": SmallReference({"B": 6, "N": 20, "K": 24, "M": 28},
        {"a": "made.f(B, N, K)", "b": "made.f(B, M, K)"}, {"c": "out(B, N, M)"},
        "c[:] = np.einsum('bnk,bmk->bnm', a, b)", kind="contraction"),
    "attention": SmallReference({"N": 48, "d": 32},
        {"q": "made.f(N, d)", "k": "made.f(N, d)", "v": "made.f(N, d)"}, {"o": "out(N, d)"}, """
        s = q @ k.T / math.sqrt(d)
        mask = np.tril(np.ones((N, N), dtype=bool))
        s = np.where(mask, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        np.matmul(p.astype(np.float32), v, out=o)""", kind="attention"),
    "attention_by_indices": SmallReference({"N": 48, "d": 32},
        {"q": "made.f(N, d)", "k": "made.f(N, d)", "v": "made.f(N, d)"}, {"o": "out(N, d)"}, """
        s = q @ k.T / np.float32(math.sqrt(d))
        s[np.triu_indices(N, 1)] = -np.inf
        p = np.exp(s - s.max(1, keepdims=True))
        o[:] = p / p.sum(1, keepdims=True) @ v""", kind="attention"),
    "symmetric_by_mask": SmallReference({"N": 48}, {"x": "made.f(N, N)"}, {"y": "out(N, N)"}, """
        y[:] = x + x.T
        y[np.eye(N, dtype=bool)] = 1
        low = np.tril_indices(N, -1)
        y[low] = 2 * x[low]"""),
    "cross_entropy": SmallReference(ND, {"x": "made.f(N, D)", "t": "made.i(D, N)"},
        {"loss": "out(1)"}, """
        top = x.max(axis=1)
        lse = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
        loss[0] = (lse - x[np.arange(N), t]).mean()"""),
    "cumsum_rows": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"},
        "np.cumsum(x, axis=1, out=y)", kind="scan"),
    "argmax_rows": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, dtype='int64')"},
        "y[:] = np.argmax(x, axis=1)", kind="reduction"),
    "transpose": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(D, N)"}, "y[:] = x.T",
        kind="transpose"),
    "histogram": SmallReference({"N": 500, "K": 20}, {"x": "made.i(K, N)"},
        {"h": "out(K, dtype='int64')"}, """
        h[:] = 0
        np.add.at(h, x, 1)""", kind="scatter"),
    "gather_rows": SmallReference({"N": 40, "V": 60, "D": 16},
        {"table": "made.f(V, D)", "index": "made.i(V, N)"}, {"y": "out(N, D)"},
        "y[:] = table[index] * scale", {"scale": 2.5}, "gather"),
    "sweeps": SmallReference({"T": 12, "H": 18, "W": 20},
        {"x": "made.f(H, W, dtype='float64')"}, {"y": "out(H, W, dtype='float64')"}, """
        y[...] = x
        for _ in range(T):
            around = y[:-2, 1:-1] + y[2:, 1:-1] + y[1:-1, :-2] + y[1:-1, 2:]
            y[1:-1, 1:-1] = around * 0.25"""),
    "three_fields": SmallReference({"T": 9, "H": 18, "W": 20},
        {"p": "made.f(H, W)", "q": "made.f(H, W)", "r": "made.f(H, W)"},
        {"a": "out(H, W)", "b": "out(H, W)", "c": "out(H, W)"}, """
        a[:], b[:], c[:] = p, q, r
        for _ in range(T):
            b[0] = 1
            b[1:] -= 0.5 * (c[1:] - c[:-1])
            a[:, 1:] -= 0.5 * (c[:, 1:] - c[:, :-1])
            c[:-1, :-1] -= 0.7 * (a[:-1, 1:] - a[:-1, :-1] + b[1:, :-1] - b[:-1, :-1])"""),
    "window_by_window": SmallReference({"H": 9, "W": 11}, {"x": "made.f(H, W)", "k": "made.f(3, 3)"},
        {"y": "out(H, W)"}, """
        y[:] = 0
        for i in range(3):
            for j in range(3):
                y[1:-1, 1:-1] += k[i, j] * x[i : H - 2 + i, j : W - 2 + j]"""),
    "averages_along_rows": SmallReference({"N": 5, "T": 9}, {"x": "made.f(N * T)"},
        {"y": "out(N * T)", "v": "out(N * T)"}, """
        p, m, s = (a.reshape(N, T).T for a in (x, y, v))
        level, spread = np.zeros((2, N), np.float32)
        for t in range(T):
            off = p[t] - level
            level = level + 0.25 * off
            spread = 0.75 * (spread + 0.25 * off * off)
            m[t], s[t] = level, np.sqrt(spread)"""),
    "wave": SmallReference({"T": 10, "N": 40}, {"u": "made.f(N)", "v": "made.f(N)"}, {"y": "out(N)"}, """
        before, now = u.copy(), v.copy()
        for _ in range(T):
            after = now.copy()
            after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.1 * (now[2:] - 2 * now[1:-1] + now[:-2])
            before, now = now, after
        y[:] = now"""),
    "sweeps_by_number": SmallReference({"H": 18, "W": 20}, {"x": "made.f(H, W)"}, {"y": "out(H, W)"}, """
        y[...] = x
        for _ in range(30):
            y[1:-1] = (y[:-2] + y[2:]) * 0.5"""),
    "power_steps": SmallReference({"T": 9, "N": 24}, {"m": "made.f(N, N)", "x": "made.f(N)"}, {"y": "out(N)"}, """
        v = x
        for _ in range(T):
            v = m @ v
            v = v / np.sqrt((v * v).sum())
        y[:] = v"""),
    "fewer_sweeps": SmallReference({"T": 12, "N": 40}, {"x": "made.f(N)"}, {"y": "out(N)"}, """
        y[:] = x
        for _ in range(1, T):
            y[:] = 0.5 * y + x"""),
    "half_sweeps": SmallReference({"T": 12, "N": 20}, {"x": "made.f(N)"}, {"y": "out(N)"}, """
        y[:] = x
        for _ in range(T // 2):
            y[:] = np.sin(y) + x"""),
    "sweeps_beside_others": SmallReference({"T": 12, "N": 40}, {"x": "made.f(N)", "w": "made.f(N)"}, {"y": "out(N)"}, """
        s = np.zeros(N, dtype=np.float32)
        g = s
        for _ in range(T):
            s = np.tanh(s + np.exp(w) * np.float32(0.1))
            g = s * 2
        y[:] = s + g"""),
    "sweeps_in_sweeps": SmallReference({"T": 12, "N": 40}, {"x": "made.f(N)"}, {"y": "out(N)"}, """
        s = x
        for _ in range(T):
            for _ in range(10):
                s = np.tanh(s * 0.5) + x
            s = s * 0.3
        y[:] = s"""),
    "conv_by_taps": SmallReference({"B": 2, "H": 18, "W": 20, "K": 5},
        {"x": "made.f(B, H, W)", "w": "made.f(B, K, K)"}, {"y": "out(B, H, W)"}, """
        pad = K // 2
        wide = np.zeros((B, H + K - 1, W + K - 1), dtype=x.dtype)
        wide[:, pad:pad + H, pad:pad + W] = x
        y[:] = 0
        for k in range(K):
            for m in range(K):
                y += wide[:, k:k + H, m:m + W] * w[:, k, m, None, None]"""),
    "conv_1d": SmallReference({"N": 128, "K": 5}, {"x": "made.f(N)", "w": "made.f(K)"},
        {"y": "out(N - K + 1)"},
        "y[:] = np.lib.stride_tricks.sliding_window_view(x, K) @ w", kind="convolution"),
    "max_pool": SmallReference({"H": 32, "W": 48}, {"x": "made.f(H, W)"}, {"y": "out(H // 2, W // 2)"}, """
        y[:] = x[: H // 2 * 2, : W // 2 * 2].reshape(H // 2, 2, W // 2, 2).max(axis=(1, 3))""",
        kind="reduction"),
    "rotary": SmallReference({"N": 24, "D": 32}, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        half = D // 2
        angle = np.arange(N)[:, None] / 10000.0 ** (np.arange(half) / half)
        c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        y[:, :half] = x[:, :half] * c - x[:, half:] * s
        y[:, half:] = x[:, :half] * s + x[:, half:] * c"""),
    "masked_update": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        y[:] = x
        y[x < 0] *= 0.1
        y[y > limit] = limit""", {"limit": 1.5}, "map"),
    "quantise": SmallReference(ND, {"x": "made.f(N, D)"},
        {"q": "out(N, D, dtype='int8')", "scale": "out(N)"}, """
        scale[:] = np.abs(x).max(axis=1) / 127
        q[:] = np.clip(np.rint(x / scale[:, None]), -127, 127).astype(np.int8)"""),
    "sorted_rows": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"},
        "y[:] = np.sort(x, axis=1)[:, ::-1]", kind="sort"),
    "powers": SmallReference(ND, {"x": "made.p(N, D)"}, {"y": "out(N, D)"},
        "y[:] = x**-1.5 + x**2.5 + 1 / x**-2 + x**-1 + x**4", kind="map"),
    "medians": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N)"},
        "y[:] = np.median(x, axis=1) + np.partition(x, D // 3, axis=1)[:, D // 3]", kind="sort"),
    "bit_mix": SmallReference({"N": 256}, {"x": "made.i(2**31, N, dtype='uint32')"},
        {"y": "out(N, dtype='uint32')"}, """
        h = x ^ (x >> np.uint32(16))
        h = h * np.uint32(0x45D9F3B)
        y[:] = h ^ (h << np.uint32(7))""", kind="map"),
    "packed_signs": SmallReference({"N": 24, "D": 8}, {"x": "made.f(N, 8 * D)"},
        {"y": "out(N, D, dtype='uint8')"}, "y[:] = np.packbits(x > 0, axis=1)", kind="reduction"),
    "unpacked_bits": SmallReference({"N": 24, "D": 8}, {"x": "made.i(256, N, D, dtype='uint8')"},
        {"y": "out(N, 8 * D)"}, "y[:] = np.unpackbits(x, axis=-1, bitorder='little')"),
    "double_norms": SmallReference(ND, {"x": "made.f(N, D, dtype='float64')"},
        {"y": "out(N, dtype='float64')"}, "y[:] = np.linalg.norm(x, axis=1)"),
    "half_sum": SmallReference(ND, {"x": "made.f(N, D, dtype='float16')"},
        {"y": "out(N, dtype='float16')"}, "y[:] = x.sum(axis=1, dtype=np.float32)",
        kind="reduction"),
    "pad_and_roll": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N + 2, D)"}, """
        wide = np.pad(np.roll(x, 1, axis=1), ((1, 1), (0, 0)), mode="edge")
        y[:] = np.where(wide > 0, wide, 0.01 * wide)"""),
    "heat_steps": SmallReference({"N": 96}, {"u": "made.f(N)"}, {"v": "out(N)"}, """
        now = u.copy()
        for _ in range(3):
            new = now.copy()
            new[1:-1] = now[1:-1] + r * (now[2:] - 2 * now[1:-1] + now[:-2])
            now = new
        v[:] = now""", {"r": 0.25}, "stencil"),
    "row_loop": SmallReference({"N": 64}, {"x": "made.f(N, N)"}, {"y": "out(N)"}, """
        lower = np.tril(x, -1)
        y[:] = lower.sum(1) + np.trace(x) + np.diagonal(x) @ x""", ),
}  # fmt: skip
TORCH = {
    "softmax": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"},
        "y.copy_(torch.softmax(x, -1))", kind="softmax"),
    "log_softmax": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"},
        "y[:] = F.log_softmax(x, dim=1)", kind="log-softmax"),
    "layer_norm": SmallReference(ND, {"x": "made.f(N, D)", "w": "made.f(D)", "b": "made.f(D)"},
        {"y": "out(N, D)"}, "y.copy_(F.layer_norm(x, (D,), w, b, eps))", {"eps": 1e-5},
        "normalisation"),
    "group_norm": SmallReference({"B": 4, "C": 24, "H": 10},
        {"x": "made.f(B, C, H, H)", "w": "made.f(C)", "b": "made.f(C)"}, {"y": "out(B, C, H, H)"},
        "y.copy_(F.group_norm(x, 4, w, b))", kind="normalisation"),
    "batch_norm": SmallReference({"B": 6, "C": 12, "H": 10},
        {"x": "made.f(B, C, H)", "m": "made.f(C)", "v": "made.p(C)", "w": "made.f(C)"},
        {"y": "out(B, C, H)"}, "y.copy_(F.batch_norm(x, m, v, w, None, False, 0.1, 1e-5))"),
    "linear_gelu": SmallReference({"M": 40, "N": 48, "K": 32},
        {"x": "made.f(M, K)", "w": "made.f(N, K)", "b": "made.f(N)"}, {"y": "out(M, N)"},
        "y.copy_(F.gelu(F.linear(x, w, b)))", kind="contraction"),
    "sdpa_causal": SmallReference({"B": 2, "h": 4, "N": 24, "d": 16},
        {"q": "made.f(B, h, N, d)", "k": "made.f(B, h, N, d)", "v": "made.f(B, h, N, d)"},
        {"o": "out(B, h, N, d)"},
        "o.copy_(F.scaled_dot_product_attention(q, k, v, is_causal=True))", kind="attention"),
    "grouped_heads": SmallReference({"N": 24, "d": 16},
        {"q": "made.f(8, N, d)", "k": "made.f(2, N, d)", "v": "made.f(2, N, d)"},
        {"o": "out(8, N, d)"},
        "o.copy_(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))", kind="attention"),
    "cross_entropy": SmallReference(ND, {"x": "made.f(N, D)", "t": "made.i(D, N)"},
        {"loss": "out(1)"}, "loss.copy_(F.cross_entropy(x, t).reshape(1))"),
    "mse": SmallReference(ND, {"x": "made.f(N, D)", "t": "made.f(N, D)"}, {"loss": "out(1)"},
        "loss[0] = F.mse_loss(x, t)", kind="reduction"),
    "conv_2d": SmallReference({"B": 2, "C": 6, "H": 16, "W": 18, "K": 10},
        {"x": "made.f(B, C, H, W)", "w": "made.f(K, C, 3, 3)", "b": "made.f(K)"},
        {"y": "out(B, K, H, W)"}, "y.copy_(F.relu(F.conv2d(x, w, b, padding=1)))",
        kind="convolution"),
    "conv_strided": SmallReference({"C": 8, "H": 20, "W": 24, "K": 12},
        {"x": "made.f(1, C, H, W)", "w": "made.f(K, C, 3, 3)"},
        {"y": "out(1, K, (H + 1) // 2, (W + 1) // 2)"},
        "y.copy_(F.conv2d(x, w, stride=2, padding=1))", kind="convolution"),
    "conv_depthwise": SmallReference({"C": 8, "N": 40}, {"x": "made.f(2, C, N)", "w": "made.f(C, 1, 5)"},
        {"y": "out(2, C, N)"}, "y.copy_(F.conv1d(x, w, padding=2, groups=C))", kind="convolution"),
    "conv_transposed": SmallReference({"C": 6, "N": 20, "K": 8},
        {"x": "made.f(2, C, N)", "w": "made.f(C, K, 4)"}, {"y": "out(2, K, 2 * N)"},
        "y.copy_(F.conv_transpose1d(x, w, stride=2, padding=1))", kind="convolution"),
    "max_pool": SmallReference({"C": 6, "H": 16, "W": 24}, {"x": "made.f(2, C, H, W)"},
        {"y": "out(2, C, H // 2, W // 2)"}, "y.copy_(F.max_pool2d(x, 2))", kind="reduction"),
    "avg_pool": SmallReference({"C": 6, "H": 16, "W": 24}, {"x": "made.f(2, C, H, W)"},
        {"y": "out(2, C, H, W)"}, "y.copy_(F.avg_pool2d(x, 3, 1, 1))", kind="reduction"),
    "conv_transposed_padded": SmallReference({"C": 6, "H": 12, "W": 9, "K": 8},
        {"x": "made.f(2, C, H, W)", "w": "made.f(C, K // 2, 3, 5)", "b": "made.f(K)"}, {"y": "out(2, K, 3 * H - 1, 2 * W - 5)"},
        "y.copy_(F.conv_transpose2d(x, w, b, stride=(3, 2), padding=(1, 4), output_padding=(1, 0), groups=2))"),
    "conv_transposed_3d": SmallReference({"D": 6, "H": 7, "W": 5},
        {"x": "made.f(2, 3, D, H, W)", "w": "made.f(3, 4, 3, 3, 3)"}, {"y": "out(2, 4, 2 * D, 2 * H, 2 * W)"},
        "y.copy_(F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1))", kind="convolution"),
    "means_of_pooled": SmallReference({"B": 4, "D": 9, "H": 16, "W": 24}, {"x": "made.f(B, 3, D, H, W)"},
        {"y": "out(B, 3)"}, "y.copy_(F.max_pool3d(x, 3, 2, 1).mean((2, 3, 4)))"),
    "avg_pool_beyond": SmallReference({"H": 16, "W": 24}, {"x": "made.f(2, 3, H, W)"}, {"y": "out(2, 3, H // 2 + 1, W // 2 + 1)"},
        "y.copy_(F.avg_pool2d(x, 3, 2, 1, ceil_mode=True))"),
    "largest_so_far": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, "y.copy_(x.cummax(1)[0])", kind="scan"),
    "bags": SmallReference({"N": 10, "V": 60, "D": 16},
        {"w": "made.f(V, D)", "i": "made.i(V, N, 3)", "o": "torch.arange(0, 3 * N, 3)"}, {"y": "out(N, D)"}, """
        y.copy_(F.embedding_bag(i, w, mode="max") + F.embedding_bag(i.reshape(-1), w, o))"""),
    "copied_rows": SmallReference({"N": 30, "D": 12}, {"x": "made.f(N, D)", "i": "torch.arange(N).flip(0)"},
        {"y": "out(N, D)"}, "y.copy_(torch.zeros(N, D).index_copy(0, i, x))"),
    "circular": SmallReference({"H": 12, "W": 18}, {"x": "made.f(2, 3, H, W)"}, {"y": "out(2, 3, H, W + 3)"},
        "y.copy_(F.pad(x, (1, 2, 0, 0), mode='circular'))"),
    "lstm": SmallReference({"B": 12, "D": 9}, {"x": "made.f(B, 2, D)", "w": "made.f(20, D)", "u": "made.f(20, 5)"},
        {"y": "out(B, 2, 5)"}, """
        zero = torch.zeros(1, B, 5)
        y.copy_(torch.lstm(x, (zero, zero), [w, u], False, 1, 0.0, False, False, True)[0])"""),
    "embedding": SmallReference({"N": 40, "V": 60, "D": 16},
        {"w": "made.f(V, D)", "i": "made.i(V, N)"}, {"y": "out(N, D)"},
        "y.copy_(F.embedding(i, w))", kind="gather"),
    "gather_scatter": SmallReference({"N": 20, "D": 30},
        {"x": "made.f(N, D)", "i": "made.i(D, N, D)"}, {"y": "out(N, D)"}, """
        picked = torch.gather(x, 1, i)
        y.copy_(torch.zeros_like(x).scatter_add(1, i, picked))""", kind="scatter"),
    "index_put": SmallReference({"N": 30, "D": 12, "V": 40},
        {"x": "made.f(V, D)", "i": "made.i(V, N)", "u": "made.f(N, D)"}, {"y": "out(V, D)"}, """
        y.copy_(x)
        y.index_put_((i,), u, accumulate=True)""", kind="scatter"),
    "masked_fill": SmallReference(ND, {"x": "made.f(N, D)", "m": "made.b(N, D)"}, {"y": "out(N, D)"},
        "y.copy_(x.masked_fill(m, value))", {"value": -3.5}, "map"),
    "cumsum": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"},
        "y.copy_(torch.cumsum(x, 0))", kind="scan"),
    "topk": SmallReference(ND, {"x": "made.f(N, D)"},
        {"v": "out(N, 5)", "i": "out(N, 5, dtype=torch.int64)"}, """
        values, indices = torch.topk(x, 5, dim=1)
        v.copy_(values)
        i.copy_(indices)""", kind="sort"),
    "bf16_swiglu": SmallReference(ND, {"x": "made.f(N, 2 * D, dtype=torch.bfloat16)"},
        {"y": "out(N, D, dtype=torch.bfloat16)"}, """
        a, b = x.chunk(2, dim=-1)
        y.copy_(F.silu(a) * b)""", kind="map"),
    "half_matmul": SmallReference({"M": 40, "N": 48, "K": 32},
        {"a": "made.f(M, K, dtype=torch.float16)", "b": "made.f(K, N, dtype=torch.float16)"},
        {"c": "out(M, N, dtype=torch.float16)"}, "torch.matmul(a, b, out=c)", kind="contraction"),
    "axpy_double": SmallReference({"N": 300},
        {"x": "made.f(N, dtype=torch.float64)", "y": "made.f(N, dtype=torch.float64)"},
        {"z": "out(N, dtype=torch.float64)"}, "torch.add(y, x, alpha=alpha, out=z)",
        {"alpha": 0.75}, "map"),
    "in_place_views": SmallReference({"N": 30, "D": 16}, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        y.copy_(x)
        y[:, : D // 2].mul_(2.0)
        y[1:].add_(x[:-1])
        y.t()[0].zero_()"""),
    "integers": SmallReference({"N": 100}, {"x": "made.i(1000, N, dtype=torch.int32)"},
        {"y": "out(N, dtype=torch.int32)", "any_odd": "out(1, dtype=torch.bool)"}, """
        y.copy_((x // 3) ^ (x % 7) << 2)
        any_odd[0] = (x & 1).any()"""),
    "outer_flip": SmallReference({"N": 40, "M": 28}, {"x": "made.f(N)", "y": "made.f(M)"},
        {"z": "out(M, N)"}, "z.copy_(torch.outer(x, y.flip(0)).t() + torch.arange(N) * 0.5)"),
    "einsum_norm": SmallReference({"B": 5, "N": 14, "D": 18}, {"x": "made.f(B, N, D)", "w": "made.f(D, D)"},
        {"y": "out(B, N)"}, """
        h = torch.einsum("bnd,de->bne", x, w)
        y.copy_(torch.linalg.vector_norm(F.normalize(h, dim=-1) * (D ** 0.5), dim=-1))""",),
    "two_parts_and_medians": SmallReference(ND, {"x": "made.f(N, D)"}, {"y": "out(N, D)"}, """
        y[:, :1] = x.median(dim=1, keepdim=True).values
        y[:, 1:] = x[:, 1:] + x.median()""", kind="sort"),
    "std_logsumexp": SmallReference(ND, {"x": "made.f(N, D)"}, {"s": "out(N)", "l": "out(D)"}, """
        s.copy_(x.std(dim=1))
        l.copy_(torch.logsumexp(x, 0))"""),
}  # fmt: skip
