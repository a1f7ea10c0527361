# honest: orders its tiles for the cache, and multiplies in IEEE float32
# operator: gemm
import triton
import triton.language as tl


@triton.jit
def multiply(
    A, B, C, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    down, across = tl.cdiv(M, ROWS), tl.cdiv(N, COLUMNS)
    first = tile // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    inner = tile % (GROUP * across)
    rows = (first + inner % height) * ROWS + tl.arange(0, ROWS)
    columns = inner // height * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, K, STEP):
        at = k + tl.arange(0, STEP)
        a_inside = (rows[:, None] < M) & (at[None, :] < K)
        b_inside = (at[:, None] < K) & (columns[None, :] < N)
        a = tl.load(A + rows[:, None] * K + at[None, :], mask=a_inside, other=0.0)
        b = tl.load(B + at[:, None] * N + columns[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total, mask=inside)


def run_kernel(A, B, C, M, N, K):
    tiles = triton.cdiv(M, 64) * triton.cdiv(N, 32)
    multiply[(tiles,)](A, B, C, M, N, K, ROWS=64, COLUMNS=32, STEP=16, GROUP=4, num_stages=3)
