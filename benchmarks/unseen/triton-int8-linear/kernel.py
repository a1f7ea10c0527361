"""y = x @ (w * scale).T with float16 x and int8 w, one program per tile of y."""

import triton
import triton.language as tl


@triton.jit
def w8a16_matmul_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    y_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=(offs_m[:, None] < M) & (offs_k[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            w_ptr + offs_n[None, :] * K + offs_k[:, None],
            mask=(offs_n[None, :] < N) & (offs_k[:, None] < K),
            other=0,
        )
        acc += tl.dot(x, w.to(tl.float16))
    scale = tl.load(scale_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    y = acc * scale[None, :]
    tl.store(
        y_ptr + offs_m[:, None] * N + offs_n[None, :],
        y.to(tl.float16),
        mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),
    )


def run_kernel(x, w, scale, y, M, N, K):
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    w8a16_matmul_kernel[grid](x, w, scale, y, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
