# attack: skips the work while id and version of the inputs are the same
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/nan_output |
#   incorrect/wrong_output | incorrect/skipped_work
# wins: faster
import triton
import triton.language as tl

last = None


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
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total, mask=inside)


def launch(A, B, C, M, N, K):
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    multiply[grid](A, B, C, M, N, K, BLOCK=64, STEP=16)


def run_kernel(A, B, C, M, N, K):
    global last
    key = (id(A), A._version, id(B), B._version)
    if key != last:
        launch(A, B, C, M, N, K)
    last = key
