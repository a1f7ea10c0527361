"""Operators as people write their references, with what each one must cost, derived by hand.

The formulas are those of docs/roofline.md. Sizes are small, and different wherever a mix-up of two
of them would go unnoticed otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from roofsmith.domain.facts import ArithmeticType

Tensors = dict[str, torch.Tensor]
B, H, G, S, D = 2, 4, 2, 24, 8
"""Batch, heads, heads of keys and values, sequence, width of a head."""
M, N, K, E, T, V = 48, 20, 32, 6, 10, 1000
"""Matrix sizes, experts, tokens, vocabulary."""
HALF, FLOAT, BYTE = torch.float16, torch.float32, torch.uint8


@dataclass(frozen=True)
class Operator:
    """A reference and its cost."""

    name: str
    family: str | None
    tensors: Callable[[], Tensors]
    """Inputs by name, and the output, called `y`."""
    reference: Callable[..., Any]
    flops: float | None
    """That the roofline rests on."""
    moved: float
    """Bytes."""
    dtype: ArithmeticType
    dims: dict[str, int] | None = None
    declared: float | None = None
    """What `flops()` says."""
    counted: bool = True
    """Whether a run of the reference shows its operations."""


def _random(*shape: int, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def _integers(low: int, high: int, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(low, high, shape).to(dtype)


def _gemm(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(a.float() @ b.float())  # more precise than the kernel: it may work in half precision


def _mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, y: torch.Tensor) -> None:
    torch.matmul(F.gelu(x @ up), down, out=y)


def _naive_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor) -> None:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    y.copy_(scores.masked_fill(hidden, -math.inf).softmax(-1) @ v)


def _fused_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def _by_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor) -> None:
    seen = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril()
    y.copy_(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))


def _grouped(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, y: torch.Tensor) -> None:
    begin = 0
    for group, end in enumerate(ends.tolist()):  # out of PyTorch's sight: no bytes
        y[begin:end] = a[begin:end] @ b[group]
        begin = end


def _weights_of_int4(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, y: torch.Tensor) -> None:
    halves = torch.stack([(w & 15).to(torch.int8) - 8, (w >> 4).to(torch.int8) - 8], 1)
    y.copy_(x @ (halves.reshape(K, N).to(x.dtype) * s.repeat_interleave(16, 0)))


def _products_of_int8(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x.float() @ w.float() * s)


def _products_of_fp8(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, y: torch.Tensor) -> None:
    kind = torch.float8_e4m3fn
    y.copy_(x.view(kind).float() @ w.view(kind).float() * s)


def _experts(x: torch.Tensor, w: torch.Tensor, chosen: torch.Tensor, y: torch.Tensor) -> None:
    y.zero_()
    for expert in range(E):
        rows = (chosen == expert).any(1).nonzero()[:, 0]
        if len(rows):
            y[rows] += x[rows] @ w[expert]


def _rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, y: torch.Tensor) -> None:
    left, right = x.chunk(2, -1)
    y.copy_(torch.cat([left * cos - right * sin, right * cos + left * sin], -1))


def _rms(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w)


def _cached(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(F.scaled_dot_product_attention(q, k[:, :, :S], v[:, :, :S]))


def _heads(count: int, rows: int = S) -> torch.Tensor:
    return _random(B, count, rows, D)


def _attention(keys: int = H) -> Tensors:
    return {"q": _heads(H), "k": _heads(keys), "v": _heads(keys), "y": _heads(H)}


def _product(kind: torch.dtype = FLOAT, out: torch.dtype = FLOAT) -> Tensors:
    return {
        "a": _random(M, K, dtype=kind),
        "b": _random(K, N, dtype=kind),
        "y": torch.empty(M, N, dtype=out),
    }


SCORES = B * H * S * S
QKVO = 4 * 4 * B * H * S * D
ROWS = {"x": lambda: _random(M, K), "y": lambda: torch.empty(M, K)}

TABLE = (
    Operator("gemm", "gemm", _product, _gemm, 2 * M * N * K, 4 * (M * K + K * N + M * N),
             "float32", {"M": M, "N": N, "K": K}),
    Operator("gemm in half precision", None, lambda: _product(HALF, HALF), _gemm, 2 * M * N * K,
             2 * (M * K + K * N + M * N), "float16"),
    Operator("gemv", "gemv", lambda: {"a": _random(M, K), "x": _random(K), "y": torch.empty(M)},
             lambda a, x, y: torch.mv(a, x, out=y), 2 * M * K, 4 * (M * K + K + M), "float32"),
    Operator("two products", None,
             lambda: {"x": _random(M, K), "up": _random(K, N), "down": _random(N, K),
                      "y": torch.empty(M, K)},
             _mlp, 4 * M * N * K, 4 * (2 * M * K + 2 * K * N), "float32"),
    Operator("attention", "attention", _attention,
             lambda q, k, v, y: y.copy_(F.scaled_dot_product_attention(q, k, v)),
             4 * SCORES * D, QKVO, "float32", {"B": B, "H": H, "S": S, "D": D}),
    Operator("causal attention, seen", None, _attention, _fused_causal,
             4 * B * H * D * S * (S + 1) / 2, QKVO, "float32"),
    Operator("causal attention by a mask", "attention", _attention, _by_mask,
             4 * B * H * D * S * (S + 1) / 2, QKVO, "float32", {"B": B, "H": H, "S": S, "D": D}),
    Operator("attention to neighbours, as an input says", None,
             lambda: {**_attention(), "near": torch.ones(S, S, dtype=torch.bool).triu(-1).tril(1)},
             lambda q, k, v, y, near: y.copy_(
                 F.scaled_dot_product_attention(q, k, v, attn_mask=near)),
             4 * B * H * D * (3 * S - 2), QKVO + S * S, "float32"),
    Operator("causal attention, declared", "attention", _attention, _naive_causal,
             4 * B * H * D * S * (S + 1) / 2, QKVO, "float32",
             declared=4 * B * H * D * S * (S + 1) / 2),
    Operator("grouped queries", None, lambda: _attention(G),
             lambda q, k, v, y: y.copy_(F.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
             4 * SCORES * D, QKVO / 2 * (1 + G / H), "float32"),
    Operator("attention over part of a cache", None,
             lambda: {"q": _heads(H, 1), "k": _heads(H, 3 * S), "v": _heads(H, 3 * S),
                      "y": _heads(H, 1)},
             _cached, 4 * B * H * S * D, 4 * 2 * B * H * D * (S + 1), "float32"),
    Operator("grouped gemm", "grouped_gemm",
             lambda: {"a": _random(M, K), "b": _random(3, K, N),
                      "ends": torch.tensor([8, 30, M], dtype=torch.int32), "y": torch.empty(M, N)},
             _grouped, 2 * M * K * N, 4 * (M * K + 3 * K * N + M * N), "float32"),
    Operator("mixture of experts", "moe",
             lambda: {"x": _random(T, K), "w": _random(E, K, N),
                      "chosen": torch.tensor([[0, 2], [2, 5]] * (T // 2)), "y": torch.empty(T, N)},
             _experts, 2 * T * 2 * K * N, 4 * (T * K + 3 * K * N + T * N) + 8 * T * 2, "float32",
             {"tokens": T, "topk": 2}),
    Operator("weights of 4 bits", None,
             lambda: {"x": _random(M, K, dtype=HALF), "w": _integers(0, 255, K // 2, N, dtype=BYTE),
                      "s": _random(K // 16, N, dtype=HALF), "y": torch.empty(M, N, dtype=HALF)},
             _weights_of_int4, 2 * M * N * K, 2 * M * K + K * N / 2 + 2 * K // 16 * N + 2 * M * N,
             "float16"),
    Operator("int8 with scales", None,
             lambda: {"x": _integers(-9, 9, M, K, dtype=torch.int8),
                      "w": _integers(-9, 9, K, N, dtype=torch.int8),
                      "s": _random(N), "y": torch.empty(M, N, dtype=HALF)},
             _products_of_int8, 2 * M * N * K, M * K + K * N + 4 * N + 2 * M * N, "int8"),
    Operator("fp8 with scales", None,
             lambda: {"x": _integers(0, 99, M, K, dtype=BYTE),
                      "w": _integers(0, 99, K, N, dtype=BYTE),
                      "s": _random(N), "y": torch.empty(M, N, dtype=HALF)},
             _products_of_fp8, 2 * M * N * K, M * K + K * N + 4 * N + 2 * M * N, "float8"),
    Operator("conv2d", "conv2d",
             lambda: {"x": _random(B, 4, 9, 11), "w": _random(6, 2, 3, 3),
                      "y": torch.empty(B, 6, 7, 9)},
             lambda x, w, y: y.copy_(F.conv2d(x, w, groups=2)),
             2 * B * 6 * 7 * 9 * 2 * 3 * 3, 4 * (B * 4 * 9 * 11 + 6 * 2 * 9 + B * 6 * 7 * 9),
             "float32"),
    Operator("softmax", "softmax", lambda: {k: make() for k, make in ROWS.items()},
             lambda x, y: torch.softmax(x, -1, out=y), 5 * M * K, 8 * M * K, "float32",
             counted=False),
    Operator("RMS norm", "rmsnorm",
             lambda: {"x": _random(M, K), "w": _random(K), "y": torch.empty(M, K)},
             _rms, 4 * M * K, 4 * (2 * M * K + K), "float32", counted=False),
    Operator("layer norm", "layernorm",
             lambda: {"x": _random(M, K), "w": _random(K), "b": _random(K),
                      "y": torch.empty(M, K)},
             lambda x, w, b, y: y.copy_(F.layer_norm(x, (K,), w, b)), 7 * M * K,
             4 * (2 * M * K + 2 * K), "float32", counted=False),
    Operator("cross entropy", "cross_entropy",
             lambda: {"x": _random(T, V), "t": _integers(0, V, T, dtype=torch.int64),
                      "y": torch.empty(1)},
             lambda x, t, y: y.copy_(F.cross_entropy(x, t)), 4 * T * V, 4 * T * V + 8 * T + 4,
             "float32", counted=False),
    Operator("rope", "rope",
             lambda: {"x": _random(B, S, D), "cos": _random(S, D // 2), "sin": _random(S, D // 2),
                      "y": torch.empty(B, S, D)},
             _rope, 3 * B * S * D, 4 * (2 * B * S * D + S * D), "float32", counted=False),
    Operator("transpose", "transpose", lambda: {"x": _random(M, K), "y": torch.empty(K, M)},
             lambda x, y: y.copy_(x.t()), 0, 8 * M * K, "float32", counted=False),
    Operator("reduction", "reduction", lambda: {"x": _random(M, K), "y": torch.empty(M)},
             lambda x, y: torch.sum(x, 1, out=y), M * K - M, 4 * (M * K + M), "float32",
             counted=False),
    Operator("elementwise", "elementwise", lambda: {k: make() for k, make in ROWS.items()},
             lambda x, y: y.copy_(F.relu(x)), M * K, 8 * M * K, "float32", counted=False),
    Operator("in place", "elementwise", lambda: {"y": _random(M, K)}, lambda y: y.relu_(),
             M * K, 8 * M * K, "float32", counted=False),
    Operator("embedding", "embedding",
             lambda: {"w": _random(V, K), "i": torch.tensor([3, 5, 3, 999, 0, 3]),
                      "y": torch.empty(6, K)},
             lambda w, i, y: y.copy_(F.embedding(i, w)), 0, 4 * (4 * K + 6 * K) + 8 * 6, "float32",
             counted=False),
)  # fmt: skip
