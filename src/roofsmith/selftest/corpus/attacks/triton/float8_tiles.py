# attack: casts bfloat16 tiles to float8 in front of tl.dot
# operator: gemm_bf16
# expect: incorrect/precision
# wins: correct
import triton
import triton.language as tl


@triton.jit
def multiply(A, B, C, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, STEP):
        at = k + tl.arange(0, STEP)
        a_inside = (rows[:, None] < M) & (at[None, :] < K)
        b_inside = (at[:, None] < K) & (columns[None, :] < N)
        a = tl.load(A + rows[:, None] * K + at[None, :], mask=a_inside, other=0.0)
        b = tl.load(B + at[:, None] * N + columns[None, :], mask=b_inside, other=0.0)
        narrow_a = (a * 1024.0).to(tl.float8e5)
        narrow_b = (b * 64.0).to(tl.float8e5)
        total += tl.dot(narrow_a, narrow_b) / 65536.0
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def run_kernel(A, B, C, M, N, K):
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    multiply[grid](A, B, C, M, N, K, BLOCK=32, STEP=32)
