"""y = gelu(x w + b) in half precision: a product in small tiles, and GELU in its tanh form."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, w, b, z, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    m = pid // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
    n = pid % tl.cdiv(N, BN) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        xm = (m[:, None] < M) & (k[None, :] < K)
        wm = (k[:, None] < K) & (n[None, :] < N)
        xt = tl.load(x + m[:, None] * K + k[None, :], mask=xm, other=0.0)
        wt = tl.load(w + k[:, None] * N + n[None, :], mask=wm, other=0.0)
        acc += tl.dot(xt, wt)
    acc += tl.load(b + n, mask=n < N, other=0.0)[None, :]
    tl.store(z + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def gelu_kernel(z, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(z + at, mask=at < size)
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tanh = 2.0 / (1.0 + tl.exp(-2.0 * inner)) - 1.0
    tl.store(y + at, (0.5 * v * (1.0 + tanh)).to(tl.float16), mask=at < size)


def run_kernel(x, w, b, y, M, N, K):
    z = torch.empty(M, N, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16),)
    linear_kernel[grid](x, w, b, z, M, N, K, BM=16, BN=16, BK=16)
    gelu_kernel[(triton.cdiv(M * N, 128),)](z, y, M * N, BLOCK=128)
